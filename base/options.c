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

enum { NAME_SIZE = 64, ROWS_MAX = 64 };

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

static const struct option_row *find_row(const struct option_table *table, const char *name)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0 && is_allowed(table, &table->rows[i]))
            return &table->rows[i];
    return NULL;
}

static int report_unknown(const struct option_table *table, const char *name, struct error *error)
{
    const char *names[ROWS_MAX], *nearest;
    size_t count = 0;

    for (int i = 0; i < table->count && count < ROWS_MAX; i++)
        if (is_allowed(table, &table->rows[i]))
            names[count++] = table->rows[i].name;
    nearest = text_nearest(name, names, count);
    return error_set(error, -EINVAL, "%s has no option --%s%s%s%s", table->subject, name,
                     nearest ? ", did you mean --" : "", nearest ? nearest : "",
                     nearest ? "?" : "");
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

int option_parse(const struct option_table *table, int argc, char **argv, int *index, void *target,
                 const struct option_row **row, struct error *error)
{
    const char *word = argv[*index] + 2, *value = strchr(word, '=');
    const struct option_row *found;
    char name[NAME_SIZE];

    snprintf(name, sizeof name, "%.*s", value ? (int)(value - word) : (int)strlen(word), word);
    found = find_row(table, name);
    if (!found)
        return report_unknown(table, name, error);
    if (found->type == OPTION_FLAG) {
        if (value)
            return error_set(error, -EINVAL, "--%s takes no value", name);
    } else if (value) {
        value++;
    } else if (*index + 1 < argc) {
        value = argv[++*index];
    } else {
        return error_set(error, -EINVAL, "--%s needs a value: --%s %s", name, name, found->value);
    }
    if (row)
        *row = found;
    return set_member(found, value, (char *)target + found->offset, error);
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
