/* small_linear.h: linear layers so small that a launch takes longer than their arithmetic. A whole
 * step takes a few launches (small_linear.cu). They need compute capability 8.0 or above.
 *
 * `type` is the type in which operands are multiplied, however they are stored: float32, tf32,
 * bfloat16 or float16 (enum tensor_type). */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* rows and columns of a tile of results, and the terms of a sum that are taken at once */
    SMALL_TILE = 16,
    SMALL_WARPS = 16, /* of a block */
    SMALL_CLASSES_MAX = SMALL_TILE,
    SMALL_LAYERS_MAX = 12 /* the most layers of one launch */
};

/* An operand: rows x terms of the sum. The operator says which of them are contiguous. */
struct cuda_small_matrix {
    struct cuda_array array;
    int32_t rows, terms;
    bool wide; /* four terms, or two rows, are contiguous and may be read at once */
};

/* y[a.rows, b.rows]. Forward: a = x[B,I], b = weight[O,I], y = activation(sum + bias). Otherwise: a
 * = dy[B,O], b = weight[O,I] (whose rows are I), y = sum times the activation's derivative. */
struct cuda_small_product {
    struct cuda_small_matrix a, b;
    struct cuda_array y;
    const float *bias;        /* NULL: none */
    struct cuda_array before; /* forward: where sum + bias is written as well; at NULL: nowhere */
    struct cuda_array saved;  /* backward: the tensor from which the derivative is computed */
    int32_t activation;       /* -1: none */
    int32_t parts;            /* warps that sum up a tile: a power of 2, at most SMALL_WARPS */
};
cudaError_t cuda_small_product(int type, bool forward, const struct cuda_small_product *product,
                               cudaStream_t stream);

/* The last layer with softmax cross entropy, forward and backward, and the gradient by its samples.
 * cuda_cross_entropy() and cuda_cross_entropy_backward() say what is written. */
struct cuda_small_head {
    struct cuda_small_matrix x, weight;    /* [B,I], [C,I], C at most SMALL_CLASSES_MAX */
    const float *bias;                     /* NULL: none */
    float *logits, *log_sum_exp, *dlogits; /* dlogits NULL: only forward */
    const int32_t *label;                  /* or NULL: */
    const float *probability;
    void *partial;    /* CUDA_LOSS_PARTIAL_BYTES for each row */
    bool losses_wait; /* cuda_small_weights() adds them up later, beside its other work */
    /* dx is [B,I]; at NULL: none. It is multiplied by the derivative of the activation before the
     * layer; -1: there is none. */
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
    const void *losses; /* the losses that wait in the head's `partial`; NULL: none */
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
