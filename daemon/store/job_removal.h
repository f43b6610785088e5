/* job_removal.h: removes the rows of jobs that have ended, or only the rows of their
 * checkpoints. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"

#include <stddef.h>

struct removed_job {
    int64_t id, attempts; /* attempts: -1 if there is no such job */
    int64_t sweep;        /* 0: the job is not a point of a sweep */
};

struct job_rows_removal {
    const int64_t *ids; /* [count], borrowed */
    size_t count;
    bool checkpoints_only;    /* the jobs' rows stay */
    struct removed_job *jobs; /* [count], borrowed: results */
    size_t found;             /* result: how many of the jobs exist */
    int64_t refused;          /* result: the job that cannot be removed, and its state */
    enum job_state refused_state;
};

/* On the writer, in one transaction. The content of the checkpoints and the folders are removed
 * after it. -EBUSY with a sentence if a job cannot be removed yet; the caller must then roll back,
 * so that nothing is removed. */
int job_rows_remove(struct store_connection *connection, struct job_rows_removal *removal,
                    struct error *error);
