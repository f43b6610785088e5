/* graph_load.h: the graph of jobs after a restart of the daemon. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct job;
struct jobs;
struct store_connection;

/* What the store has: read on a storage thread, then applied job by job in the order of ids, each
 * before it is queued; in the end, with all jobs known, the jobs wait for each other again. */
struct graph_load;
struct graph_load *job_graph_read(struct store_connection *connection, struct error *error);
void job_graph_restore(struct jobs *jobs, struct job *job, bool runs, struct graph_load *load);
void job_graph_connect(struct jobs *jobs, struct graph_load *load);
void graph_load_free(struct graph_load *load);
