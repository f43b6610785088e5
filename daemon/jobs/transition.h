/* transition.h: stores changes of jobs and attempts. Each is one request to the writer and one
 * transaction. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/store/job_update.h"

/* One change. The caller makes it with transition_new(), fills it in, and gives it to
 * transition_store(), which takes it over. */
struct transition {
    struct jobs *jobs;
    struct transition *next;
    struct job_update update; /* what is stored */
    uid_t uid;                /* whose job it is */
    bool notifies;            /* the job ends, and its end runs commands (notify.h) */
    uid_t run_uid;            /* of update.run: the user, and below the digest of the command */
    char run_digest[JOB_DIGEST_SIZE];
    bool counted; /* in job.unstored */
    bool stops;   /* the attempt is asked to end (transition_stop()) */
    /* called after the commit, on the loop; each may be NULL */
    struct attempt *finish; /* attempt_finish() */
    jobs_done done;         /* called once: after the commit, or with the error of the first try */
    void *done_data;
};

struct transition *transition_new(struct jobs *jobs, const struct job *job);

/* Changes the state of `job` in memory at once, and in the store with the transition. The change
 * must be legal. */
void transition_set_state(struct transition *transition, struct job *job, enum job_state to,
                          enum wait_reason wait_reason, const char *reason);

/* Notes with the transition that the daemon ends the job's attempt, and why. The attempt is asked
 * to end after the commit, or when the first try fails. Otherwise a daemon that starts after a kill
 * in between would find a job that ended by a signal that nobody had sent. */
void transition_stop(struct transition *transition, struct job *job, enum ending ending);

/* Stores the transition. If that fails it is tried again, in order, until it succeeds, so a full
 * disk loses nothing. In that case `done` is told at once that the change is in effect but not
 * stored. */
void transition_store(struct transition *transition);

/* Whether a change waits to be stored again after an error. */
bool transitions_are_pending(const struct jobs *jobs);

/* Called for each transition that has been stored. */
typedef void (*transition_stored)(struct jobs *jobs, const struct transition *transition);
/* Called for a job whose launch waits, once all changes of its state are on disk. */
typedef void (*transitions_settled)(struct jobs *jobs, struct job *job);
void transitions_start(struct jobs *jobs, transition_stored stored, transitions_settled settled);
/* Tries a last time to store what could not be stored, and tells each `done` the result. Attempts
 * whose end still cannot be stored are detached; the next daemon finds them. */
void transitions_stop(struct jobs *jobs);
/* Frees the transitions that could not be stored, when the program ends. */
void transitions_free(struct jobs *jobs);
