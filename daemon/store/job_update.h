/* job_update.h: stores a change of a job together with the change of the attempt that caused it. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"
#include "daemon/work/command_history.h"

#include <sys/types.h>

enum attempt_change {
    ATTEMPT_UNCHANGED,
    ATTEMPT_BEGIN,   /* a new row */
    ATTEMPT_RUN,     /* pid and start */
    ATTEMPT_INTEND,  /* the ending that the daemon is about to cause */
    ATTEMPT_SUSPEND, /* since when it is suspended, and how long it was before */
    ATTEMPT_END,
    ATTEMPT_DELETE /* it never started */
};

/* Times are NAN if they do not change. */
struct job_update {
    int64_t job;
    double time;
    bool changes_state; /* from `from` to `to`; else only the reason to wait changes, if
                         * `changes_wait` is set */
    bool changes_wait;
    bool keeps_reason; /* the row keeps its reason, which says where the job runs and why */
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
    int64_t attempt, job_attempt; /* the attempt that changes; the job's last attempt */
    pid_t pid;
    double attempt_started, attempt_ended;
    double attempt_suspended;       /* seconds in all */
    double attempt_suspended_since; /* NAN: it is not suspended */
    enum ending ending;
    enum preemption preemption; /* PREEMPTION_NONE: as before */
    int attempt_exit_status, signal;
    char *message;                       /* owned */
    char error_kind[JOB_ERROR_KIND_MAX]; /* "": none */
    int64_t peak_resident_bytes;
    int64_t lost_metrics; /* lines that were lost; a warning reports them */
    double cpu_seconds;
    double energy_joules, device_energy_joules; /* NAN: not known */

    struct command_run *run; /* owned; the measurements of a command's attempt, or NULL */
    const char *device_type; /* on which `run` ran; borrowed */

    uid_t plan_uid;
    char plan_digest[JOB_DIGEST_SIZE];
    char *plan; /* owned JSON to be stored, or NULL */
};

/* An update that changes nothing yet. */
struct job_update job_update_of(int64_t job, int64_t attempt, double time);

/* On the writer. -EAGAIN with a sentence if the row does not have the state `from`: an earlier
 * change of the job has failed and will be repeated. */
int job_update_store(struct store_connection *connection, const struct job_update *update,
                     struct error *error);

void job_update_release(struct job_update *update);
