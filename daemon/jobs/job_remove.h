/* job_remove.h: jobs that have ended leave: their rows, checkpoints and folders, or the checkpoints
 * alone. */
#pragma once

#include "daemon/store/job_removal.h"

struct daemon;

enum { JOBS_REMOVED_MAX = 1000 /* by one call */ };

struct job_removal {
    struct job_rows_removal rows; /* ids, count and checkpoints_only are the caller's, lent */
    /* Once it is durable; the folders go right after. -EBUSY with a sentence where one, `refused`,
     * cannot go yet: nothing is removed then. Runs on the loop; `removal` may be freed in it. */
    void (*done)(struct job_removal *removal, int result, const struct error *error);
    void *data;            /* the caller's */
    struct daemon *daemon; /* job_remove.c's own, as rows.jobs is */
};

void jobs_remove(struct daemon *daemon, struct job_removal *removal);

/* Of a job that is done: keeps the best checkpoint and so many of the last ones, then sweeps what
 * its last attempt leaves behind. */
void job_keep_last_checkpoints(struct daemon *daemon, int64_t job, int64_t attempt, int64_t kept);
