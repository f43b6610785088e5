/* job_remove.h: jobs that have ended leave: their rows, checkpoints and folders, or the checkpoints
 * alone. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"

#include <stdint.h>

struct daemon;

enum { JOBS_REMOVED_MAX = 1000 /* by one call */ };

struct job_removal {
    const int64_t *ids; /* lent until `done` */
    size_t count;
    bool checkpoints_only; /* the rows and logs stay */
    /* Once it is durable; the folders go right after. -EBUSY with a sentence where one, `refused`,
     * cannot go yet: nothing is removed then. Runs on the loop; `removal` may be freed in it. */
    void (*done)(struct job_removal *removal, int result, const struct error *error);
    void *data; /* the caller's */
    int64_t refused;
    enum job_state refused_state;
    /* job_remove.c's own */
    struct daemon *daemon;
    struct removed_job *jobs; /* [count], owned */
    size_t found;             /* of them, how many there were */
};

void jobs_remove(struct daemon *daemon, struct job_removal *removal);

/* Of a job that is done: keeps the best checkpoint and so many of the last ones, then sweeps what
 * its last attempt leaves behind. */
void job_keep_last_checkpoints(struct daemon *daemon, int64_t job, int64_t attempt, int64_t kept);
