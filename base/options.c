/* options.c: see options.h. */
#include "base/options.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 64, OPTIONS_MAX = 64 };

/* ---- options among the words ----------------------------------------------------------------- */

/* The option of that name. With `abbreviations`, also the only option whose name begins so. */
static const struct option_spelling *find_name(const struct option_reader *reader, const char *name,
                                               size_t length)
{
    const struct option_spelling *found = NULL;
    size_t matches = 0;

    for (size_t i = 0; i < reader->count; i++) {
        const struct option_spelling *spelling = &reader->spellings[i];

        if (strncmp(spelling->name, name, length) != 0)
            continue;
        if (!spelling->name[length])
            return spelling;
        found = spelling;
        matches++;
    }
    return reader->abbreviations && matches == 1 ? found : NULL;
}

static enum option_event take_next_word(struct option_reader *reader, struct option_found *found)
{
    if (reader->index >= reader->argc)
        return OPTION_VALUE_MISSING;
    found->value = reader->argv[reader->index++];
    return OPTION_FOUND;
}

/* `word`: what follows "--". */
static enum option_event read_name(struct option_reader *reader, const char *word,
                                   struct option_found *found)
{
    const char *sign = strchr(word, '=');

    found->spelling = find_name(reader, word, sign ? (size_t)(sign - word) : strlen(word));
    if (!found->spelling) {
        found->value = word;
        return OPTION_UNKNOWN;
    }
    if (sign && found->spelling->value == OPTION_VALUE_NONE)
        return OPTION_VALUE_UNWANTED;
    if (sign)
        found->value = sign + 1;
    return !sign && found->spelling->value == OPTION_VALUE_REQUIRED ? take_next_word(reader, found)
                                                                    : OPTION_FOUND;
}

/* Reads the next letter of a group. If the letter's option takes a value, the rest of the group is
 * the value. */
static enum option_event read_letter(struct option_reader *reader, struct option_found *found)
{
    found->letter = *reader->letters++;
    for (size_t i = 0; i < reader->count && !found->spelling; i++)
        if (reader->spellings[i].letter == found->letter)
            found->spelling = &reader->spellings[i];
    if (!found->spelling)
        return OPTION_UNKNOWN;
    if (found->spelling->value != OPTION_VALUE_REQUIRED)
        return OPTION_FOUND;
    if (!*reader->letters)
        return take_next_word(reader, found);
    found->value = reader->letters;
    reader->letters = NULL;
    return OPTION_FOUND;
}

enum option_event option_read(struct option_reader *reader, struct option_found *found)
{
    const char *word;

    *found = (struct option_found){0};
    if (reader->letters && *reader->letters)
        return read_letter(reader, found);
    if (reader->index >= reader->argc)
        return OPTION_END;
    word = reader->argv[reader->index++];
    if (reader->options_are_over || word[0] != '-' || !word[1]) {
        found->value = word;
        return OPTION_ARGUMENT;
    }
    if (strcmp(word, "--") == 0) {
        reader->options_are_over = true;
        return option_read(reader, found);
    }
    if (word[1] == '-')
        return read_name(reader, word + 2, found);
    reader->letters = word + 1;
    return read_letter(reader, found);
}

const char *option_nearest(const struct option_reader *reader, const char *word)
{
    const char *names[OPTIONS_MAX];
    char name[NAME_SIZE];
    size_t count = 0;

    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): an unknown option has its word */
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (; count < reader->count && count < OPTIONS_MAX; count++)
        names[count] = reader->spellings[count].name;
    return text_nearest(name, names, count);
}

/* ---- programs that take options alone -------------------------------------------------------- */

/* Says why a word is refused, with the help unless it is no option at all. */
static int refuse_word(const struct option_program *program, const struct option_reader *reader,
                       enum option_event event, const struct option_found *found)
{
    const char *nearest;

    if (event == OPTION_ARGUMENT) {
        fprintf(stderr, "%s: unexpected argument \"%s\"\n", program->name, found->value);
        return OPTION_EXIT_USAGE;
    }
    if (event == OPTION_VALUE_MISSING) {
        fprintf(stderr, "%s: --%s needs a value\n", program->name, found->spelling->name);
    } else if (event == OPTION_VALUE_UNWANTED) {
        fprintf(stderr, "%s: --%s takes no value\n", program->name, found->spelling->name);
    } else if (found->letter) {
        fprintf(stderr, "%s: unknown option -%c\n", program->name, found->letter);
    } else {
        nearest = option_nearest(reader, found->value);
        fprintf(stderr, "%s: unknown option --%s%s%s%s\n", program->name, found->value,
                nearest ? "; did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
    }
    program->print_help(stderr);
    return OPTION_EXIT_USAGE;
}

int option_read_all(const struct option_program *program, int argc, char **argv, void *data)
{
    struct option_reader reader = {.spellings = program->spellings,
                                   .count = program->count,
                                   .abbreviations = true,
                                   .argc = argc,
                                   .argv = argv,
                                   .index = 1};
    struct option_found found;
    enum option_event event;
    int status = -1;

    while (status < 0 && (event = option_read(&reader, &found)) != OPTION_END)
        status =
            event == OPTION_FOUND
                ? program->take((size_t)(found.spelling - program->spellings), found.value, data)
                : refuse_word(program, &reader, event, &found);
    return status;
}

/* ---- tables of options ----------------------------------------------------------------------- */

/* Whether `name` is one of the blank-separated words. */
static bool has_word(const char *words, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = words; (at = strstr(at, name)); at += length) {
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

static bool is_allowed(const struct option_table *table, const struct option_row *row)
{
    return !table->allowed || has_word(table->allowed, row->name);
}

static int set_count(const struct option_row *row, const char *value, int *member,
                     struct error *error)
{
    char *end;
    long count;

    errno = 0;
    count = strtol(value, &end, 10);
    if (errno || end == value || *end || count < 1 || count > OPTION_COUNT_MAX)
        return error_set(error, -EINVAL, "--%s must be a number from 1 to %d, not \"%s\"",
                         row->name, OPTION_COUNT_MAX, value);
    *member = (int)count;
    return 0;
}

static int set_number(const struct option_row *row, const char *value, double *member,
                      struct error *error)
{
    bool negative = row->type == OPTION_SIGNED_NUMBER;
    char *end;
    double number = strtod(value, &end);

    if (end == value || *end || !isfinite(number) || (number < 0 && !negative))
        return error_set(error, -EINVAL, "--%s must be a number%s, not \"%s\"", row->name,
                         negative ? "" : " from 0", value);
    *member = number;
    return 0;
}

static int set_seed(const struct option_row *row, const char *value, uint64_t *member,
                    struct error *error)
{
    char *end;
    unsigned long long seed;

    errno = 0;
    seed = strtoull(value, &end, 10);
    if (errno || end == value || *end || strchr(value, '-'))
        return error_set(error, -EINVAL, "--%s must be a whole number from 0, not \"%s\"",
                         row->name, value);
    *member = seed;
    return 0;
}

static int set_name(const struct option_row *row, const char *value, int *member,
                    struct error *error)
{
    size_t length = strlen(value);
    int place = 0;

    for (const char *name = row->value; name; place++) {
        const char *end = strchrnul(name, '|');

        if ((size_t)(end - name) == length && strncmp(name, value, length) == 0) {
            *member = place;
            return 0;
        }
        name = *end ? end + 1 : NULL;
    }
    return error_set(error, -EINVAL, "--%s is one of %s, not \"%s\"", row->name, row->value, value);
}

static int set_member(const struct option_row *row, const char *value, void *member,
                      struct error *error)
{
    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)member = value;
        return 0;
    case OPTION_COUNT:
        return set_count(row, value, member, error);
    case OPTION_NUMBER:
    case OPTION_SIGNED_NUMBER:
        return set_number(row, value, member, error);
    case OPTION_SEED:
        return set_seed(row, value, member, error);
    case OPTION_NAME:
        return set_name(row, value, member, error);
    }
    return 0;
}

/* Fills the sentence that says why the word was refused. */
static int refuse(const struct option_table *table, const struct option_reader *reader,
                  enum option_event event, const struct option_found *found,
                  const struct option_row *row, struct error *error)
{
    const char *nearest;

    if (event == OPTION_VALUE_MISSING)
        return error_set(error, -EINVAL, "--%s needs a value: --%s %s", row->name, row->name,
                         row->value);
    if (event == OPTION_VALUE_UNWANTED)
        return error_set(error, -EINVAL, "--%s takes no value", row->name);
    /* "--" alone ends the options for option_read(); a table has no arguments */
    if (event != OPTION_UNKNOWN)
        return error_set(error, -EINVAL, "%s has no option --", table->subject);
    nearest = option_nearest(reader, found->value);
    return error_set(error, -EINVAL, "%s has no option --%.*s%s%s%s", table->subject,
                     (int)strcspn(found->value, "="), found->value,
                     nearest ? ", did you mean --" : "", nearest ? nearest : "",
                     nearest ? "?" : "");
}

int option_parse(const struct option_table *table, int argc, char **argv, int *index, void *target,
                 const struct option_row **row, struct error *error)
{
    struct option_spelling spellings[OPTIONS_MAX];
    const struct option_row *rows[OPTIONS_MAX], *read = NULL;
    struct option_reader reader = {
        .spellings = spellings, .argc = argc, .argv = argv, .index = *index};
    struct option_found found;
    enum option_event event;

    for (int i = 0; i < table->count && reader.count < OPTIONS_MAX; i++) {
        const struct option_row *each = &table->rows[i];

        if (!is_allowed(table, each))
            continue;
        rows[reader.count] = each;
        spellings[reader.count++] = (struct option_spelling){
            .name = each->name,
            .value = each->type == OPTION_FLAG ? OPTION_VALUE_NONE : OPTION_VALUE_REQUIRED};
    }
    event = option_read(&reader, &found);
    if (found.spelling)
        read = rows[found.spelling - spellings];
    if (event != OPTION_FOUND || !read || (read->type != OPTION_FLAG && !found.value))
        return refuse(table, &reader, event, &found, read, error);
    *index = reader.index - 1;
    if (row)
        *row = read;
    return set_member(read, found.value, (char *)target + read->offset, error);
}

void options_print_help(const struct option_row *rows, int count, int width)
{
    for (int i = 0; i < count; i++) {
        char option[2 * NAME_SIZE];

        snprintf(option, sizeof option, "--%s%s%s", rows[i].name, rows[i].value ? " " : "",
                 rows[i].value ? rows[i].value : "");
        if (strlen(option) > (size_t)width)
            printf("  %s\n  %-*s %s\n", option, width, "", rows[i].help);
        else
            printf("  %-*s %s\n", width, option, rows[i].help);
    }
}
