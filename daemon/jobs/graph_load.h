/* graph_load.h: restores the graph of jobs (graph.h) after a restart of the daemon. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct job;
struct jobs;
struct store_connection;

/* What the store knows of the graph. job_graph_read() runs on a storage thread. Then the loop calls
 * job_graph_restore() for each job in the order of ids, before it queues the job. Last, when all
 * jobs are in memory, job_graph_connect() restores their dependencies. */
struct graph_load;
struct graph_load *job_graph_read(struct store_connection *connection, struct error *error);
void job_graph_restore(struct jobs *jobs, struct job *job, bool runs, struct graph_load *load);
void job_graph_connect(struct jobs *jobs, struct graph_load *load);
void graph_load_free(struct graph_load *load);
