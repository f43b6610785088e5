/* report.h: what an attempt has said of itself, in the records of its spool. */
#pragma once

#include "daemon/folder/spool.h"
#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

struct attempt;

/* Where it stands, as it said last. Absent numbers are NAN (doubles) or -1 (integers). */
struct job_progress {
    int64_t step, steps, epochs;
    double epoch, loss, samples_per_second, seconds_left;
    double fraction; /* done, 0 to 1: of programs that say no more */
};

struct attempt_report {
    struct job_progress progress;
    bool has_progress;
    double steps_timed; /* of this attempt, see jobs/trial.c */
    bool tries_out;     /* nothing like it had been measured on such a device */
    /* the first fraction done that was told, and when, for an estimate of the rest; 0: none yet */
    double fraction_begun, fraction_begun_at;
    char *message;                        /* of the trainee's `error` record */
    bool error_recorded;                  /* there was one */
    bool out_of_memory;                   /* it said so */
    enum device_fault fault;              /* of the GPU that it was on, as it said */
    bool fault_looked;                    /* the probe was asked about that */
    char error_kind[JOB_ERROR_KIND_MAX];  /* of that record, "": none */
    char disagrees_with[DEVICE_NAME_MAX]; /* what it said of the device that it comes from; "" */
    struct json_object *plan;
    int64_t resumed_from_step; /* -1: not */
};

void attempt_report_init(struct attempt_report *report);
void attempt_report_release(struct attempt_report *report);
/* Takes a record in that is stored. */
void attempt_report_take(struct attempt *attempt, const struct spool_record *record);
