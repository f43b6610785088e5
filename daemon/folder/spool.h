/* spool.h: reads an attempt's spool: splits bytes into lines and lines into checked records. Only
 * spool_read() reads a file; the other functions are pure. attempts/spool_ingest.c uses the
 * records. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPOOL_LINE_MAX = 1024 * 1024,
    SPOOL_READ_SIZE = 128 * 1024, /* bytes that one batch reads, unless a line is longer */
    SPOOL_BATCH_RECORDS = 1024,
    SPOOL_COMPLAINTS_MAX = 20, /* lines of one attempt that are reported one by one */
    /* limits that keep a job's data small enough for a message: */
    SPOOL_TEXT_MAX = 1000, /* bytes; longer texts are cut */
    SPOOL_NAME_MAX = 128,  /* bytes of a metric's name */
    SPOOL_NUMBERS_MAX = 256,
    SPOOL_PATHS_MAX = 100 /* removed paths in one record */
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

/* The position up to which a spool was read. */
struct spool_position {
    int64_t offset; /* bytes that were handled */
    int64_t n;      /* number of the last record */
    bool skipping;  /* inside a line that is too long */
};

struct spool_record {
    enum spool_type type;
    int64_t n; /* 0: a line in the short form, which several processes may write */
    double time;
    struct json_object *object;  /* owned */
    struct spool_position after; /* behind its line */
};

/* Parses one line (without its newline) and checks it against the table of record types. -EINVAL
 * with a sentence that says what is wrong. */
int spool_record_parse(const char *line, size_t length, struct spool_record *record,
                       struct error *error);
void spool_record_release(struct spool_record *record);

/* spool_line.c: like json_parse(), but accepts Python's NaN and Infinity as null. */
int spool_line_parse(const char *line, size_t length, struct json_object **object,
                     struct error *error);
/* spool_line.c: a line without `type`. Every member except step, epoch, time and progress (the
 * fraction that is done, 0 to 1) is a metric. -EINVAL with a sentence. */
int spool_record_from_short_line(struct json_object *line, struct spool_record *record,
                                 struct error *error);

/* Whether a metric may have this name. */
bool spool_name_fits(const char *name);

/* The result of one reading. */
struct spool_batch {
    struct spool_position after;
    struct spool_record *records; /* owned; at most SPOOL_BATCH_RECORDS */
    size_t count;
    int64_t skipped;     /* lines that violate the format */
    int64_t gap;         /* missing record numbers */
    char complaint[512]; /* about the first skipped line; "": none was skipped */
    bool more;           /* there is more to read now */
};

/* Parses the lines in `size` bytes that lie at position->offset. `ended` says that nothing will
 * follow: a last line without a newline is then incomplete and is skipped. */
int spool_batch_parse(const struct spool_position *position, const char *bytes, size_t size,
                      bool ended, struct spool_batch *batch);

/* Reads and parses the spool from `position` on. 0 or a negative errno of the file. */
int spool_read(int descriptor, const struct spool_position *position, bool ended,
               struct spool_batch *batch, struct error *error);

void spool_batch_release(struct spool_batch *batch);
