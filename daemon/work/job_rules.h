/* job_rules.h: the rules of a job's life as pure functions: which transitions are legal, what the
 * end of an attempt means, and when to try again. */
#pragma once

#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    EXIT_STATUS_DISK_FULL = 74, /* EX_IOERR, of traind-worker, and of traind-shim for frozen code */
    EXIT_STATUS_REQUEUE = 75    /* EX_TEMPFAIL */
};

/* Whether a job may go from one state to the other. */
bool job_transition_allowed(enum job_state from, enum job_state to);

/* How an attempt ended, as far as it is known. */
struct attempt_end {
    enum job_kind kind;
    /* What the daemon wanted: ENDING_CANCELLED, ENDING_TIMED_OUT, ENDING_PREEMPTED, ENDING_LOST or
     * ENDING_NONE. */
    enum ending intent;
    bool not_restored; /* with ENDING_LOST: the driver has lost what it held of a GPU */
    bool recorded;     /* there is an exit record */
    bool executed;     /* the trainee ran; false: the shim reports why it could not */
    int exit_status;   /* -1: none */
    int signal;        /* 0: none */
    bool out_of_memory;
    bool batches_divide;     /* a retry could use smaller batches */
    int memory_failures;     /* attempts before this one that ended for lack of memory */
    bool error_recorded;     /* the trainee wrote an `error` record */
    enum device_fault fault; /* of the device, as the trainee reported it */
    bool fault_confirmed;    /* the device's probe agrees */
    const char
        *shared_by; /* the service by which it shared the device, where an error of another job ends
                     * it, too; NULL: none */
    enum preemption preemption; /* why it had to leave its device; attempt_judge() ignores it */
    const char *disagrees_with; /* the device whose results it could not repeat, or NULL */
    const char *device;         /* on which it ran */
    const char *message;        /* the trainee's or the shim's, or NULL */
    double seconds;             /* how long it ran */
    double time_limit;          /* seconds, 0: none */
    int retries;                /* made so far */
    int retry_limit;
    double backoff_seconds; /* before the first retry */
};

struct attempt_verdict {
    enum ending ending;
    enum job_state state; /* JOB_QUEUED: it is tried again */
    bool counts_as_retry;
    bool goes_back; /* to the device that it disagrees with, and it stays there */
    double delay;   /* seconds before a further attempt */
    char reason[JOB_REASON_MAX];
};

/* Decides what the end of an attempt means for its job. */
struct attempt_verdict attempt_judge(const struct attempt_end *end);

/* Seconds to wait before retry number `retries`, counted from 0. They double with each retry, up to
 * an hour. */
double retry_delay(double backoff_seconds, int retries);
