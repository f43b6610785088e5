/* metric_csv.h: the metrics of jobs as a table in CSV (RFC 4180, with line feeds). The long form
 * has a line for each value: job, job_name, metric, step, epoch, time, value. The wide form has a
 * line for each step of a job and a column for each metric. A value that is not finite is NaN; what
 * is not known is empty. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct metric_csv {
    FILE *output; /* borrowed */
    bool wide;
    /* private; of the wide form, which is printed at the end */
    struct json_object *metrics;   /* {name: its column}, in order */
    struct json_object *job_names; /* array */
    struct metric_csv_row *rows;
    size_t row_count, row_capacity;
};

void metric_csv_open(struct metric_csv *csv, FILE *output, bool wide);
/* Begins the rows of the next job. */
void metric_csv_add_job(struct metric_csv *csv, const char *name);
/* Adds an array of rows of Metrics. */
int metric_csv_add(struct metric_csv *csv, int64_t job, struct json_object *rows,
                   struct error *error);
/* Prints what is left. Errors of `output` are the caller's to check. */
int metric_csv_finish(struct metric_csv *csv, struct error *error);
void metric_csv_close(struct metric_csv *csv);
