/* job_class.h: divides the jobs that may be placed into classes. To a decision, the jobs of one
 * class differ only in their age. A decision looks at the first few jobs of each class, so its cost
 * depends on the number of different waiting jobs, not on the length of the queue. */
#pragma once

#include "daemon/work/job_table.h"

struct job_class {
    struct job_class *next_in_bucket;
    size_t index; /* in the list */
    /* what its jobs have in common */
    const struct workload *workload; /* NULL: commands that have no known runs */
    struct job_needs *needs;
    int64_t only; /* a job that has run is the only one of its class: its id; else 0 */
    uid_t uid;
    int32_t priority;
    double put_first; /* of struct job */
    struct job_queue waiting;
    /* the snapshot (jobs/snapshot.h) that last held jobs of the class, and which of its jobs they
     * are */
    uint64_t snapshot;
    size_t first_in_snapshot, count_in_snapshot;
};

struct job_classes {
    struct job_class **list; /* NULL where a class was removed */
    size_t count, capacity, gone;
    size_t sorted; /* how many at the beginning of the list are in order */
    struct job_class **buckets;
    size_t bucket_count;
    size_t job_count;
};

/* Adds the job to its class. 0 or -ENOMEM. */
int job_classes_add(struct job_classes *classes, struct job *job);
/* Removes the job from its class, if it is in one. */
void job_classes_remove(struct job_classes *classes, struct job *job);
/* All classes, sorted by their first jobs: the highest priority first, then the oldest. No element
 * is NULL. The list lives until the next change. */
struct job_class *const *job_classes_sorted(struct job_classes *classes, size_t *count);
void job_classes_release(struct job_classes *classes);
