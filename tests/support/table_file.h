/* table_file.h: the one table that a test writes, how it is to be read, and what is warned of. */
#pragma once

#include "tests/support/data_files.h"

#include <errno.h>

struct table_file {
    const char *path;             /* of the latest table */
    struct dataset_config config; /* which reads it */
    char warnings[4096];          /* a line each, since table_file_reset() */
};
extern struct table_file table_file;

/* As it is read if nothing else is said of the format. */
void table_file_reset(enum dataset_format format);
/* Writes the table and opens it; the test fails if that fails. */
struct dataset *table_file_open(const char *text, const struct dataset *reference);

/* A description of a table (description.h) with `to` in the place of `from` must be refused. */
void table_file_check_damaged(const char *description, const char *from, const char *to);

/* Opening the table beside `reference` must be refused with a sentence that has these pieces. */
#define REFUSE_BESIDE(reference, text, ...)                                      \
    do {                                                                         \
        table_file.path = data_file_write_text("table.csv", text);               \
        data_expect_refusal(&table_file.config, reference, -EINVAL, __VA_ARGS__, \
                            (const char *)NULL);                                 \
    } while (0)
#define REFUSE(text, ...) REFUSE_BESIDE(NULL, text, __VA_ARGS__)
