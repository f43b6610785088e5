/* live_rows.h: what a start of the daemon reads: the jobs that have not ended, their plans and
 * places in the graph, and the attempts without an end. */
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
    int memory_failures; /* of them, for want of memory */
    bool avoids_sharing; /* an error ended an attempt that used a sharing service */
    double submitted;
    double backoff; /* of its specification, while it pauses; -1: the general one */
    char digest[JOB_DIGEST_SIZE];
    char pinned[DEVICE_NAME_MAX]; /* "": nowhere */
    char *needs;                  /* owned; JSON of its device and resources */
};
/* Hands each, by its number, to `take`, which takes it over and answers 0 or -ENOMEM. `sharing`:
 * the kinds of errors that ended those who used a sharing service, as a JSON array. */
int live_jobs_read(struct store_connection *connection, const char *sharing,
                   int (*take)(void *data, struct live_job *job), void *data, struct error *error);

/* Hands each plan that a live job has to `take`, with the first such job, by its number; the text
 * is lent. */
int live_plans_read(struct store_connection *connection,
                    void (*take)(void *data, int64_t job, const char *plan), void *data,
                    struct error *error);

/* Where a job stands in the graph. */
struct live_links {
    int64_t job;
    int64_t sweep; /* 0: of none */
    bool held, notifies;
    const char *group; /* lent, or NULL */
};
/* Hands those of the jobs that have any to `take`, by their numbers; it answers 0 or -ENOMEM. */
int live_links_read(struct store_connection *connection,
                    int (*take)(void *data, const struct live_links *links), void *data,
                    struct error *error);

struct live_attempt {
    int64_t job, number;
    int64_t offset, n;         /* how far its spool is stored */
    int64_t resumed_from_step; /* -1: from none */
    double started;
    enum ending ending; /* that the daemon was bringing about */
    enum preemption preemption;
    char disagrees_with[DEVICE_NAME_MAX]; /* what its `error` record says; "": nothing */
    uid_t uid;                            /* of the job, as what follows */
    enum job_kind kind;
    enum job_state job_state;
    /* owned */
    char *device, *message; /* message: NULL where it told none */
    char *start;            /* JSON of its `start` record; NULL before that */
};
/* Hands each to `take`, which takes it over and answers 0 or -ENOMEM. */
int live_attempts_read(struct store_connection *connection,
                       int (*take)(void *data, struct live_attempt *attempt), void *data,
                       struct error *error);
void live_attempt_release(struct live_attempt *attempt);
