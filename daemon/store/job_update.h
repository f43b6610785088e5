/* job_update.h: a change of a job, and of the attempt that brings it about, as rows. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"
#include "daemon/work/command_history.h"

#include <sys/types.h>

enum attempt_change {
    ATTEMPT_UNCHANGED,
    ATTEMPT_BEGIN,  /* a new row */
    ATTEMPT_RUN,    /* pid and start */
    ATTEMPT_INTEND, /* the ending that the daemon brings about */
    ATTEMPT_END,
    ATTEMPT_DELETE /* it never started */
};

/* Times are NAN where there is none. */
struct job_update {
    int64_t job;
    double time;
    bool changes_state; /* else only the reason to wait, if `changes_wait` */
    bool changes_wait;
    bool keeps_reason; /* the row's reason stays: where it runs and why */
    enum job_state from, to;
    enum wait_reason wait_reason;
    char reason[JOB_REASON_MAX];
    char device[ATTEMPT_DEVICES_TEXT_MAX]; /* "": as before */
    bool changes_pin;
    char pinned[DEVICE_NAME_MAX]; /* "": none */
    char *decision;               /* owned JSON, or NULL */
    double started, ended;
    int exit_status; /* -1: none */

    enum attempt_change attempt_change;
    int64_t attempt, job_attempt; /* number of the attempt; the last one of the job */
    pid_t pid;
    double attempt_started, attempt_ended;
    enum ending ending;
    enum preemption preemption; /* PREEMPTION_NONE: as before */
    int attempt_exit_status, signal;
    char *message;                       /* owned */
    char error_kind[JOB_ERROR_KIND_MAX]; /* "": none */
    int64_t peak_resident_bytes;
    int64_t lost_metrics; /* lines, of which a warning tells */
    double cpu_seconds;
    double energy_joules, device_energy_joules; /* NAN: not known */

    struct command_run *run; /* owned; what a command's attempt tells of it, or NULL */
    const char *device_type; /* where; borrowed */

    uid_t plan_uid;
    char plan_digest[JOB_DIGEST_SIZE];
    char *plan; /* owned JSON to be stored, or NULL */
};

/* One that changes nothing yet. */
struct job_update job_update_of(int64_t job, int64_t attempt, double time);

/* On the writer. -EAGAIN with a sentence where the row does not have the state `from`: an earlier
 * change of the job has failed and will come again. */
int job_update_store(struct store_connection *connection, const struct job_update *update,
                     struct error *error);

void job_update_release(struct job_update *update);
