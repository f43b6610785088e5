/* graph.h: what keeps a queued job from competing for a device: a hold, jobs that must end
 * first, the limit of its group. Most jobs have nothing of it and no `links`. Everything happens by
 * events: the end of a job reaches its dependents, a place in a group the first who waits for it.
 *
 * A group of limit N admits the N best of its jobs, by priority, then age; the admitted ones
 * compete with everybody for devices, the others wait. So no decision about devices knows of
 * groups. */
#pragma once

#include "daemon/jobs/internal.h"

/* ---- what jobs.c and recovery.c tell the graph -------------------------------------------
 */

int job_graph_start(struct jobs *jobs);
void job_graph_stop(struct jobs *jobs); /* before the loop ends */
void job_graph_free(struct jobs *jobs); /* after it; the jobs' links are freed one by one */
void job_links_free(struct jobs *jobs, struct job *job);

/* A new job; called before it is queued. */
void job_graph_add(struct jobs *jobs, struct job *job, const struct job_submission *submission);
/* Whether a job may go into a queue now; else it waits here, and comes back by job_queue_after().
 */
bool job_graph_admits(struct jobs *jobs, struct job *job);
/* What the job waits for in its group as of now, as a sentence; false: it does not wait there. */
bool job_group_explain(const struct job *job, char *text, size_t size);
/* It does not run for now (a pause between tries): its group's place is free. */
void job_graph_rest(struct jobs *jobs, struct job *job);
/* Jobs of these ids may have ended without having been in memory: who waits for them is told. */
void job_graph_ask_again(struct jobs *jobs, int64_t first, int64_t last);
/* The same of a sweep: `missed`, a job of it is not done and will not be; `ended`, all have. */
void job_graph_ask_sweep(struct jobs *jobs, int64_t first_job, bool missed, bool ended);
/* It has ended and leaves memory; its state is final. */
void job_graph_forget(struct jobs *jobs, struct job *job);

/* What the store has: read on a storage thread, then applied job by job in the order of ids, each
 * before it is queued; in the end, with all jobs known, the jobs wait for each other again. */
struct graph_load;
struct graph_load *job_graph_read(struct store_connection *connection, struct error *error);
void job_graph_restore(struct jobs *jobs, struct job *job, bool runs, struct graph_load *load);
void job_graph_connect(struct jobs *jobs, struct graph_load *load);
void graph_load_free(struct graph_load *load);
