/* linear_ways.h: runs one way to compute a linear layer, or one of its gradients, with all the
 * launches that it needs, on memory for measurements. linear_search.c times these runs. */
#pragma once

#include "engine/backends/cuda/linear_search.h"

/* The addresses of all operands. */
struct linear_memory {
    char *operand[2], *cast, *result, *aside, *vector, *scratch;
    struct cuda_control *control; /* zeros */
    struct cuda_scalars *scalars;
};
/* Gives the memory for the problem; false: there is not enough. */
bool linear_take_memory(const struct backend_device *device, const struct linear_problem *problem,
                        struct linear_memory *memory);
/* The elements of the node's operand 0 or 1. */
int64_t linear_elements(const struct linear_problem *problem, int operand);
struct cuda_array linear_array(void *at, enum tensor_type type);

struct linear_run {
    const struct linear_problem *problem;
    const struct linear_memory *memory;
    cudaStream_t stream;
    enum linear_way way;
    struct product *product; /* for the ways of cuBLASLt */
};
/* Launches one run of a struct linear_run on its stream (choices_launch). */
int linear_launch_way(void *run, struct error *error);
