/* job_table.h: the jobs in memory that have not ended: one entry for each, found by id, and heaps
 * of those that wait. An entry is small, because there may be 100,000. */
#pragma once

#include "daemon/types/job_types.h"
#include "daemon/work/job_preemption.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attempt;
struct job_class;
struct job_needs;
struct workload;

/* What starting a job needs beyond its entry. It is read from the store when the start gets
 * close. */
struct job_details {
    struct json_object *spec; /* NULL after the job was started */
    struct job_preemption preemption;
    double time_limit; /* seconds, 0: none */
    int retry_limit;
    double backoff_seconds;
};

struct job {
    int64_t id;
    struct job *next_in_bucket;
    struct workload *workload;   /* what the job does; shared by equal jobs */
    struct job_needs *needs;     /* where the job may run; shared by equal jobs */
    struct attempt *attempt;     /* while it is being started or its processes may exist; else
                                  * NULL */
    struct job_links *links;     /* dependencies, group, hold (jobs/graph.h); NULL: none */
    struct job_details *details; /* read when the job is close to its start; else NULL */
    struct uv_timer_s *backoff;  /* while it waits for a retry; else NULL */
    struct job_queue *queue;     /* the heap that holds it, or NULL */
    struct job_class *class;     /* while it may be placed; `queue` is the class's heap then */
    double waits_since;          /* for a device: seconds since the epoch; 0 while it does not wait;
                                  * set by job_wait_*() */
    double waited;               /* seconds that it waited before that */
    double retry_at;             /* of a paused job: when it may start, since the epoch; 0: at
                                  * once */
    double put_first;            /* when it was put before others of its user; 0: never */
    int64_t steps_done;          /* of its training, done by earlier attempts */
    uint32_t queue_index;
    uint32_t wait_index; /* in the table's heap of those that wait */
    int32_t priority;
    int32_t attempt_number; /* of the last attempt */
    uid_t uid;
    uint16_t retries;
    uint8_t launch_failures; /* in a row */
    uint8_t memory_failures; /* attempts that ended for lack of memory */
    uint8_t kind;            /* enum job_kind */
    uint8_t state;           /* enum job_state: as last given to the store */
    uint8_t wait_reason;     /* enum wait_reason: as last given to the store */
    uint8_t unstored;        /* changes of its state, but starts, that are not on disk yet */
    bool launch_waits;       /* … and its attempt is launched once they are */
    bool loading;            /* details are being read */
    bool outdated;           /* … and an edit has changed them since */
    bool notifies;           /* its end runs commands */
    bool avoids_sharing;     /* an error of a client ended it: it starts without a service */
    bool unsuspendable;      /* the driver could not restore it, so it lost what it had done */
    bool disagreed;          /* the device that it disagreed with had been lost meanwhile */
    bool frozen;             /* it is being edited: it enters no queue meanwhile (jobs/edit.h) */
    bool ended;              /* leaves the table once its attempt is gone */
};

/* A binary heap. */
struct job_queue {
    struct job **jobs;
    size_t count, capacity;
    bool by_wait; /* who waits longest first; else as job_queue_push() says */
};

struct job_table {
    struct job **buckets;
    size_t bucket_count, count;
    struct job_queue waits;      /* the jobs of the table that wait for a device */
    size_t in_state[JOB_STATES]; /* how many jobs of the table are in each */
    uint64_t ended[JOB_STATES];  /* how many have ended in each since the start: transition.h */
};

/* 0 or -ENOMEM. */
int job_table_add(struct job_table *table, struct job *job);
struct job *job_table_find(const struct job_table *table, int64_t id);
void job_table_remove(struct job_table *table, struct job *job);
/* Sets the state of a job of the table. */
void job_table_set_state(struct job_table *table, struct job *job, enum job_state state);
void job_table_release(struct job_table *table); /* frees the buckets, not the jobs */

/* A job of the table waits for a device since that time, seconds since the epoch; one that waits
 * already goes on. Without memory the process ends (base/memory.h). O(log n), as the next two. */
void job_wait_begin(struct job_table *table, struct job *job, double since);
/* It waits no more; its time up to `now` counts. Leaving the table, or the state `queued`, ends the
 * wait, too. */
void job_wait_end(struct job_table *table, struct job *job, double now);
/* … its time does not count. */
void job_wait_forget(struct job_table *table, struct job *job);
/* Who waits longest; NULL: nobody waits. */
const struct job *job_wait_longest(const struct job_table *table);

/* Highest priority first, then what was put first, the latest before others, then the lowest id. 0
 * or -ENOMEM. */
int job_queue_push(struct job_queue *queue, struct job *job);
/* Removes the job from the heap that holds it, if any. O(log n). */
void job_queue_remove(struct job *job);
struct job *job_queue_first(const struct job_queue *queue); /* NULL when empty */
void job_queue_release(struct job_queue *queue);
