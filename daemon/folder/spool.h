/* spool.h: reading an attempt's spool: bytes become lines, lines become checked records. Pure but
 * for spool_read(), which reads the file; what is done with the records is in
 * attempts/spool_ingest.c. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPOOL_LINE_MAX = 1024 * 1024,
    SPOOL_READ_SIZE = 128 * 1024, /* what one batch reads, unless a line is longer */
    SPOOL_BATCH_RECORDS = 1024,
    SPOOL_COMPLAINTS_MAX = 20, /* lines of one attempt that are reported one by one */
    /* so that what is known of a job fits into a message: */
    SPOOL_TEXT_MAX = 1000, /* bytes; longer texts are cut */
    SPOOL_NAME_MAX = 128,  /* bytes of a metric's name */
    SPOOL_NUMBERS_MAX = 256,
    SPOOL_PATHS_MAX = 100 /* that one record says were removed */
};

enum spool_type {
    SPOOL_START,
    SPOOL_PROGRESS,
    SPOOL_METRIC,
    SPOOL_CHECKPOINT,
    SPOOL_BEST,
    SPOOL_PLAN,
    SPOOL_PROFILE,
    SPOOL_WARNING,
    SPOOL_ERROR,
    SPOOL_RESULT
};

DECLARE_STRING_TABLE(spool_type, enum spool_type);

/* Where reading stands. */
struct spool_position {
    int64_t offset; /* bytes that are done with */
    int64_t n;      /* number of the last record */
    bool skipping;  /* in the middle of a line that is too long */
};

struct spool_record {
    enum spool_type type;
    int64_t n; /* 0: of a line in the short form, which several processes may write */
    double time;
    struct json_object *object;  /* owned */
    struct spool_position after; /* behind its line */
};

/* Checks one line (without its newline) against the table of record types. -EINVAL with a sentence
 * that says what is wrong. */
int spool_record_parse(const char *line, size_t length, struct spool_record *record,
                       struct error *error);
void spool_record_release(struct spool_record *record);

/* spool_line.c: json_parse() that takes Python's NaN and Infinity for null. */
int spool_line_parse(const char *line, size_t length, struct json_object **object,
                     struct error *error);
/* spool_line.c: a line without `type`: whatever is not step, epoch, time or progress (the part that
 * is done, 0 to 1) is a metric. -EINVAL with a sentence. */
int spool_record_from_short_line(struct json_object *line, struct spool_record *record,
                                 struct error *error);

/* Whether a metric may be called so. */
bool spool_name_fits(const char *name);

/* What one reading found. */
struct spool_batch {
    struct spool_position after;
    struct spool_record *records; /* owned; at most SPOOL_BATCH_RECORDS */
    size_t count;
    int64_t skipped;     /* lines that broke the rules */
    int64_t gap;         /* record numbers that are missing */
    char complaint[512]; /* about the first line that was skipped, "" if none was */
    bool more;           /* there is more to read now */
};

/* Takes lines from `size` bytes that lie at position->offset. With `ended` nothing will follow: a
 * last line without newline is a torn record and is skipped. */
int spool_batch_parse(const struct spool_position *position, const char *bytes, size_t size,
                      bool ended, struct spool_batch *batch);

/* Reads on from `position` and parses. 0 or a negative errno of the file. */
int spool_read(int descriptor, const struct spool_position *position, bool ended,
               struct spool_batch *batch, struct error *error);

void spool_batch_release(struct spool_batch *batch);
