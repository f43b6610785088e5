/* simulation_internal.h: the state of a simulation, and its policies. */
#pragma once

#include "simulator/simulation.h"

struct running_job {
    const struct workload_job *work;
    struct step_time *speeds[POLICY_TYPES_MAX]; /* predicted; shared by the jobs of a class */
    double *measured[POLICY_TYPES_MAX];         /* steps done by the class */
    double declared;                            /* steps, as the user declared them */
    double left_factor;                         /* error factor of the predicted rest */
    double done;                                /* steps */
    double attained;                            /* device-seconds */
    double restart_left;                        /* seconds without progress */
    double finished;
    size_t preemptions;
    bool started, starved;
    int type;     /* where it runs; POLICY_NONE: it waits */
    int *devices; /* indices in the cluster, while it runs */
};

struct simulation {
    const struct cluster *cluster;
    const struct simulation_options *options;
    struct running_job *jobs;
    size_t count, arrived;
    size_t *active, active_count; /* arrived and not ended, in order of arrival */
    double now, next_review;
    int device_count, *device_types, *device_list;
    /* the policy's snapshot */
    struct policy_device *devices;
    struct policy_job *policy_jobs;
    struct policy_estimate *estimates;
    void *workspace;
    size_t workspace_size;
    /* class tables */
    struct predictor predictor;
    double *class_steps;
    double *decision_seconds;
    size_t decision_count, decision_capacity, inexact;
    double busy; /* device-seconds */
};

/* Predicted seconds to the job's end; INFINITY: it cannot run there. */
double job_seconds_left(const struct simulation *simulation, const struct running_job *job,
                        int type);

/* Fills the type for each active job; POLICY_NONE: it waits. */
void choose_by_rule(struct simulation *simulation, int *types);
int choose_by_value(struct simulation *simulation, struct policy_decision *decision,
                    struct error *error);
