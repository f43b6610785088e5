/* live_rows.h: what the daemon reads when it starts: the jobs that have not ended, their plans and
 * their links to other jobs, and the attempts that have not ended. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"

#include <stdbool.h>
#include <sys/types.h>

struct live_job {
    int64_t id;
    uid_t uid;
    enum job_kind kind;
    enum job_state state;
    enum wait_reason wait_reason;
    int priority, attempt;
    int retries;         /* attempts that ended by a fault of the job itself */
    int memory_failures; /* attempts that ended for lack of memory */
    bool avoids_sharing; /* an error ended an attempt that used a sharing service */
    double submitted, put_first;
    double queued;  /* when it began to wait, the last time that it did: its runs are no wait */
    double backoff; /* seconds, while the job waits for a retry: from its specification; -1: the
                     * configured default */
    char digest[JOB_DIGEST_SIZE];
    char pinned[DEVICE_NAME_MAX]; /* "": none */
    char *needs;                  /* owned; JSON of the specification's `device` and `resources` */
};
/* Passes each job to `take`, in the order of the ids. `take` owns it if it returns 0; otherwise it
 * returns -ENOMEM. `sharing`: a JSON array of the kinds of errors that ended attempts which used a
 * sharing service. */
int live_jobs_read(struct store_connection *connection, const char *sharing,
                   int (*take)(void *data, struct live_job *job), void *data, struct error *error);

/* Passes each plan of a live job to `take`, with the first such job, in the order of the jobs' ids.
 * The text is valid during the call only. */
int live_plans_read(struct store_connection *connection,
                    void (*take)(void *data, int64_t job, const char *plan), void *data,
                    struct error *error);

/* A job's links to other jobs. */
struct live_links {
    int64_t job;
    int64_t sweep; /* 0: the job is not a point of a sweep */
    bool held, notifies;
    double at;         /* when it may start, since the epoch; 0: at once */
    const char *group; /* valid during the call of `take`; NULL: none */
};
/* Passes the links of each live job that has any to `take`, in the order of the jobs' ids. `take`
 * returns 0 or -ENOMEM. */
int live_links_read(struct store_connection *connection,
                    int (*take)(void *data, const struct live_links *links), void *data,
                    struct error *error);

struct live_attempt {
    int64_t job, number;
    int64_t offset, n;         /* how far its spool is stored: the position behind the last stored
                                * record, and that record's number */
    int64_t resumed_from_step; /* -1: it did not resume */
    double started;
    double suspended;   /* seconds in all, up to now */
    enum ending ending; /* the ending that the daemon was causing */
    enum preemption preemption;
    char disagrees_with[DEVICE_NAME_MAX]; /* the device that its `error` record disagrees with; "":
                                           * none */
    uid_t uid;                            /* this and the next two are the job's */
    enum job_kind kind;
    enum job_state job_state;
    /* owned */
    char *device, *message; /* message: NULL if it reported none */
    char *start;            /* JSON of its `start` record; NULL before it wrote one */
};
/* Hands each to `take`, which takes it over and answers 0 or -ENOMEM. */
int live_attempts_read(struct store_connection *connection,
                       int (*take)(void *data, struct live_attempt *attempt), void *data,
                       struct error *error);
void live_attempt_release(struct live_attempt *attempt);
