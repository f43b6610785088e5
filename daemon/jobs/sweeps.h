/* sweeps.h: sweeps that are one row until their points come near the head of the queue. Job ids are
 * reserved at submission; a window of points at a time becomes rows of `job`, in one transaction
 * with the count of those that did: whenever traind is killed, no point is lost or made twice. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/job_entry.h"
#include "daemon/work/sweep.h"

/* A sweep of which points may still become rows, or which has some in memory. */
struct sweep_run {
    struct sweep_run *next;
    struct sweep sweep;
    size_t live; /* points in memory */
    bool busy;
    jobs_done ready; /* the first window is there; NULL afterwards */
    void *ready_data;
};

/* The row is durable: takes `run` over. `ready` runs once the first window
 * of points is there too. */
void sweeps_add(struct daemon *daemon, struct sweep_run *run, jobs_done ready, void *data);
void sweep_run_free(struct sweep_run *run);
/* The entry of a point; one whose values do not go together is a job that failed. */
void sweep_point_prepare(struct sweep_run *run, int64_t index, struct job_entry *entry);
/* A point has left memory: it is done, or has failed or was cancelled. */
void sweep_point_left(struct jobs *jobs, struct sweep_run *run, bool done);
/* Those who wait for the sweep as a whole look whether that is decided; `missed`: a point is not
 * done, and will not be. */
void sweep_tell(struct jobs *jobs, const struct sweep_run *run, bool missed);
struct sweep_run *sweep_find(const struct jobs *jobs, int64_t first_job);
/* The sweep of a point that is no row yet and still may become one; NULL: `id` is none. */
struct sweep_run *sweep_find_point_to_come(const struct jobs *jobs, int64_t id);
/* Whether no point is left that becomes a row. */
bool sweeps_are_done(const struct jobs *jobs);

/* Lets go of cancelled sweeps that have nothing in memory. */
void sweeps_tidy(struct jobs *jobs);

/* Points of the user that are no rows yet, for the quota. */
int64_t sweeps_unexpanded_of_user(const struct daemon *daemon, uid_t uid);

/* After a restart: takes over what was read. */
void sweeps_restore(struct jobs *jobs, struct sweep_run *runs);
/* All jobs are in memory: goes on where it stopped. */
void sweeps_resume(struct jobs *jobs);
void sweeps_start(struct jobs *jobs);
void sweeps_free(struct jobs *jobs);
