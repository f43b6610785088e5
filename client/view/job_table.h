/* job_table.h: a table with a row for each Job of io.traind. Lists choose their columns; what
 * stands in one is the same in all of them. */
#pragma once

#include "client/view/table.h"
#include "proto/json.h"

enum job_column {
    JOB_COLUMN_NUMBER,
    JOB_COLUMN_NAME,
    JOB_COLUMN_STATE,
    JOB_COLUMN_DEVICE,
    JOB_COLUMN_USER,
    JOB_COLUMN_PRIORITY,
    JOB_COLUMN_SUBMITTED, /* how long ago */
    JOB_COLUMN_RAN,       /* a duration in words */
    JOB_COLUMN_CLOCK, /* the same as hours, minutes and seconds, for a screen that is drawn anew */
    JOB_COLUMN_WHAT,  /* job_detail() */
    JOB_COLUMNS
};

struct job_table {
    struct table_column columns[JOB_COLUMNS];
    const enum job_column *order;
    size_t count;
    double now; /* seconds since the epoch: what times and durations are told against */
    struct table *table;
};

/* Begins a table of `count` columns, each once at most. The list must outlive the table, and the
 * table is not moved. job_table_end() releases it. */
void job_table_begin(struct job_table *table, const enum job_column *order, size_t count);
void job_table_add(struct job_table *table, struct json_object *job);
/* Prints nothing where there is no row; NULL: it is only released. */
void job_table_end(struct job_table *table, const struct display *display, FILE *output);
