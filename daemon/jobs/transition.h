/* transition.h: changes of jobs and attempts as rows: one request, one transaction each. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/store/job_update.h"

/* Made with transition_new(), filled in, handed in with transition_store(), which takes it over. */
struct transition {
    struct jobs *jobs;
    struct transition *next;
    struct job_update update; /* what is stored */
    uid_t uid;                /* whose job it is */
    bool notifies;            /* an end that runs commands (notify.h) */
    uid_t run_uid;            /* of update.run: whose runs of what it is one of */
    char run_digest[JOB_DIGEST_SIZE];
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
void transitions_start(struct jobs *jobs, transition_stored stored);
/* Tries what could not be stored a last time; who waits for it is told. Attempts whose end still
 * cannot be stored are let go of: the next daemon finds them. */
void transitions_stop(struct jobs *jobs);
/* Frees what still waits to be stored again; when the program ends. */
void transitions_free(struct jobs *jobs);
