/* job_removal.h: the rows of jobs that have ended go, or the rows of their checkpoints alone. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"

#include <stddef.h>

struct removed_job {
    int64_t id, attempts; /* attempts: -1, it was not there */
    int64_t sweep;        /* 0: it is a point of none */
};

struct job_rows_removal {
    const int64_t *ids; /* [count], borrowed */
    size_t count;
    bool checkpoints_only;    /* the jobs' rows stay */
    struct removed_job *jobs; /* [count], borrowed: results */
    size_t found;             /* how many of them there were */
    int64_t refused;          /* which one cannot go, and its state */
    enum job_state refused_state;
};

/* On the writer, in one transaction; the content of checkpoints and the folders go after it. -EBUSY
 * with a sentence where a job cannot go yet: the caller's transaction removes nothing then. */
int job_rows_remove(struct store_connection *connection, struct job_rows_removal *removal,
                    struct error *error);
