/* small_linear.h: linear layers so small that a launch takes longer than their arithmetic: a few
 * launches for a whole step (small_linear.cu). From compute capability 8.0 on.
 *
 * `type`: what operands are multiplied as: float32, tf32, bfloat16 or float16 (enum tensor_type),
 * however they are stored. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SMALL_TILE = 16,  /* rows and columns of a tile of results; terms of a sum taken at once */
    SMALL_WARPS = 16, /* of a block */
    SMALL_CLASSES_MAX = SMALL_TILE,
    SMALL_LAYERS_MAX = 12 /* of one launch */
};

/* An operand: rows x terms of the sum; which of them lie side by side, the operator says. */
struct cuda_small_matrix {
    struct cuda_array array;
    int32_t rows, terms;
    bool wide; /* four terms, or two rows, that lie side by side may be read at once */
};

/* y[a.rows, b.rows]. Forward: a = x[B,I], b = weight[O,I], y = activation(sum + bias). Else: a =
 * dy[B,O], b = weight[O,I] (its rows are I), y = sum times the activation's derivative. */
struct cuda_small_product {
    struct cuda_small_matrix a, b;
    struct cuda_array y;
    const float *bias;        /* NULL: none */
    struct cuda_array before; /* forward: where sum + bias goes, too; at NULL: nowhere */
    struct cuda_array saved;  /* backward: what the derivative is calculated of */
    int32_t activation;       /* -1: none */
    int32_t parts;            /* warps that add up a tile: a power of 2, at most SMALL_WARPS */
};
cudaError_t cuda_small_product(int type, bool forward, const struct cuda_small_product *product,
                               cudaStream_t stream);

/* The last layer with softmax cross entropy, forward and backward, and the gradient by its samples:
 * cuda_cross_entropy() and cuda_cross_entropy_backward() say what is written. */
struct cuda_small_head {
    struct cuda_small_matrix x, weight;    /* [B,I], [C,I], C at most SMALL_CLASSES_MAX */
    const float *bias;                     /* NULL: none */
    float *logits, *log_sum_exp, *dlogits; /* dlogits NULL: forward alone */
    const int32_t *label;                  /* or NULL: */
    const float *probability;
    void *partial;    /* CUDA_LOSS_PARTIAL_BYTES a row */
    bool losses_wait; /* for cuda_small_weights() to add them up, beside its other work */
    /* [B,I]; at NULL: none. Times the derivative of the activation before the layer: -1: none */
    struct cuda_array dx, saved;
    int32_t activation;
};
cudaError_t cuda_small_head(int type, struct cuda_control *control,
                            const struct cuda_scalars *scalars, const struct cuda_small_head *head,
                            cudaStream_t stream);

/* gradient[O,I] (+)= dy[B,O]^T x[B,I], bias_gradient[O] (+)= the sums of dy, and the update. */
struct cuda_small_weights {
    struct cuda_small_matrix dy, x;  /* rows O and I; terms B */
    float *gradient, *bias_gradient; /* bias_gradient NULL: none */
    struct cuda_item weight, bias;   /* parameter NULL: not updated */
    int32_t parts;
};
struct cuda_small_layers {
    int32_t count;
    int32_t first_block[SMALL_LAYERS_MAX + 1];
    struct cuda_small_weights layer[SMALL_LAYERS_MAX];
    const void *losses; /* that wait in the head's `partial`; NULL: none */
    int32_t loss_rows;
    struct cuda_control *control; /* to whose metrics they are added */
};
/* Fills in first_block. */
cudaError_t cuda_small_weights(int type, const struct cuda_scalars *scalars,
                               struct cuda_small_layers *layers, bool accumulate,
                               cudaStream_t stream);

#ifdef __cplusplus
}
#endif
