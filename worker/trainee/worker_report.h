/* worker_report.h: writes a run's reports: numbered records in the spool (docs/internals/spool.md),
 * the same lines on standard output with --json, or progress for a person. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

struct worker_report {
    int spool;   /* descriptor that records are written to, -1: none */
    bool owned;  /* the report closes it */
    bool person; /* prints for a person on standard output instead */
    bool terminal;
    int64_t number; /* of the latest record */
};

/* `spool` NULL: with `json`, records go to standard output; otherwise it prints for a person. */
int worker_report_open(struct worker_report *report, const char *spool, bool json,
                       struct error *error);
void worker_report_close(struct worker_report *report);

/* Writes one record of the type with the members of `fields`, which it takes over. Does nothing if
 * it prints for a person. A negative errno with a sentence if the spool cannot be written. */
int worker_report_record(struct worker_report *report, const char *type, struct json_object *fields,
                         struct error *error);

/* Writes the record of a failure, and the sentence on standard error. `step` -1: none. `came_from`:
 * the previous device, if the run's results disagree with it; otherwise NULL. */
void worker_report_failure(struct worker_report *report, const char *kind, int64_t step,
                           const char *came_from, const struct error *error);
