/* workload.h: what a simulation replays: a trace of jobs, and how fast each runs on each type of
 * device.
 *
 * Formats of Gavel (https://github.com/stanford-futuredata/gavel). Trace: one job a line, columns
 * separated by tabs; of them count 1 the model configuration, 6 its steps, 7 the devices it needs,
 * 10 its arrival in seconds. Throughputs: JSON, type -> "('model', devices)" -> {"null": steps a
 * second}. */
#pragma once

#include "base/error.h"
#include "scheduler/policy.h"

#include <stdbool.h>

/* Beyond so many seconds doubles tell microseconds apart no more, and what is left of a job could
 * be too short for the clock to go on. */
#define SCHEDULE_SECONDS_MAX 8e9
/* Of an arrival, and of a job alone on its fastest devices: a century. */
#define JOB_SECONDS_MAX 4e9

struct workload_job {
    char *model;
    double steps, arrival; /* seconds */
    int devices;
    size_t line;                               /* in the trace, from 1 */
    double steps_per_second[POLICY_TYPES_MAX]; /* on that many devices; 0: cannot */
};

struct cluster {
    int type_count;
    char *names[POLICY_TYPES_MAX];
    int counts[POLICY_TYPES_MAX];
};

struct workload {
    struct workload_job *jobs; /* in order of arrival */
    size_t count;
    size_t left_out; /* jobs that no type of the cluster can run */
};

/* "v100:4,p100:4,k80:4" */
int cluster_parse(const char *text, struct cluster *cluster, struct error *error);
void cluster_free(struct cluster *cluster);

int workload_load(const char *trace, const char *throughputs, const struct cluster *cluster,
                  struct workload *workload, struct error *error);
void workload_free(struct workload *workload);
