/* linear_ways.h: one way to do a linear layer, or one of its gradients, on memory for measurements,
 * with all the launches that it needs: what linear_search.c times. */
#pragma once

#include "engine/backends/cuda/linear_search.h"

/* Where everything lies. */
struct linear_memory {
    char *operand[2], *cast, *result, *aside, *vector, *scratch;
    struct cuda_control *control; /* zeros */
    struct cuda_scalars *scalars;
};
/* For the problem; false: there is not enough. */
bool linear_take_memory(const struct backend_device *device, const struct linear_problem *problem,
                        struct linear_memory *memory);
/* Of the node's operand 0 or 1. */
int64_t linear_elements(const struct linear_problem *problem, int operand);
struct cuda_array linear_array(void *at, enum tensor_type type);

struct linear_run {
    const struct linear_problem *problem;
    const struct linear_memory *memory;
    cudaStream_t stream;
    enum linear_way way;
    struct product *product; /* of cuBLASLt's ways */
};
/* Puts one run of a struct linear_run on its stream (choices_launch). */
int linear_launch_way(void *run, struct error *error);
