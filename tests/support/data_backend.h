/* data_backend.h: the CPU backend with data "in the device's memory" and several steps in a launch.
 * It tests a session and the loop with such a backend on machines without such a device. The
 * batches are made with the functions that the CUDA kernels use
 * (engine/backends/cuda/kernels/sample.h). */
#pragma once

#include "engine/backends/backend.h"

/* Counts its calls since the program began. */
struct data_backend_calls {
    int launches, steps, longest; /* runs of training programs, and the most steps in one */
    int evaluations, longest_evaluation;
    int orders;
};
/* Whether it scales losses by itself. */
extern bool data_backend_scales;
extern struct data_backend_calls data_backend_calls;

/* Samples and targets of the batch that it made last. */
extern const void *data_backend_batch[2];

/* A copy of the CPU's vtable with the functions for data. Steps go through `run`
 * (backend_cpu()->program_run unless the test has one of its own). */
struct backend data_backend(int (*run)(struct backend_program *program, unsigned phases,
                                       const struct step_scalars *scalars, struct error *error));
