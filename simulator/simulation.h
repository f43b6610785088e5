/* simulation.h: replays a workload on a cluster, event by event, under one policy.
 *
 * A job runs on as many devices of one type as it needs, a device runs one job at a time. Who moves
 * or resumes makes no progress for restart_seconds; a first start is free. Events are arrivals,
 * ends, measurements, and the time that the policy asked to be asked again. The policy is the
 * daemon's (scheduler/policy.h), from the same objects, or one of the usual ones for comparison. */
#pragma once

#include "scheduler/predictor.h"
#include "simulator/workload.h"

enum simulation_policy {
    SIMULATE_VALUE,     /* scheduler/policy.h */
    SIMULATE_FIFO,      /* first in first out, on the fastest type that is free */
    SIMULATE_SHORTEST,  /* shortest first, likewise */
    SIMULATE_REMAINING, /* shortest remaining time, preemptive */
    SIMULATE_ATTAINED   /* least attained service, preemptive, in rounds of round_seconds */
};

struct simulation_options {
    enum simulation_policy policy;
    struct policy_settings settings;
    double restart_seconds;
    double round_seconds;
    double speed_noise;   /* deviation of log(speed) as believed before it is measured */
    double length_noise;  /* deviation of log(steps) as declared */
    double left_noise;    /* of what is believed to be left of a job, however much that is */
    bool hide_lengths;    /* nobody knows how long a job is */
    bool no_learning;     /* speeds are never measured */
    double measure_steps; /* after so many steps a speed is known */
    uint64_t seed;        /* of the noise */
};

struct simulation_result {
    size_t jobs, left_out, decisions, preemptions, inexact;
    double average_completion, median_completion, p95_completion, p99_completion, worst_completion;
    double makespan;                       /* seconds, from the first arrival, as all times here */
    double average_slowdown, p99_slowdown; /* completion time / run time alone on the best type */
    double longest_wait;                   /* not running */
    double utilisation;                    /* of all devices until the last end */
    double decision_median, decision_p99, decision_worst; /* seconds of processor time */
};

/* 0 or negative errno with a sentence. `completions`, where not NULL, takes each job's completion
 * time, in the order of the workload. */
int simulate(const struct workload *workload, const struct cluster *cluster,
             const struct simulation_options *options, double *completions,
             struct simulation_result *result, struct error *error);
