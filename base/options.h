/* options.h: command lines whose options are rows of a table: "--name", "--name=value" or
 * "--name value", each stored in a member of a struct. trainctl, whose options differ by command
 * and come mixed with arguments, reads its own with getopt_long(3). */
#pragma once

#include "base/error.h"

#include <stddef.h>

enum option_type {
    OPTION_FLAG,          /* bool: becomes true, takes no value */
    OPTION_TEXT,          /* const char *: the word itself, not copied */
    OPTION_COUNT,         /* int: 1 to OPTION_COUNT_MAX */
    OPTION_NUMBER,        /* double, finite, at least 0 */
    OPTION_SIGNED_NUMBER, /* double, finite */
    OPTION_SEED,          /* uint64_t */
    OPTION_NAME           /* int: the place of the word among those of the row's `value` */
};
enum { OPTION_COUNT_MAX = 1000000 };

struct option_row {
    const char *name;
    enum option_type type;
    size_t offset;     /* of the member */
    const char *value; /* as the help shows it; NULL for a flag; OPTION_NAME: "one|other|third" */
    const char *help;
};

struct option_table {
    const char *subject; /* whose options they are: "plan has no option --x" */
    const struct option_row *rows;
    int count;
    const char *allowed; /* names of the rows that are valid here, blank-separated; NULL: all */
};

/* Reads the option at argv[*index], which begins with "--", into `target`; `*index` moves to its
 * last word. `row`, unless NULL, is set to what was found. -EINVAL with a sentence. */
int option_parse(const struct option_table *table, int argc, char **argv, int *index, void *target,
                 const struct option_row **row, struct error *error);

/* A line for each row on standard output, names padded to `width`. */
void options_print_help(const struct option_row *rows, int count, int width);
