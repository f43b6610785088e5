/* options.h: command lines. option_read() finds the options among the words, for every program.
 * option_parse() stores those of a table in the members of a struct: "--name", "--name=value" or
 * "--name value". */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- options among the words ----------------------------------------------------------------- */

enum option_value { OPTION_VALUE_NONE, OPTION_VALUE_REQUIRED, OPTION_VALUE_OPTIONAL };

/* How an option is written. An optional value follows "=" alone, never as a word of its own. */
struct option_spelling {
    const char *name; /* behind "--" */
    char letter;      /* behind "-", also in a group of such letters; 0: none */
    enum option_value value;
};

struct option_reader {
    const struct option_spelling *spellings;
    size_t count;
    bool abbreviations; /* "--foll" stands for "--follow" where one name alone begins so */
    int argc;
    char **argv;
    int index; /* of the next word */
    /* the reader's own */
    const char *letters;   /* what is left of a group */
    bool options_are_over; /* "--" was read */
};

enum option_event {
    OPTION_END,           /* no word is left */
    OPTION_FOUND,         /* `spelling` is set, and `value` where there is one */
    OPTION_ARGUMENT,      /* `value` is a word that is no option */
    OPTION_UNKNOWN,       /* `letter`, or with 0 the name at the beginning of `value` */
    OPTION_VALUE_MISSING, /* of `spelling` */
    OPTION_VALUE_UNWANTED /* of `spelling` */
};

struct option_found {
    const struct option_spelling *spelling;
    const char *value; /* borrowed from argv; NULL: none */
    char letter;
};

/* Reads the next option or argument. */
enum option_event option_read(struct option_reader *reader, struct option_found *found);

/* The name that is nearest to that at the beginning of `word`; NULL: none is near. */
const char *option_nearest(const struct option_reader *reader, const char *word);

/* ---- tables of options ----------------------------------------------------------------------- */

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
