/* job_remove.h: removes ended jobs: their rows, checkpoints and folders, or only the
 * checkpoints. */
#pragma once

#include "daemon/store/job_removal.h"

struct daemon;

enum { JOBS_REMOVED_MAX = 1000 /* with one call */ };

struct job_removal {
    struct job_rows_removal rows; /* ids, count and checkpoints_only are the caller's, lent */
    /* Runs on the loop once the removal is durable; the folders are removed right after. -EBUSY
     * with a sentence: the job `refused` cannot be removed yet, and nothing has been removed. The
     * callback may free `removal`. */
    void (*done)(struct job_removal *removal, int result, const struct error *error);
    void *data;            /* the caller's */
    struct daemon *daemon; /* set by job_remove.c, as rows.jobs is */
};

void jobs_remove(struct daemon *daemon, struct job_removal *removal);

/* For a job that is done: keeps its best checkpoint and the last `kept` ones, then removes what its
 * attempts left behind (checkpoint_sweep()). */
void job_keep_last_checkpoints(struct daemon *daemon, int64_t job, int64_t attempt, int64_t kept);
