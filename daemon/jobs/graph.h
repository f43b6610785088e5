/* graph.h: what keeps a queued job from competing for a device: a hold, jobs that must end
 * first, the limit of its group. Most jobs have nothing of it and no `links`. Everything happens by
 * events: the end of a job reaches its dependents, a place in a group the first who waits for it.
 *
 * A group of limit N admits the N best of its jobs, by priority, then age; the admitted ones
 * compete with everybody for devices, the others wait. So no decision about devices knows of
 * groups. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/job_dependencies.h"
#include "daemon/work/job_table.h"

struct sweep_run;

/* What holds one job back; NULL in struct job: nothing does. */
struct job_links {
    struct dependency *unmet; /* owned */
    size_t unmet_count;
    int64_t *dependents; /* owned: ids of jobs that wait for this one */
    size_t dependent_count;
    struct job_group *group; /* or NULL */
    struct sweep_run *sweep; /* or NULL */
    size_t admitted_index;
    bool held, admitted;
    bool blocked; /* in no queue because of a hold or a dependency */
};

/* ---- what job.c and recovery.c tell the graph ------------------------------------------------ */

/* A point of the sweep has left memory: it is done, or has failed or was cancelled. */
typedef void (*graph_point_left)(struct jobs *jobs, struct sweep_run *sweep, bool done);
void job_graph_start(struct jobs *jobs, graph_point_left point_left);
void job_graph_stop(struct jobs *jobs); /* before the loop ends */
void job_graph_free(struct jobs *jobs); /* after it; the jobs' links are freed one by one */
void job_links_free(struct jobs *jobs, struct job *job);

/* A new job; called before it is queued. */
void job_graph_add(struct jobs *jobs, struct job *job, const struct job_submission *submission);
/* Whether a job may go into a queue now; else it waits here, and comes back
 * by job_queue_after(). */
bool job_graph_admits(struct jobs *jobs, struct job *job);
/* It does not run for now (a pause between tries): its group's place is free. */
void job_graph_rest(struct jobs *jobs, struct job *job);
/* Jobs of these ids may have ended without having been in memory: who waits for them is told. */
void job_graph_ask_again(struct jobs *jobs, int64_t first, int64_t last);
/* The same of a sweep: `missed`, a job of it is not done and will not be; `ended`, all have. */
void job_graph_ask_sweep(struct jobs *jobs, int64_t first_job, bool missed, bool ended);
/* It has ended and leaves memory; its state is final. */
void job_graph_forget(struct jobs *jobs, struct job *job);

/* ---- what groups.c and graph_load.c tell it ------------------------------------------------ */

/* Those of the job, made when it has none; ends for want of memory. */
struct job_links *job_links_of(struct job *job);
/* What is due: ends told to those who wait for them, places of groups given away. */
void graph_settle_soon(struct jobs *jobs);
void graph_wait_for(struct jobs *jobs, int64_t on_job, enum dependency_condition condition,
                    int64_t dependent);
void graph_tell(struct jobs *jobs, int64_t dependent, int64_t on_job, enum job_state state);
