/* job_table.h: the live jobs in memory: an entry each, found by id, and heaps of those that wait.
 * An entry is small, for there may be 100,000. */
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

/* What starting a job needs beyond its entry; read from the store when its start gets close. */
struct job_details {
    struct json_object *spec; /* NULL once the job was started */
    struct job_preemption preemption;
    double time_limit; /* seconds, 0: none */
    int retry_limit;
    double backoff_seconds;
};

struct job {
    int64_t id;
    struct job *next_in_bucket;
    struct workload *workload;   /* what it does; shared */
    struct job_needs *needs;     /* where it may; shared */
    struct attempt *attempt;     /* while processes of it may exist, or it is being started */
    struct job_links *links;     /* dependencies, group, hold (jobs/graph.h); NULL: none */
    struct job_details *details; /* what placing and starting it needs; read when it gets close */
    struct uv_timer_s *backoff;  /* while it waits for its next try, or NULL */
    struct job_queue *queue;     /* the heap that holds it, or NULL */
    struct job_class *class;     /* while it may be placed: the heap is the class's */
    double waits_since;          /* seconds since the epoch; 0 while it does not */
    double waited;               /* seconds, before that */
    double retry_at;             /* of a paused one: not before, since the epoch; 0: at once */
    int64_t steps_done;          /* of its training, by the attempts before */
    uint32_t queue_index;
    int32_t priority;
    int32_t attempt_number; /* of the last attempt */
    uid_t uid;
    uint16_t retries;
    uint8_t launch_failures; /* in a row */
    uint8_t memory_failures; /* attempts that ended for lack of memory */
    uint8_t kind;            /* enum job_kind */
    uint8_t state;           /* enum job_state: what was last handed to the store */
    uint8_t wait_reason;     /* enum wait_reason, likewise */
    bool loading;            /* details are being read */
    bool notifies;           /* its end runs commands */
    bool avoids_sharing;     /* an error ended it there, its own or another client's */
    bool disagreed;          /* a device did not agree with its own, which was lost by then */
    bool ended;              /* leaves the table as soon as its attempt is gone */
};

struct job_table {
    struct job **buckets;
    size_t bucket_count, count;
};

/* 0 or -ENOMEM. */
int job_table_add(struct job_table *table, struct job *job);
struct job *job_table_find(const struct job_table *table, int64_t id);
void job_table_remove(struct job_table *table, struct job *job);
void job_table_release(struct job_table *table); /* frees the buckets, not the jobs */

/* A binary heap: highest priority first, then the lowest id. */
struct job_queue {
    struct job **jobs;
    size_t count, capacity;
};

int job_queue_push(struct job_queue *queue, struct job *job);
/* Takes the job out of whatever queue it is in, if any. O(log n). */
void job_queue_remove(struct job *job);
struct job *job_queue_first(const struct job_queue *queue); /* NULL when empty */
void job_queue_release(struct job_queue *queue);
