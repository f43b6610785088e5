/* predictor.h: how long a step of a plan takes on a type of device, and how much is left of a job.
 *
 * Before a job ran, its caller has a predicted step time with a wide uncertainty. Measurements then
 * replace the prediction, weighted by their precision. The caller owns the table that keeps one row
 * for each plan and type of device. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A step time and how certain it is. */
struct step_time {
    double seconds;   /* of one step; INFINITY: cannot run there */
    double deviation; /* standard deviation of log(seconds) */
    double steps;     /* how many were measured; 0: it is only predicted */
};

/* Adds a measurement: `steps` steps took `seconds` each on average. The deviation falls with the
 * number of steps, but stays at some per cent, because step times vary from run to run. */
void step_time_observe(struct step_time *time, double seconds, double steps);

/* The steps that a job has left, at least `least`. `total`: its declared length, 0 if unknown;
 * `deviation`: of log(length), 0 if the length is certain. If the length is unknown, assume that as
 * much work remains as has been done: lengths of training jobs spread over orders of magnitude. An
 * uncertain length is lognormal. The result is its mean, given that it exceeds `done`. */
double steps_left(double total, double deviation, double done, double least);

/* The standard deviation of steps_left(); 0 if the length is certain or unknown. */
double steps_left_deviation(double total, double deviation, double done);

struct predictor_row {
    uint64_t plan;
    int32_t type, used;
    struct step_time time;
    /* for the caller's use */
    double prior;        /* seconds that were predicted before the first measurement; 0: none */
    double stored_steps; /* the value of `time.steps` when the caller last stored the row */
};

/* A hash table in the caller's memory. The caller zeroes it before its first use. The capacity is a
 * power of two. */
struct predictor {
    struct predictor_row *rows;
    size_t capacity;
};

/* Finds the row of a plan on a type. If there is none, `create` adds one whose other members are
 * zero. NULL: there is no such row, or the table is full. */
struct predictor_row *predictor_find(struct predictor *predictor, uint64_t plan, int type,
                                     bool create);
