/* simulation.h: replays a workload on a cluster, event by event, under one policy.
 *
 * A job runs on as many devices of one type as it needs, and a device runs one job at a time. A job
 * that moves or resumes makes no progress for restart_seconds; a first start costs nothing. Events
 * are arrivals, ends, measurements, and the times of the policy's next decisions. The policy is the
 * daemon's own code (scheduler/policy.h), or a common policy for comparison. */
#pragma once

#include "scheduler/predictor.h"
#include "simulator/workload.h"

enum simulation_policy {
    SIMULATE_VALUE,     /* scheduler/policy.h */
    SIMULATE_FIFO,      /* first in first out, on the fastest type that is free */
    SIMULATE_SHORTEST,  /* shortest first, on the fastest free type */
    SIMULATE_REMAINING, /* shortest remaining time, preemptive */
    SIMULATE_ATTAINED   /* least attained service, preemptive, in rounds of round_seconds */
};

struct simulation_options {
    enum simulation_policy policy;
    struct policy_settings settings;
    double restart_seconds;
    double round_seconds;
    double speed_noise;   /* deviation of log(predicted speed) before it is measured */
    double length_noise;  /* deviation of log(declared steps) */
    double left_noise;    /* deviation of log(a job's predicted remaining steps) */
    bool hide_lengths;    /* the policy does not know how long a job is */
    bool no_learning;     /* speeds are never measured */
    double measure_steps; /* a speed is known after this many steps */
    uint64_t seed;        /* of the noise */
};

struct simulation_result {
    size_t jobs, left_out, decisions, preemptions, inexact;
    double average_completion, median_completion, p95_completion, p99_completion, worst_completion;
    double makespan;                       /* seconds from the first arrival */
    double average_slowdown, p99_slowdown; /* completion time / run time alone on the best type */
    double longest_wait;                   /* seconds without running */
    double utilisation;                    /* part of all devices' time until the last end */
    double decision_median, decision_p99, decision_worst; /* seconds of processor time */
};

/* 0 or negative errno with a sentence. `completions`, unless NULL, gets each job's completion time
 * (seconds from its arrival), in the order of the workload. */
int simulate(const struct workload *workload, const struct cluster *cluster,
             const struct simulation_options *options, double *completions,
             struct simulation_result *result, struct error *error);
