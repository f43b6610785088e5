/* report.h: what an attempt has reported in the records of its spool. */
#pragma once

#include "daemon/folder/spool.h"
#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

struct attempt;

/* The progress that it reported last. Absent numbers are NAN (doubles) or -1 (integers). */
struct job_progress {
    int64_t step, steps, epochs;
    double epoch, loss, samples_per_second, seconds_left;
    double fraction; /* part done, 0 to 1, of programs that report only this */
};

struct attempt_report {
    struct job_progress progress;
    bool has_progress;
    double steps_timed; /* steps of this attempt with a known time (jobs/trial.c) */
    bool tries_out;     /* its work had never been measured on this type of device */
    /* the first fraction that it reported, and when, to estimate the remaining time; 0: none yet */
    double fraction_begun, fraction_begun_at;
    char *message;                        /* of the trainee's `error` record */
    bool error_recorded;                  /* there was an `error` record */
    bool out_of_memory;                   /* the `error` record says so */
    enum device_fault fault;              /* the GPU error that it reported */
    bool fault_looked;                    /* the probe was asked about this error */
    char error_kind[JOB_ERROR_KIND_MAX];  /* of the `error` record, "": none */
    char disagrees_with[DEVICE_NAME_MAX]; /* the device that its own disagrees with, "": none */
    struct json_object *plan;
    int64_t resumed_from_step; /* -1: it did not resume */
};

void attempt_report_init(struct attempt_report *report);
void attempt_report_release(struct attempt_report *report);
/* Takes in a record that has been stored. */
void attempt_report_take(struct attempt *attempt, const struct spool_record *record);
