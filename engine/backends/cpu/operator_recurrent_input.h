/* operator_recurrent_input.h: the linear layer in front of a recurrent layer, W x + bias for all
 * gates, where the recurrent layer computes it (fusion.c): a block of time steps at a time, which
 * stays in the caches until these steps have read it. */
#pragma once

#include "engine/backends/cpu/program.h"

struct recurrent_input_state {
    int32_t layer; /* node; -1: the product is a tensor */
    bool int8;     /* the weights are integers, which lie packed: */
    struct int8_packing packing;
    bool bfloat16;                       /* x and the weights; multiplied by AMX */
    int64_t features, gates, hidden;     /* of a row of x; of the layer */
    int64_t sequence, block;             /* steps, and those of a block */
    int64_t step;                        /* floats of the product at a time step */
    struct recurrent_product order;      /* of that */
    size_t weights_offset, block_offset; /* in the node's workspace: packed weights, the block */
    size_t bytes;                        /* of both */
};

/* Steps from `first` on, and samples. */
struct recurrent_part {
    int64_t first_step, end_step;
    struct range rows;
};

/* Describes the layer in front of the node and reserves scratch. What it needs of the node's
 * workspace lies from `offset` on. */
void recurrent_input_prepare(struct backend_program *program, int32_t node, int64_t hidden,
                             int64_t gates, size_t offset, struct recurrent_input_state *input);
/* Packs this thread's part of the weights; the threads have to meet before the first product. */
void recurrent_input_begin(struct backend_program *program, const struct step *step,
                           const struct recurrent_input_state *input, int thread);
/* Computes a part of the block whose first time step is `block_first`. */
void recurrent_input_run(struct backend_program *program, const struct step *step,
                         const struct recurrent_input_state *input, int64_t block_first,
                         const struct recurrent_part *part, int thread);
/* The product at a time step of that block. */
struct recurrent_product recurrent_input_at(const struct step *step,
                                            const struct recurrent_input_state *input,
                                            int64_t block_first, int64_t time);
