/* workload.h: the input of a simulation: a trace of jobs, and the speed of each job on each type of
 * device.
 *
 * The formats are those of Gavel (https://github.com/stanford-futuredata/gavel). A trace has one
 * job per line, with columns separated by tabs. Used are column 1 (model configuration), 6 (steps),
 * 7 (devices that it needs) and 10 (arrival in seconds). Throughputs are JSON: type -> "('model',
 * devices)" -> {"null": steps per second}. */
#pragma once

#include "base/error.h"
#include "scheduler/policy.h"

#include <stdbool.h>

/* The longest schedule. Beyond it, doubles no longer resolve microseconds, and a job's rest could
 * be too short to advance the clock. */
#define SCHEDULE_SECONDS_MAX 8e9
/* The latest arrival, and the longest job alone on its fastest devices: about a century. */
#define JOB_SECONDS_MAX 4e9

struct workload_job {
    char *model;
    double steps, arrival; /* seconds */
    int devices;
    size_t line;                               /* in the trace, from 1 */
    double steps_per_second[POLICY_TYPES_MAX]; /* on `devices` devices; 0: it cannot run there */
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

/* Parses, for example, "v100:4,p100:4,k80:4". */
int cluster_parse(const char *text, struct cluster *cluster, struct error *error);
void cluster_free(struct cluster *cluster);

int workload_load(const char *trace, const char *throughputs, const struct cluster *cluster,
                  struct workload *workload, struct error *error);
void workload_free(struct workload *workload);
