/* recurrent.h: the kernels of LSTM and GRU (engine/graph/operators/recurrent.c has the formulas) as
 * the host code calls them; see kernels.h. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a node reads and writes. Arrays of the batch are [batch, steps, ...]. */
struct cuda_recurrent {
    enum recurrent_cell cell;
    int64_t batch, steps, hidden;
    bool reverse;
    const int32_t *lengths; /* NULL: all are `steps` */
    /* To which weights and states are rounded before they are multiplied: float32, bfloat16 or
     * float16. */
    int compute;
    const float *weight; /* [gates hidden, hidden] */
    const float *bias;   /* of the state's product */
    struct cuda_array input, y;
    struct cuda_array gates, cells; /* at NULL: are not kept */
    /* [batch, hidden]: what the batch before left of the state and of an LSTM's cells, NULL: 0; and
     * what this one leaves */
    const float *h0, *c0;
    float *last_h, *last_c;
    /* backward */
    struct cuda_array dy, memory, dinput; /* memory: the cells (LSTM) or y (GRU) */
    const float *memory_first;            /* before the first step: c0 (LSTM) or h0 (GRU) */
};

/* ---- a launch for all steps: blocks that hold the weights, and wait for each other ---- */

struct cuda_recurrent_plan {
    bool tensor;        /* tensor cores multiply */
    int blocks, groups; /* of units; of samples */
    size_t shared_bytes;
    size_t workspace_bytes; /* the last bytes are counters */
};
/* False: the device cannot hold the weights so. */
bool cuda_recurrent_plan(const struct cuda_recurrent *recurrent, bool backward,
                         struct cuda_recurrent_plan *plan);
cudaError_t cuda_recurrent_sequence(const struct cuda_recurrent *recurrent,
                                    const struct cuda_recurrent_plan *plan, void *workspace,
                                    cudaStream_t stream);
cudaError_t cuda_recurrent_sequence_backward(const struct cuda_recurrent *recurrent,
                                             const struct cuda_recurrent_plan *plan,
                                             void *workspace, cudaStream_t stream);

/* ---- a launch for each step, behind a product ---- */

/* What goes from step to step. */
struct cuda_recurrent_step {
    int64_t number; /* of `steps`, in the order of the walk */
    /* The state's product [batch, gates hidden]; backward [batch, hidden]. It is not read at the
     * first step, unless that has a state before it. */
    const float *sums;
    /* Forward: the state [batch, hidden] for the next product. Backward: the gradients by what the
     * product gives [batch, gates hidden]. */
    struct cuda_array operand;
    /* [batch, hidden]: LSTM: the cells' content, or the gradient by it. GRU: the state, or the part
     * of its gradient that passes by. The first step does not read it. */
    float *carried;
};
cudaError_t cuda_recurrent_step(const struct cuda_recurrent *recurrent,
                                const struct cuda_recurrent_step *step, cudaStream_t stream);
cudaError_t cuda_recurrent_step_backward(const struct cuda_recurrent *recurrent,
                                         const struct cuda_recurrent_step *step,
                                         cudaStream_t stream);

/* ---- the gradient by the weights: its operands ---- */

/* previous[b, t] = y of the step that was read before t; at the first one h0, or 0. */
cudaError_t cuda_recurrent_previous(const struct cuda_recurrent *recurrent, struct cuda_array y,
                                    struct cuda_array previous, cudaStream_t stream);
/* The gradients by what the state's product gives: dinput, of a GRU's third gate times the reset
 * gate. */
cudaError_t cuda_recurrent_product_gradient(const struct cuda_recurrent *recurrent,
                                            struct cuda_array gates, struct cuda_array dinput,
                                            struct cuda_array result, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
