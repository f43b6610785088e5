/* transition.h: changes of jobs and attempts as rows: one request, one transaction each. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/command_history.h"

enum attempt_change {
    ATTEMPT_UNCHANGED,
    ATTEMPT_BEGIN,  /* a new row */
    ATTEMPT_RUN,    /* pid and start */
    ATTEMPT_INTEND, /* the ending that the daemon brings about */
    ATTEMPT_END,
    ATTEMPT_DELETE /* it never started */
};

/* Made with transition_new(), filled in, handed in with transition_store(), which takes it over. */
struct transition {
    struct jobs *jobs;
    struct transition *next;
    int64_t job;
    uid_t uid; /* whose it is */
    double time;
    bool changes_state; /* else only the reason to wait, if `changes_wait` */
    bool changes_wait;
    bool notifies;     /* an end that runs commands (notify.h) */
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
    const char *device_type; /* where; lives as long as the table of devices */
    uid_t run_uid;
    char run_digest[JOB_DIGEST_SIZE];

    uid_t plan_uid;
    char plan_digest[65];
    char *plan; /* owned JSON to be stored, or NULL */

    /* after the commit, on the loop; all may be NULL */
    struct attempt *finish; /* attempt_finish() */
    jobs_done done; /* or with the error, once, when it could not be stored the first time */
    void *done_data;
};

struct transition *transition_new(struct jobs *jobs, const struct job *job);

/* Changes the entry's state at once (the change must be legal) and the row with the transition. */
void transition_set_state(struct transition *transition, struct job *job, enum job_state to,
                          enum wait_reason wait_reason, const char *reason);

/* Stores it. What fails is stored again, in order, until it succeeds: nothing is forgotten for want
 * of disk space. Who waits for it is then told at once that it is in effect and not stored. */
void transition_store(struct transition *transition);

/* Whether a change could not be stored and waits to be stored again. */
bool transitions_are_pending(const struct jobs *jobs);

/* A transition is stored; for each of them. */
typedef void (*transition_stored)(struct jobs *jobs, const struct transition *transition);
/* 0 or -ENOMEM. */
int transitions_start(struct jobs *jobs, transition_stored stored);
/* Tries what could not be stored a last time; who waits for it is told. Attempts whose end still
 * cannot be stored are let go of: the next daemon finds them. */
void transitions_stop(struct jobs *jobs);
/* Frees what still waits to be stored again; when the program ends. */
void transitions_free(struct jobs *jobs);
