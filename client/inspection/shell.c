/* shell.c: the commands of a shell script, or of `bash -c TEXT`. It knows quotes, comments,
 * variables, cd, source and here-documents, as sh(1) of POSIX has them
 * (pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html). Conditions are not decided:
 * all commands count. What only a run would tell, such as the output of a command, is left out. */
#include "base/memory.h"
#include "client/inspection/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES_MAX = 64 * 1024 };

struct script {
    struct look *look;
    const char *at, *end;
    const char *name;                /* $0 */
    char *const *arguments;          /* $1, …; they end with NULL */
    char *directory;                 /* owned */
    char *words[LOOK_WORDS_MAX + 1]; /* of the command that is read; owned */
    size_t count;
    FILE *output;       /* of the word that is read; NULL: none */
    size_t word_length; /* bytes written to it */
    char *word;         /* what is written to it */
    size_t word_size;
    bool drops_word;   /* it is the target of a redirection */
    char *here;        /* the word that ends the here-document; owned; NULL: none */
    bool here_indents; /* <<-: its lines may be indented with tabs */
    bool wants_here;   /* the next word is that word */
};

static void script_run(struct look *look, const char *directory, const char *text, size_t size,
                       const char *name, char *const *arguments);

/* ---- words ----------------------------------------------------------------------------------- */

static void word_begin(struct script *script)
{
    if (script->output)
        return;
    script->output = open_memstream(&script->word, &script->word_size);
    script->word_length = 0;
}

static void word_put(struct script *script, const char *text, size_t length)
{
    word_begin(script);
    if (!script->output || length > WORD_BYTES_MAX - script->word_length)
        return; /* A=$A$A may grow without end */
    fwrite(text, 1, length, script->output);
    script->word_length += length;
}

static void word_end(struct script *script)
{
    if (!script->output)
        return;
    fclose(script->output);
    script->output = NULL;
    if (script->wants_here && !script->here) {
        script->here = script->word;
        script->wants_here = false;
    } else if (script->drops_word || script->count == LOOK_WORDS_MAX) {
        free(script->word);
    } else {
        script->words[script->count++] = script->word;
    }
    script->word = NULL;
    script->drops_word = false;
}

/* Writes the value of a variable; without quotes it is divided into words. */
static void value_put(struct script *script, const char *value, bool quoted)
{
    if (quoted) {
        word_put(script, value, strlen(value));
        return;
    }
    while (*value) {
        size_t length = strcspn(value, " \t\n");

        if (length)
            word_put(script, value, length);
        value += length;
        if (*value)
            word_end(script);
        value += strspn(value, " \t\n");
    }
}

static void variable_put(struct script *script, const char *name, bool quoted)
{
    char *const *arguments = script->arguments;
    const char *value;

    if (strcmp(name, "@") == 0 || strcmp(name, "*") == 0) {
        for (; *arguments; arguments++) {
            value_put(script, *arguments, quoted);
            if (arguments[1])
                word_end(script);
        }
        return;
    }
    if (strcmp(name, "0") == 0 || strncmp(name, "BASH_SOURCE", 11) == 0) {
        value_put(script, script->name, quoted);
        return;
    }
    if (name[0] >= '1' && name[0] <= '9' && !name[1]) {
        size_t wanted = (size_t)(name[0] - '1');

        for (size_t i = 0; arguments[i]; i++)
            if (i == wanted)
                value_put(script, arguments[i], quoted);
        return;
    }
    value = strcmp(name, "PWD") == 0 ? script->directory : look_variable(script->look, name);
    if (value)
        value_put(script, value, quoted);
}

/* Skips what a bracket opens, to its end. `at` stands behind the bracket. */
static const char *bracket_end(const struct script *script, const char *at, char open, char close)
{
    for (int depth = 1; at < script->end; at++) {
        depth += *at == open;
        depth -= *at == close;
        if (depth == 0)
            return at;
    }
    return script->end;
}

/* Looks at the commands of $(…) or `…`, and writes their output where it is known: the folder of
 * the script. */
static void substitution_read(struct script *script, const char *text, size_t length, bool quoted)
{
    AUTO_FREE char *copy = memory_format("%.*s", (int)length, text);
    AUTO_FREE char *folder = memory_copy_text(script->name);
    char *slash = strrchr(folder, '/');

    if (strstr(copy, "dirname") && (strstr(copy, "$0") || strstr(copy, "BASH_SOURCE"))) {
        if (slash)
            *slash = '\0';
        value_put(script, slash ? folder : ".", quoted);
    } else if (strcmp(copy, "pwd") == 0) {
        value_put(script, script->directory, quoted);
    } else if (*copy != '(') { /* else it is arithmetic */
        script_run(script->look, script->directory, copy, length, script->name, script->arguments);
    }
}

static void backticks_read(struct script *script, bool quoted)
{
    const char *text = script->at + 1, *end = memchr(text, '`', (size_t)(script->end - text));

    end = end ? end : script->end;
    script->at = end + (end < script->end);
    substitution_read(script, text, (size_t)(end - text), quoted);
}

/* Reads what stands behind "$". */
static void expansion_read(struct script *script, bool quoted)
{
    static const char name_bytes[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    char name[128];
    const char *start = ++script->at;
    size_t length = 0;

    if (quoted)
        word_begin(script);
    if (start >= script->end)
        return;
    if (*start == '(') {
        script->at = bracket_end(script, start + 1, '(', ')');
        substitution_read(script, start + 1, (size_t)(script->at - start - 1), quoted);
        script->at += script->at < script->end;
        return;
    }
    if (*start == '{') {
        script->at = bracket_end(script, start + 1, '{', '}');
        length = strspn(start + 1, name_bytes);
        if (length == 0 && start[1] && strchr("@*", start[1]))
            length = 1;
        snprintf(name, sizeof name, "%.*s", (int)length, start + 1);
        script->at += script->at < script->end;
    } else {
        length = strchr("@*#?$!-", *start) || (*start >= '0' && *start <= '9')
                     ? 1
                     : strspn(start, name_bytes);
        snprintf(name, sizeof name, "%.*s", (int)length, start);
        script->at = start + length;
        if (length == 0)
            word_put(script, "$", 1);
    }
    if (*name)
        variable_put(script, name, quoted);
}

static void double_quotes_read(struct script *script)
{
    word_begin(script);
    for (script->at++; script->at < script->end && *script->at != '"';) {
        if (*script->at == '\\' && script->at + 1 < script->end &&
            strchr("$`\"\\\n", script->at[1])) {
            if (script->at[1] != '\n')
                word_put(script, script->at + 1, 1);
            script->at += 2;
        } else if (*script->at == '$') {
            expansion_read(script, true);
        } else if (*script->at == '`') {
            backticks_read(script, true);
        } else {
            word_put(script, script->at++, 1);
        }
    }
    script->at += script->at < script->end;
}

static void single_quotes_read(struct script *script)
{
    const char *end = memchr(script->at + 1, '\'', (size_t)(script->end - script->at - 1));

    if (!end)
        end = script->end;
    word_begin(script);
    word_put(script, script->at + 1, (size_t)(end - script->at - 1));
    script->at = end + (end < script->end);
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Whether the word is NAME=VALUE. */
static bool is_assignment(const char *word)
{
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

    return length > 0 && !(word[0] >= '0' && word[0] <= '9') && word[length] == '=';
}

static void assign(struct script *script, const char *word)
{
    AUTO_FREE char *name = memory_format("%.*s", (int)strcspn(word, "="), word);

    json_set_string(script->look->assigned, name, strchr(word, '=') + 1);
}

/* Runs the builtins that matter here, and leaves out those that start nothing. False: it is
 * neither. */
static bool builtin_run(struct script *script, char **words, size_t count)
{
    static const char *const exports[] = {"export",   "declare", "local",
                                          "readonly", "typeset", NULL};
    static const char *const others[] = {
        "echo",  "printf", "test", "[",     "[[",       "set",    "shift", "exit",  "return",
        "trap",  "read",   "wait", "kill",  "umask",    "ulimit", "true",  "false", ":",
        "unset", "type",   "hash", "break", "continue", "alias",  "shopt", "popd",  NULL};

    if (is_one_of(words[0], exports)) {
        for (size_t i = 1; i < count; i++)
            if (is_assignment(words[i]))
                assign(script, words[i]);
        return true;
    }
    if (strcmp(words[0], "cd") == 0 || strcmp(words[0], "pushd") == 0) {
        if (count > 1 && words[1][0] != '-') {
            char *folder = look_path(script->directory, words[1]);

            free(script->directory);
            script->directory = folder;
        }
        return true;
    }
    if ((strcmp(words[0], ".") == 0 || strcmp(words[0], "source") == 0) && count > 1) {
        AUTO_FREE char *path = look_path(script->directory, words[1]);
        size_t size = 0;
        AUTO_FREE char *text = look_read(script->look, path, LOOK_FILE_BYTES, &size);

        if (text)
            script_run(script->look, script->directory, text, size, script->name,
                       script->arguments);
        return true;
    }
    if (strcmp(words[0], "eval") == 0) {
        AUTO_FREE char *text = memory_copy_text("");

        for (size_t i = 1; i < count; i++) {
            char *longer = memory_format("%s %s", text, words[i]);

            free(text);
            text = longer;
        }
        script_run(script->look, script->directory, text, strlen(text), script->name,
                   script->arguments);
        return true;
    }
    return is_one_of(words[0], others);
}

/* Whether the command is a Python that reads its program from standard input. */
static bool reads_program(char **words, size_t count)
{
    const char *slash = strrchr(words[0], '/');

    return strncmp(slash ? slash + 1 : words[0], "python", 6) == 0 &&
           (count == 1 || strcmp(words[1], "-") == 0);
}

/* Looks at a command that the script starts. A program that is not there starts nothing. */
static void command_start(struct script *script, char **words, size_t count, const char *here,
                          size_t here_size)
{
    struct look *look = script->look;
    struct look_words command = {words, count, script->directory};
    AUTO_FREE char *path = NULL;

    if (builtin_run(script, words, count))
        return;
    if (here && reads_program(words, count)) {
        look_at_python_text(look, script->directory, "the text for python", here, here_size);
        return;
    }
    if (reads_program(words, count)) { /* from a file or a pipe */
        look->unknown = true;
        return;
    }
    path = look_program_path(look, script->directory, words[0]);
    if (path || look->depth == LOOK_DEPTH_MAX)
        look_at_words(look, &command);
    else
        look_at_launcher(look, &command);
}

/* Looks at the words that were read, without what the shell's grammar puts before them. */
static void command_end(struct script *script, const char *here, size_t here_size)
{
    static const char *const reserved[] = {"if", "then", "elif", "else",     "while",  "until",
                                           "do", "done", "fi",   "esac",     "!",      "{",
                                           "}",  "time", "in",   "function", "coproc", NULL};
    static const char *const lists[] = {"for", "case", "select", NULL};
    char *wrapped[LOOK_WORDS_MAX + 2] = {(char *)"env"};
    size_t first = 0, assignments = 0, count;

    word_end(script);
    script->drops_word = false;
    while (first < script->count && is_one_of(script->words[first], reserved))
        first += strcmp(script->words[first], "function") == 0 && first + 1 < script->count ? 2 : 1;
    count = script->count - first;
    while (assignments < count && is_assignment(script->words[first + assignments]))
        assignments++;
    script->words[script->count] = NULL;
    if (count > 0 && is_one_of(script->words[first], lists)) {
        /* its words are data */
    } else if (assignments == count) {
        for (size_t i = 0; i < count; i++)
            assign(script, script->words[first + i]);
    } else if (assignments > 0) { /* they hold for this command alone, as with env(1) */
        memcpy(wrapped + 1, script->words + first, (count + 1) * sizeof *wrapped);
        look_at_words(script->look, &(struct look_words){wrapped, count + 1, script->directory});
    } else {
        command_start(script, script->words + first, count, here, here_size);
    }
    for (size_t i = 0; i < script->count; i++)
        free(script->words[i]);
    script->count = 0;
}

/* Reads the here-document that begins with this line, and leaves the cursor behind its end. */
static void here_read(struct script *script)
{
    const char *start = script->at, *line = start, *end = script->end;

    while (line < script->end) {
        const char *text = line, *next = memchr(line, '\n', (size_t)(script->end - line));
        size_t length;

        next = next ? next : script->end;
        while (script->here_indents && text < next && *text == '\t')
            text++;
        length = (size_t)(next - text);
        if (length == strlen(script->here) && memcmp(text, script->here, length) == 0) {
            end = line;
            line = next;
            break;
        }
        line = next + (next < script->end);
    }
    if (end > line)
        end = line;
    script->at = line;
    free(script->here);
    script->here = NULL;
    command_end(script, start, (size_t)(end - start));
}

/* Reads "<", ">" and what belongs to them: the next word is a file's name. */
static void redirection_read(struct script *script)
{
    bool is_number = script->output != NULL;

    if (script->output) { /* the number of a descriptor */
        fflush(script->output);
        is_number = script->word_size == 1 && *script->word >= '0' && *script->word <= '9';
        if (is_number)
            script->drops_word = true;
        word_end(script);
    }
    if (script->end - script->at >= 3 && memcmp(script->at, "<<<", 3) == 0) {
        script->at += 3;
        script->drops_word = true;
        return;
    }
    if (script->end - script->at >= 2 && memcmp(script->at, "<<", 2) == 0) {
        script->at += 2;
        script->here_indents = script->at < script->end && *script->at == '-';
        script->at += script->here_indents;
        script->wants_here = true;
        return;
    }
    script->at++;
    while (script->at < script->end && strchr("<>&|", *script->at))
        script->at++;
    script->drops_word = true;
}

static void token_read(struct script *script)
{
    char c = *script->at;

    if (c == '\\' && script->at + 1 < script->end) {
        if (script->at[1] != '\n')
            word_put(script, script->at + 1, 1);
        script->at += 2;
    } else if (c == '\'') {
        single_quotes_read(script);
    } else if (c == '"') {
        double_quotes_read(script);
    } else if (c == '$') {
        expansion_read(script, false);
    } else if (c == '~' && !script->output) {
        variable_put(script, "HOME", true);
        script->at++;
    } else if (c == '`') {
        backticks_read(script, false);
    } else if (c == '#' && !script->output) {
        const char *end = memchr(script->at, '\n', (size_t)(script->end - script->at));

        script->at = end ? end : script->end;
    } else if (c == '<' || c == '>' ||
               (c == '&' && script->at + 1 < script->end && script->at[1] == '>')) {
        redirection_read(script);
    } else if (c == ' ' || c == '\t' || c == '\r') {
        word_end(script);
        script->at++;
    } else if (c == '\n' || strchr(";&|()", c)) {
        word_end(script);
        script->at++;
        if (script->here && c == '\n')
            here_read(script);
        else if (!script->here)
            command_end(script, NULL, 0);
    } else {
        word_put(script, script->at++, 1);
    }
}

static void script_run(struct look *look, const char *directory, const char *text, size_t size,
                       const char *name, char *const *arguments)
{
    struct script script = {.look = look,
                            .at = text,
                            .end = text + size,
                            .name = name,
                            .arguments = arguments,
                            .directory = memory_copy_text(directory)};

    if (look->depth == LOOK_DEPTH_MAX) /* eval of itself, for example */
        look->unknown = true;
    look->depth++;
    while (look->depth <= LOOK_DEPTH_MAX && script.at < script.end && *script.at &&
           !look_is_over(look))
        token_read(&script);
    command_end(&script, NULL, 0);
    look->depth--;
    free(script.here);
    free(script.directory);
}

/* ---- the shell ------------------------------------------------------------------------------- */

static void look_at_text(struct look *look, const struct look_words *command, size_t at)
{
    size_t name = at + 1 < command->count ? at + 1 : 0;

    script_run(look, command->directory, command->words[at], strlen(command->words[at]),
               command->words[name],
               name ? command->words + name + 1 : command->words + command->count);
    look_found_none(look, "the commands after -c use no GPU");
}

static void look_at_script(struct look *look, const struct look_words *command, size_t at)
{
    AUTO_FREE char *path = look_path(command->directory, command->words[at]);
    size_t size = 0;
    AUTO_FREE char *text = look_read(look, path, LOOK_FILE_BYTES, &size);

    if (!text) {
        look->unknown = look->unknown || !look->read_before;
        return;
    }
    script_run(look, command->directory, text, size, path, command->words + at + 1);
    look_found_none(look, "%s starts nothing that uses a GPU", command->words[at]);
}

void look_at_shell(struct look *look, const struct look_words *command)
{
    bool is_text = false;
    size_t at = 1;

    for (; at < command->count && (command->words[at][0] == '-' || command->words[at][0] == '+');
         at++) {
        const char *word = command->words[at];

        if (word[1] == '-')
            continue;
        is_text |= strchr(word, 'c') != NULL;
        at += word[strlen(word) - 1] == 'o'; /* -o OPTION, -eo pipefail */
    }
    if (at >= command->count)
        look_found_none(look, "%s has no program to run", command->words[0]);
    else if (is_text)
        look_at_text(look, command, at);
    else
        look_at_script(look, command, at);
}
