/* table_inspection.h: what is understood of a table before anything is asked of it: its columns and
 * what they hold, for a person who wants to train on it. */
#pragma once

#include "engine/data/dataset.h"

enum { TABLE_EXAMPLES = 3, TABLE_EXAMPLE_BYTES = 64, TABLE_PROBLEM_BYTES = 512 };
enum { TABLE_COMMENT_BYTES = 17 };

/* Texts that stand for no value in a table. */
enum { TABLE_WORDS_MAX = 24, TABLE_WORD_BYTES = 16 };
struct table_words {
    char texts[TABLE_WORDS_MAX][TABLE_WORD_BYTES];
    int count;
};

struct table_inspection_column {
    char *name;         /* owned */
    bool needs_number;  /* a specification cannot name it but by its number */
    const char *kind;   /* "number", "category", "date", "left out", or "unclear" */
    const char *reason; /* why it is left out; NULL: it is not */
    const char *hint;   /* what to do if its texts are meant otherwise; NULL: they are texts */
    int64_t present, missing;
    int32_t different;      /* texts; -1: more than categories may have */
    int64_t longest;        /* bytes of a cell */
    double lowest, highest; /* of numbers; NAN: there are none */
    bool whole;             /* all numbers are whole */
    bool numeric;           /* most cells are numbers */
    bool computable;        /* all are numbers that float32 has */
    bool has_commas;        /* all are numbers, if a comma is the decimal sign */
    bool has_placeholders;  /* all but words such as "-" and "nil" are numbers */
    int32_t values;         /* different ones, where all are numbers: 1 and 1.0 are one */
    bool has_zeros;         /* there are numbers with zeros in front, such as 02134 */
    bool rises,
        falls; /* no cell is before the one above it in the order of bytes, or none behind */
    char examples[TABLE_EXAMPLES][TABLE_EXAMPLE_BYTES]; /* "": none */
    char problem[TABLE_PROBLEM_BYTES]; /* what is to be decided of an unclear one, with the line */
};

struct table_inspection {
    const char *encoding; /* "UTF-8", "UTF-16", "bytes" */
    char delimiter;
    bool has_header;
    int64_t rows, comments; /* comments: lines that were left out */
    /* What the key comment would be if the first row is none of the table; "": it is one. Known
     * also where the table cannot be read */
    char probable_comment[TABLE_COMMENT_BYTES];
    /* Those that the configuration takes as no value and that the table has, with the placeholders
     * of columns of numbers: what the key missing would be for these to be no values, either */
    struct table_words missing;
    struct table_inspection_column *columns; /* owned */
    int32_t count;
    int32_t target;       /* the column that is probably to be predicted */
    bool is_called;       /* its name says so, as "label" does */
    const char *obstacle; /* why it cannot be, where no column can; NULL: it can */
    /* The column that one would expect to be predicted, by its name or place, and why it cannot be;
     * NULL: it can */
    int32_t passed_over;
    const char *passed_over_reason;
    int32_t classes; /* of it; 0: it holds numbers to predict, or classes that are not counted */
};

/* Reads the table at config->paths[0] once, by the configuration's keys of tables. Release with
 * table_inspection_release(), whether this worked or not. */
int table_inspect(const struct dataset_config *config, struct table_inspection *inspection,
                  struct error *error);

/* Whether comments mostly begin so: "#" and the like, no title. */
bool table_comment_is_mark(const char *comment);

/* Predicts the column of this name, or number from 0, instead of the probable one. -EINVAL: there
 * is no such column, or nothing to predict in it. */
int table_inspection_set_target(struct table_inspection *inspection, const char *name,
                                struct error *error);
void table_inspection_release(struct table_inspection *inspection);
