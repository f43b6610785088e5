/* graph.h: what keeps a queued job from competing for a device: a hold, dependencies on other jobs,
 * a time that is still to come, or the limit of its group. Most jobs have none of these and no
 * `links`. Events drive everything: a job's end is told to its dependents, and a free place in a
 * group goes to the first job that waits for it.
 *
 * A group with limit N admits the N best of its jobs, by priority, then by age. Admitted jobs
 * compete with all other jobs for devices; the rest wait. So decisions about devices need not know
 * about groups. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/job_dependencies.h"
#include "daemon/work/job_table.h"

struct sweep_run;

/* What keeps one job waiting. NULL in struct job: nothing does, and no job depends on it. */
struct job_links {
    struct dependency *unmet; /* owned */
    size_t unmet_count;
    int64_t *dependents; /* owned: ids of jobs that wait for this one */
    size_t dependent_count;
    struct job_group *group; /* or NULL */
    struct sweep_run *sweep; /* or NULL */
    size_t admitted_index;
    double at; /* it may not start before, since the epoch (jobs/start_times.h); 0: at any time */
    bool held, admitted;
    bool blocked; /* a hold, a dependency or its time keeps it out of every queue */
};

/* ---- what job.c and recovery.c tell the graph ------------------------------------------------ */

/* A point of the sweep, job `id`, has ended and left memory. `done`: it succeeded. */
typedef void (*graph_point_left)(struct jobs *jobs, struct sweep_run *sweep, int64_t id, bool done);
void job_graph_start(struct jobs *jobs, graph_point_left point_left);
void job_graph_stop(struct jobs *jobs); /* before the loop ends */
void job_graph_free(struct jobs *jobs); /* after the loop; job_links_free() frees the links */
void job_links_free(struct jobs *jobs, struct job *job);

/* Takes in a new job; call it before the job is queued. */
void job_graph_add(struct jobs *jobs, struct job *job, const struct job_submission *submission);
/* Whether the job may go into a queue now. If not, it waits here until the graph calls
 * job_queue_after() for it. */
bool job_graph_admits(struct jobs *jobs, struct job *job);
/* The job is not to run for now, for example between two tries: its place in its group becomes
 * free. */
void job_graph_rest(struct jobs *jobs, struct job *job);
/* Jobs with ids `first` to `last` may have ended without having been in memory. Asks the store, and
 * tells the jobs that wait for them. */
void job_graph_ask_again(struct jobs *jobs, int64_t first, int64_t last);
/* The same for a sweep. `missed`: a job of the sweep did not succeed. `ended`: all its jobs have
 * ended. */
void job_graph_ask_sweep(struct jobs *jobs, int64_t first_job, bool missed, bool ended);
/* The job, whose state is final, leaves memory. */
void job_graph_forget(struct jobs *jobs, struct job *job);

/* The job's time has come. */
void job_graph_due(struct jobs *jobs, struct job *job);

/* ---- what groups.c and graph_load.c tell it ------------------------------------------------ */

/* The links of the job; makes them if it has none. */
struct job_links *job_links_of(struct job *job);
/* In the loop's next turn, tells ends to the jobs that depend on them, and gives free places of
 * groups away. */
void graph_settle_soon(struct jobs *jobs);
/* The job `dependent` waits for `on_job`, an id or a sweep's negative number. */
void graph_wait_for(struct jobs *jobs, int64_t on_job, enum dependency_condition condition,
                    int64_t dependent);
/* `on_job` has ended with `state`: queues or cancels the job `dependent` as its condition says. */
void graph_tell(struct jobs *jobs, int64_t dependent, int64_t on_job, enum job_state state);
