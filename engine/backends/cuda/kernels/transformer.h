/* transformer.h: the kernels of transformers as the host code calls them: row_norm.cu, tokens.cu
 * and attention.cu. Conventions are those of kernels.h. Sequences are [batch, steps, features]. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- row_norm.cu: layer norm and RMS norm ---- */

struct cuda_row_norm {
    int64_t rows, width;
    float epsilon;
    bool centred;               /* the rows' means are subtracted: layer norm */
    struct cuda_array x;        /* [rows, width]; for the gradient: what was normalised */
    const float *weight, *bias; /* [width]; bias may be NULL */
    struct cuda_array residual; /* at not NULL: is added to x first, */
    struct cuda_array sum;      /* and the sum is stored here */
    struct cuda_array y;
    float *mean, *inverse; /* [rows]; NULL: not wanted; mean: of RMS norm always NULL */
};
struct cuda_row_norm_gradient {
    struct cuda_array dy, dx;
    struct cuda_array dsum; /* at not NULL: is added to dx */
    float *dweight, *dbias; /* dbias may be NULL */
    bool adds_weight, adds_bias;
    float *parts; /* cuda_row_norm_parts() x 2 x width numbers */
};
cudaError_t cuda_row_norm(const struct cuda_row_norm *norm, cudaStream_t stream);
/* How many partial sums of the gradients of weight and bias there are. */
int cuda_row_norm_parts(int64_t rows);
cudaError_t cuda_row_norm_backward(const struct cuda_row_norm *norm,
                                   const struct cuda_row_norm_gradient *gradient,
                                   cudaStream_t stream);

/* ---- tokens.cu ---- */

/* y = x + the positions, `count` numbers that each sample adds. y may overwrite x. */
cudaError_t cuda_add_positions(struct cuda_array x, const float *positions, struct cuda_array y,
                               int64_t batch, int64_t count, cudaStream_t stream);
/* Puts a token before the steps of x; and dx from dy, whose first step is left out. */
cudaError_t cuda_prepend_token(struct cuda_array x, const float *token, struct cuda_array y,
                               int64_t batch, int64_t steps, int64_t features, cudaStream_t stream);
cudaError_t cuda_prepend_token_backward(struct cuda_array dy, struct cuda_array dx, int64_t batch,
                                        int64_t steps, int64_t features, cudaStream_t stream);

/* Which steps of a sequence are averaged. A sequence has lengths[b] steps, at least 1 and at most
 * `steps`; lengths NULL: all have `steps`. */
enum cuda_pooled_steps { CUDA_FIRST_STEP, CUDA_LAST_STEP, CUDA_ALL_STEPS };
struct cuda_step_pool {
    int64_t batch, steps, features;
    const int32_t *lengths;
    enum cuda_pooled_steps pooled;
};
/* [batch, steps, features] -> [batch, features], and the gradient. */
cudaError_t cuda_step_pool(const struct cuda_step_pool *pool, struct cuda_array x,
                           struct cuda_array y, cudaStream_t stream);
cudaError_t cuda_step_pool_backward(const struct cuda_step_pool *pool, struct cuda_array dy,
                                    struct cuda_array dx, cudaStream_t stream);

/* Turns the queries and keys of qkv[batch, steps, 3, heads, width] (graph_rotary()); `inverse`:
 * back again, for the gradient. */
struct cuda_rotary {
    int64_t batch, steps;
    int heads, width;
    float base;
    bool inverse;
};
cudaError_t cuda_rotary(const struct cuda_rotary *rotary, struct cuda_array x, struct cuda_array y,
                        cudaStream_t stream);

/* ---- attention.cu, attention_tensor.cu ---- */

enum { CUDA_ATTENTION_WIDTH_MAX = 128 }; /* of a head */
struct cuda_attention {
    int64_t batch, steps;
    int heads, width;
    bool causal;
    const int32_t *lengths;     /* steps of each sequence that are attended to; NULL: all */
    struct cuda_array qkv;      /* [batch, steps, 3, heads, width] */
    struct cuda_array y;        /* [batch, steps, heads, width] */
    float *log_sum_exp;         /* [batch, heads, steps]; NULL: not wanted */
    struct cuda_array dy, dqkv; /* of the gradient, as `delta`: */
    float *delta;               /* room for [batch, heads, steps] */
};
cudaError_t cuda_attention(const struct cuda_attention *attention, cudaStream_t stream);
cudaError_t cuda_attention_backward(const struct cuda_attention *attention, cudaStream_t stream);

/* By tensor cores, on devices of compute capability 8.0 and above. All numbers have to be stored in
 * one type of 16 bits, those of the gradients too if `backward`, and widths to be multiples of 8.
 * The arrays need no addresses yet. */
bool cuda_attention_tensor_is_possible(const struct cuda_attention *attention, bool backward);
cudaError_t cuda_attention_tensor(const struct cuda_attention *attention, cudaStream_t stream);
cudaError_t cuda_attention_tensor_backward(const struct cuda_attention *attention,
                                           cudaStream_t stream);
/* The same by a block for each head of a sample, attention_head.cu: sequences and heads have to fit
 * into a block's shared memory, and their gradients into its registers. */
bool cuda_attention_head_is_possible(const struct cuda_attention *attention, bool backward);
cudaError_t cuda_attention_head(const struct cuda_attention *attention, bool backward,
                                cudaStream_t stream);
/* delta = the products of dy and y, row by row; both backward parts of the others begin with it. */
cudaError_t cuda_attention_delta(const struct cuda_attention *attention, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
