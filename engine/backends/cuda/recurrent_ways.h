/* recurrent_ways.h: the two ways to go from step to step in LSTM and GRU: one launch for all steps,
 * whose blocks keep the weights and wait for each other, or for each step a product of cuBLASLt and
 * a launch for the gates (kernels/recurrent.h). Where both are possible they are measured. */
#pragma once

#include "base/string_table.h"
#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/kernels/recurrent.h"

enum recurrent_kind { RECURRENT_WHOLE, RECURRENT_STEPS };
DECLARE_STRING_TABLE(recurrent_kind, enum recurrent_kind);

/* What a node does; of `shape` the cell, the extents, the direction and `compute` count. */
struct recurrent_problem {
    struct cuda_recurrent shape;
    bool backward;
    bool tf32; /* products may round their operands to tf32 */
};

struct recurrent_way {
    enum recurrent_kind kind;
    struct cuda_recurrent_plan plan; /* RECURRENT_WHOLE */
    struct product *product;         /* RECURRENT_STEPS; owned */
    enum tensor_type operands;       /* of the product */
    /* where its parts of the workspace begin, and how large that is */
    size_t weight, operand, carried, sums, workspace_bytes;
};

/* Finds the fastest way. Without memory to measure on, it is one launch where that is possible. */
int recurrent_choose(struct backend_device *device, const struct recurrent_problem *problem,
                     struct recurrent_way *way, struct error *error);
void recurrent_way_free(struct recurrent_way *way);
/* Launches it. `scratch`: CUDA_PRODUCT_SCRATCH bytes. */
int recurrent_launch(const struct recurrent_way *way, const struct cuda_recurrent *recurrent,
                     bool backward, char *workspace, void *scratch, cudaStream_t stream,
                     struct error *error);
