/* python_source.c: see python_source.h. It reads tokens, and knows where a statement begins. */
#include "client/inspection/python_source.h"

#include <string.h>

enum { NAME_MAX_BYTES = 256 };

struct source {
    const char *at, *end;
    int depth;           /* of brackets */
    bool statement;      /* a statement begins here */
    bool line_begins;    /* nothing but blanks stands before it in the logical line */
    size_t indent;       /* of the logical line */
    bool skips;          /* below `if TYPE_CHECKING:` … */
    size_t skips_beyond; /* … whose own indent this is */
    bool over;
    python_import_found found;
    void *data;
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static size_t left(const struct source *source)
{
    return (size_t)(source->end - source->at);
}

static void found(struct source *source, int dots, const char *module, const char *name)
{
    if (!source->skips && !source->over)
        source->over = !source->found(source->data, dots, module, name);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Skips blanks, continued lines and, within brackets, line breaks and comments. */
static void skip_blanks(struct source *source, bool lines)
{
    while (source->at < source->end) {
        char c = *source->at;

        if (c == ' ' || c == '\t' || c == '\f' || c == '\r' || (lines && c == '\n'))
            source->at++;
        else if (c == '\\' && left(source) > 1 && source->at[1] == '\n')
            source->at += 2;
        else if (c == '\\' && left(source) > 2 && source->at[1] == '\r' && source->at[2] == '\n')
            source->at += 3;
        else if (lines && c == '#')
            while (source->at < source->end && *source->at != '\n')
                source->at++;
        else
            return;
    }
}

/* Skips a string, from its first quote. A backslash keeps a quote from ending it, in raw strings,
 * too. A string of one line ends with the line. */
static void skip_string(struct source *source)
{
    char quote = *source->at;
    bool triple = left(source) > 2 && source->at[1] == quote && source->at[2] == quote;

    source->at += triple ? 3 : 1;
    while (source->at < source->end) {
        if (*source->at == '\\' && left(source) > 1) {
            source->at += 2;
        } else if (*source->at == quote &&
                   (!triple ||
                    (left(source) > 2 && source->at[1] == quote && source->at[2] == quote))) {
            source->at += triple ? 3 : 1;
            return;
        } else if (*source->at == '\n' && !triple) {
            return;
        } else {
            source->at++;
        }
    }
}

/* Reads a word into `name`; one that is too long is cut. False: none stands here. */
static bool read_word(struct source *source, char name[NAME_MAX_BYTES])
{
    size_t length = 0;

    for (; source->at < source->end && is_word(*source->at); source->at++)
        if (length < NAME_MAX_BYTES - 1)
            name[length++] = *source->at;
    name[length] = '\0';
    return length > 0;
}

/* Reads "a.b.c", with blanks as Python allows them. */
static bool read_dotted(struct source *source, char name[NAME_MAX_BYTES], bool lines)
{
    char part[NAME_MAX_BYTES];
    size_t length = 0;

    name[0] = '\0';
    for (;;) {
        skip_blanks(source, lines);
        if (!read_word(source, part))
            return length > 0;
        if (length + strlen(part) + 2 > NAME_MAX_BYTES)
            return false;
        if (length)
            name[length++] = '.';
        strcpy(name + length, part);
        length += strlen(part);
        skip_blanks(source, lines);
        if (source->at == source->end || *source->at != '.')
            return true;
        source->at++;
    }
}

/* Skips "as NAME", and whether a comma follows. */
static bool skip_alias(struct source *source, bool lines)
{
    char word[NAME_MAX_BYTES];
    const char *before;

    skip_blanks(source, lines);
    before = source->at;
    if (read_word(source, word) && strcmp(word, "as") == 0) {
        skip_blanks(source, lines);
        read_word(source, word);
        skip_blanks(source, lines);
    } else {
        source->at = before;
    }
    if (source->at == source->end || *source->at != ',')
        return false;
    source->at++;
    return true;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* import a.b as c, d */
static void read_import(struct source *source)
{
    char module[NAME_MAX_BYTES];

    do {
        if (!read_dotted(source, module, false))
            return;
        found(source, 0, module, NULL);
    } while (skip_alias(source, false) && !source->over);
}

/* from ..a.b import (c as d, e) */
static void read_from(struct source *source)
{
    char module[NAME_MAX_BYTES] = "", word[NAME_MAX_BYTES];
    const char *before;
    int dots = 0;
    bool brackets;

    for (;; source->at++) {
        skip_blanks(source, false);
        if (source->at == source->end || *source->at != '.')
            break;
        dots++;
    }
    before = source->at;
    if (dots && read_word(source, word) && strcmp(word, "import") == 0)
        source->at = before;
    else {
        source->at = before;
        if (!read_dotted(source, module, false))
            return;
    }
    skip_blanks(source, false);
    if (!read_word(source, word) || strcmp(word, "import") != 0)
        return;
    skip_blanks(source, false);
    brackets = source->at < source->end && *source->at == '(';
    source->at += brackets;
    do {
        skip_blanks(source, brackets);
        if (!read_word(source, word)) { /* "*", or the end of the list */
            found(source, dots, module, NULL);
            return;
        }
        found(source, dots, module, word);
    } while (skip_alias(source, brackets) && !source->over);
}

/* Whether "if" is followed by TYPE_CHECKING: or typing.TYPE_CHECKING:. */
static bool checks_types(const struct source *source)
{
    struct source copy = *source;
    char name[NAME_MAX_BYTES];
    const char *last;

    if (!read_dotted(&copy, name, false) || copy.at == copy.end || *copy.at != ':')
        return false;
    last = strrchr(name, '.');
    return strcmp(last ? last + 1 : name, "TYPE_CHECKING") == 0;
}

/* import_module("a.b"): the cursor stands behind the function's name. */
static void read_call(struct source *source)
{
    struct source copy = *source;
    char module[NAME_MAX_BYTES];
    char quote;

    skip_blanks(&copy, false);
    if (copy.at == copy.end || *copy.at++ != '(')
        return;
    skip_blanks(&copy, true);
    if (copy.at == copy.end || (*copy.at != '"' && *copy.at != '\''))
        return;
    quote = *copy.at++;
    if (read_dotted(&copy, module, false) && copy.at < copy.end && *copy.at == quote)
        found(source, 0, module, NULL);
}

static void read_word_token(struct source *source)
{
    bool statement = source->statement;
    char word[NAME_MAX_BYTES];

    source->statement = false;
    read_word(source, word);
    if (statement && strcmp(word, "import") == 0) {
        read_import(source);
    } else if (statement && strcmp(word, "from") == 0) {
        read_from(source);
    } else if (statement && source->line_begins && strcmp(word, "if") == 0 && !source->skips &&
               checks_types(source)) {
        source->skips = true;
        source->skips_beyond = source->indent;
    } else if (strcmp(word, "import_module") == 0 || strcmp(word, "__import__") == 0) {
        read_call(source);
    }
    source->line_begins = false;
}

/* The indent of the line that begins here decides whether skipping ends; empty lines and comments
 * have none. */
static void begin_line(struct source *source)
{
    const char *start = source->at;

    while (source->at < source->end && (*source->at == ' ' || *source->at == '\t'))
        source->at++;
    source->statement = source->line_begins = true;
    if (source->at == source->end || *source->at == '\n' || *source->at == '\r' ||
        *source->at == '#')
        return;
    source->indent = (size_t)(source->at - start);
    if (source->skips && source->indent <= source->skips_beyond)
        source->skips = false;
}

static void read_token(struct source *source)
{
    char c = *source->at;

    if (c == '\n') {
        source->at++;
        if (source->depth == 0)
            begin_line(source);
    } else if (c == '#') {
        while (source->at < source->end && *source->at != '\n')
            source->at++;
    } else if (c == '"' || c == '\'') {
        source->statement = source->line_begins = false;
        skip_string(source);
    } else if (is_word(c)) {
        read_word_token(source);
    } else if (c == '\\' || c == ' ' || c == '\t' || c == '\f' || c == '\r') {
        const char *before = source->at;

        skip_blanks(source, false);
        source->at += source->at == before;
    } else {
        source->depth += c == '(' || c == '[' || c == '{';
        source->depth -= source->depth > 0 && (c == ')' || c == ']' || c == '}');
        source->statement = source->depth == 0 && (c == ':' || c == ';');
        source->line_begins = false;
        source->at++;
    }
}

void python_source_imports(const char *text, size_t size, python_import_found callback, void *data)
{
    struct source source = {.at = text, .end = text + size, .found = callback, .data = data};

    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        source.at += 3;
    begin_line(&source);
    while (source.at < source.end && !source.over)
        read_token(&source);
}
