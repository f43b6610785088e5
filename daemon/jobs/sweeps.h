/* sweeps.h: sweeps. A sweep is a single row until its points come near the head of the queue. The
 * points' job ids are reserved at submission. One window of points at a time becomes rows of table
 * `job`, and the same transaction stores how many points have rows. So no point is lost or made
 * twice, whenever traind is killed. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/job_entry.h"
#include "daemon/work/sweep.h"

/* A sweep that still has points without rows, or points in memory. */
struct sweep_run {
    struct sweep_run *next;
    struct sweep sweep;
    size_t live; /* points in memory */
    bool busy;
    jobs_done ready; /* called once the first window has become rows; then NULL */
    void *ready_data;
    struct search_run *search; /* owned; searches.h. NULL: all points run to their end */
};

/* Takes `run` over, whose row is durable. `ready` runs once the first window of points has become
 * rows, too. */
void sweeps_add(struct daemon *daemon, struct sweep_run *run, jobs_done ready, void *data);
void sweep_run_free(struct sweep_run *run);
/* Prepares the entry of a point; `values` NULL: those that the point says. If the values are not
 * valid together, the entry is that of a failed job. */
void sweep_point_prepare(struct sweep_run *run, int64_t index, struct json_object *values,
                         struct job_entry *entry);
/* The point, job `id`, has ended and left memory. `done`: it succeeded. */
void sweep_point_left(struct jobs *jobs, struct sweep_run *run, int64_t id, bool done);
/* Makes the jobs that depend on the whole sweep check their dependency. `missed`: a point did not
 * succeed. */
void sweep_tell(struct jobs *jobs, const struct sweep_run *run, bool missed);
struct sweep_run *sweep_find(const struct jobs *jobs, int64_t first_job);
/* The sweep of a point that has no row yet and may still get one; NULL: `id` is no such point. */
struct sweep_run *sweep_find_point_to_come(const struct jobs *jobs, int64_t id);
/* Whether no sweep has points left that will become rows. */
bool sweeps_are_done(const struct jobs *jobs);

/* Frees the sweeps that are finished or cancelled and have no points in memory. */
void sweeps_tidy(struct jobs *jobs);

/* The number of the user's points without a row, for the quota. */
int64_t sweeps_unexpanded_of_user(const struct daemon *daemon, uid_t uid);

/* After a restart: takes over the sweeps that were read from the store. */
void sweeps_restore(struct jobs *jobs, struct sweep_run *runs);
/* Goes on making rows of points; call it once all jobs are in memory. */
void sweeps_resume(struct jobs *jobs);
void sweeps_start(struct jobs *jobs);
void sweeps_free(struct jobs *jobs);
