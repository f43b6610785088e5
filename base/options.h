/* options.h: parses command lines. option_read() finds the options among the words, for every
 * program. option_parse() stores those of a table in the members of a struct: "--name",
 * "--name=value" or "--name value". */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- options among the words ----------------------------------------------------------------- */

enum option_value { OPTION_VALUE_NONE, OPTION_VALUE_REQUIRED, OPTION_VALUE_OPTIONAL };

/* How an option is written. An optional value follows "=" and is never a separate word. */
struct option_spelling {
    const char *name; /* after "--" */
    char letter;      /* after "-", also in a group of letters such as "-ab"; 0: none */
    enum option_value value;
};

struct option_reader {
    const struct option_spelling *spellings;
    size_t count;
    bool abbreviations; /* "--foll" stands for "--follow" if no other name begins so */
    int argc;
    char **argv;
    int index; /* of the next word */
    /* private to option_read() */
    const char *letters;   /* the unread rest of a group of letters */
    bool options_are_over; /* "--" was read */
};

enum option_event {
    OPTION_END,           /* no word is left */
    OPTION_FOUND,         /* `spelling` is set, and `value` if there is one */
    OPTION_ARGUMENT,      /* `value` is a word that is not an option */
    OPTION_UNKNOWN,       /* the letter `letter`; if that is 0, the name that `value` begins with */
    OPTION_VALUE_MISSING, /* `spelling` needs a value */
    OPTION_VALUE_UNWANTED /* `spelling` takes no value */
};

struct option_found {
    const struct option_spelling *spelling;
    const char *value; /* borrowed from argv; NULL: none */
    char letter;
};

/* Reads the next option or argument. */
enum option_event option_read(struct option_reader *reader, struct option_found *found);

/* The option name nearest to the one that `word` begins with; NULL: none is near. */
const char *option_nearest(const struct option_reader *reader, const char *word);

/* ---- programs that take options alone -------------------------------------------------------- */

enum { OPTION_EXIT_USAGE = 2 }; /* the exit status of a program whose command line is wrong */

struct option_program {
    const char *name; /* begins each sentence: "traind: unknown option --x" */
    void (*print_help)(FILE *output);
    const struct option_spelling *spellings;
    size_t count;
    /* Takes the option of this index among the spellings. -1 to go on, else the exit status. */
    int (*take)(size_t option, const char *value, void *data);
};

/* Reads a whole command line; names may be abbreviated. Returns -1 to go on, else the exit status,
 * after what is wrong has been printed on standard error. `data` is handed to take(). */
int option_read_all(const struct option_program *program, int argc, char **argv, void *data);

/* ---- tables of options ----------------------------------------------------------------------- */

enum option_type {
    OPTION_FLAG,          /* bool: set to true, takes no value */
    OPTION_TEXT,          /* const char *: the word itself, not copied */
    OPTION_COUNT,         /* int: 1 to OPTION_COUNT_MAX */
    OPTION_NUMBER,        /* double, finite, at least 0 */
    OPTION_SIGNED_NUMBER, /* double, finite */
    OPTION_SEED,          /* uint64_t */
    OPTION_NAME           /* int: the index of the word in the row's `value` */
};
enum { OPTION_COUNT_MAX = 1000000 };

struct option_row {
    const char *name;
    enum option_type type;
    size_t offset;     /* of the member */
    const char *value; /* its name in the help; NULL for a flag; OPTION_NAME: "one|other|third" */
    const char *help;
};

struct option_table {
    const char *subject; /* begins error sentences: "plan has no option --x" */
    const struct option_row *rows;
    int count;
    const char *allowed; /* names of the valid rows, separated by blanks; NULL: all */
};

/* Reads the option at argv[*index], which begins with "--", into `target`; `*index` moves to the
 * option's last word. `row`, unless NULL, is set to the option's row. -EINVAL with a sentence. */
int option_parse(const struct option_table *table, int argc, char **argv, int *index, void *target,
                 const struct option_row **row, struct error *error);

/* Prints one line for each row on standard output, with names padded to `width`. */
void options_print_help(const struct option_row *rows, int count, int width);
