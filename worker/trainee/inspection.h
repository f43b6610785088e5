/* inspection.h: what `traind-worker inspect` finds at a path, and how it reads a table. */
#pragma once

#include "base/error.h"
#include "engine/data/detection.h"
#include "engine/data/table_inspection.h"
#include "proto/json.h"

struct inspection {
    const char *path;
    struct detection files;
    bool is_table;
    struct table_inspection table; /* of the first file of the training set */
    struct dataset_config config;
    char comment[TABLE_COMMENT_BYTES]; /* config's comment_prefix points to it */
    struct table_words missing;        /* config's missing_words: the texts, if there are any */
    const char *missing_words[TABLE_WORDS_MAX];
    char
        problem[sizeof((struct error *)0)->text]; /* why nothing can be learnt; "": something can */
};

/* Reads the table of inspection->files. Comments, a title above the names, the decimal sign, blanks
 * as delimiter and words for no value are found by trying. `target` may be NULL: then it is the one
 * column that a test table lacks, else the likeliest one. A test table without the column to
 * predict is taken from the files. 0 or a negative errno with a sentence. */
int inspection_read_table(struct inspection *inspection, const char *target, struct error *error);
/* Takes the choices from suggestions_new() that a table cannot be trained by from the array, by
 * reading it as each says, unless that takes much memory. Sets inspection->problem if none is
 * left. */
void inspection_try(struct inspection *inspection, struct json_object *choices);
