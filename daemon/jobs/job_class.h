/* job_class.h: the jobs that may be placed, by class: jobs of one class differ in nothing that a
 * decision could see but their age. A decision looks at the first few of each class, so its cost
 * follows the number of different jobs that wait, not the length of the queue. */
#pragma once

#include "daemon/work/job_table.h"

struct job_class {
    struct job_class *next_in_bucket;
    size_t index; /* in the list */
    /* what its jobs have in common */
    const struct workload *workload; /* NULL: of none is anything known */
    struct job_needs *needs;
    int64_t only; /* the one job of a class of its own: one that has run; 0: not so */
    uid_t uid;
    int32_t priority;
    struct job_queue waiting;
    /* its jobs in the snapshot of that number (jobs/snapshot.h) */
    uint64_t snapshot;
    size_t first_in_snapshot, count_in_snapshot;
};

struct job_classes {
    struct job_class **list; /* NULL where one has gone */
    size_t count, capacity, gone;
    size_t sorted; /* so many at the beginning of the list are in order */
    struct job_class **buckets;
    size_t bucket_count;
    size_t job_count;
};

/* Puts a job in. -ENOMEM. */
int job_classes_add(struct job_classes *classes, struct job *job);
/* Takes it out, if it is in. */
void job_classes_remove(struct job_classes *classes, struct job *job);
/* The classes in the order of their first jobs (the highest priority, then the oldest), without
 * holes; the list lives until the next change. */
struct job_class *const *job_classes_sorted(struct job_classes *classes, size_t *count);
void job_classes_release(struct job_classes *classes);
