/* predictor.h: how long a step of a plan takes on a type of device, and how much is left of a job.
 *
 * Before anything ran, the cost of the plan and the calibration of the device give a step time with
 * a wide uncertainty; measurements replace it, weighted by their precision. What a caller keeps of
 * it, by plan hash and type, is a row of a table in memory of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A step time and what it rests on. */
struct step_time {
    double seconds;   /* of one step; INFINITY: cannot run there */
    double deviation; /* standard deviation of log(seconds) */
    double steps;     /* measured; 0: from the cost alone */
};

enum { PREDICTOR_CLASSES = 8 };

/* What a step does, from the plan. */
struct step_cost {
    double flops[PREDICTOR_CLASSES]; /* by class of operator */
    double bytes[PREDICTOR_CLASSES]; /* moved */
    double kernels;                  /* launched */
};

/* What a device does, measured once. */
struct device_calibration {
    double flops_per_second[PREDICTOR_CLASSES]; /* 0: cannot run that class */
    double bytes_per_second;
    double launch_seconds;
    double deviation; /* of log(measured / predicted) of plans not seen before; 0: the usual */
};

/* The roofline of each class, and a launch for each kernel. */
struct step_time step_time_predict(const struct step_cost *cost,
                                   const struct device_calibration *calibration);

/* Takes in `steps` steps that took `seconds` each on average. Measured step times scatter from run
 * to run: the deviation falls with the steps, not below some per cent. */
void step_time_observe(struct step_time *time, double seconds, double steps);

/* Steps that are left of a job. `total`: the mean of what is thought of its length, as declared, 0:
 * not known; `deviation` of log(length), 0 where it is certain. Of a length not known as much is
 * thought to be left as has been done: what the lengths of training jobs, spread over orders of
 * magnitude, suggest. An uncertain one is lognormal, and longer than what has been done: the mean
 * of those that are. At least `least`. */
double steps_left(double total, double deviation, double done, double least);

/* The standard deviation of that; 0 where the length is certain, or not known at all. */
double steps_left_deviation(double total, double deviation, double done);

struct predictor_row {
    uint64_t plan;
    int32_t type, used;
    struct step_time time;
    /* the caller's own */
    double prior;        /* seconds that were predicted before any were measured; 0: none */
    double stored_steps; /* of `time.steps`, as last stored */
};

/* A hash table in the caller's memory, zeroed before its first use; capacity: a power of two. */
struct predictor {
    struct predictor_row *rows;
    size_t capacity;
};

/* The row of a plan on a type; with `create` a new one, all zero beside them, when
 * there is none. NULL: not there, or the table is full. */
struct predictor_row *predictor_find(struct predictor *predictor, uint64_t plan, int type,
                                     bool create);
