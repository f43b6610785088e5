/* sequence.h: the kernels of sequences as the host code calls them; see kernels.h. Steps of a
 * sequence lie one behind another: [sequences, length, features]. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sequence.cu ---- */

/* Sequences x[batch, steps, features] and what is made of each, y[batch, features]. */
struct cuda_time_pool {
    const int32_t *lengths; /* NULL: all are `steps` */
    int64_t batch, steps, features;
};
/* `position` receives the step of each maximum; NULL: it is not wanted. */
cudaError_t cuda_max_over_time(const struct cuda_time_pool *pool, struct cuda_array x,
                               struct cuda_array y, int32_t *position, cudaStream_t stream);
cudaError_t cuda_max_over_time_backward(const struct cuda_time_pool *pool, struct cuda_array dy,
                                        const int32_t *position, struct cuda_array dx,
                                        cudaStream_t stream);

/* Lets the steps behind the end of each sequence be 0. y may overwrite x. */
cudaError_t cuda_mask_steps(const struct cuda_time_pool *pool, struct cuda_array x,
                            struct cuda_array y, cudaStream_t stream);

/* Parts that lie side by side in the rows of a wide array. */
struct cuda_columns {
    int count;
    struct cuda_array part[GRAPH_OUTPUTS_MAX];
    int64_t width[GRAPH_OUTPUTS_MAX];
    struct cuda_array wide;
    int64_t rows;
};
cudaError_t cuda_concatenate(const struct cuda_columns *columns, cudaStream_t stream);
cudaError_t cuda_split(const struct cuda_columns *columns, cudaStream_t stream);

/* y[batch, 2 length]: x, and behind it its reverse complement. */
cudaError_t cuda_both_strands(const struct complement_attributes *complement, const int32_t *x,
                              int32_t *y, int64_t batch, int64_t length, cudaStream_t stream);

/* lengths[batch] of index[batch, steps], which `padding` fills up: 1 at least. */
cudaError_t cuda_sequence_lengths(const int32_t *index, int32_t *lengths, int64_t batch,
                                  int64_t steps, int32_t padding, cudaStream_t stream);

/* result[batch]: the windows of sequences with these lengths (graph_window_lengths()): 1 at
 * least. */
cudaError_t cuda_window_lengths(const struct window_lengths *windows, const int32_t *lengths,
                                int32_t *result, int64_t batch, cudaStream_t stream);

/* ---- causal_conv.cu ---- */

struct cuda_causal_conv {
    int64_t sequences, length, channels;
    int kernel; /* at most CAUSAL_KERNEL_MAX */
    bool reverse, silu;
    const float *weight, *bias;
    struct cuda_array x, y;
    /* backward */
    struct cuda_array dy, dx;
    float *dweight, *dbias;
    bool accumulate_weight, accumulate_bias;
    float *parts; /* cuda_causal_conv_scratch() bytes */
};
cudaError_t cuda_causal_conv(const struct cuda_causal_conv *conv, cudaStream_t stream);
size_t cuda_causal_conv_scratch(const struct cuda_causal_conv *conv);
cudaError_t cuda_causal_conv_backward(const struct cuda_causal_conv *conv, cudaStream_t stream);

/* ---- selective_scan.cu ---- */

struct cuda_scan {
    int64_t sequences, length, channels, states;
    bool reverse;
    struct cuda_array u, delta, b, c, z, y; /* z at NULL: no gate */
    const float *a_log, *d;
    float *kept; /* [sequences, chunks, states, channels]: the states before each chunk */
    /* backward */
    struct cuda_array dy, du, ddelta, db, dc, dz;
    float *da_log, *dd;
    bool accumulate_a, accumulate_d;
    float *scratch; /* cuda_scan_scratch() or cuda_scan_backward_scratch() bytes */
};
/* The numbers in `kept`. */
int64_t cuda_scan_kept(const struct cuda_scan *scan);
size_t cuda_scan_scratch(const struct cuda_scan *scan);
size_t cuda_scan_backward_scratch(const struct cuda_scan *scan);
cudaError_t cuda_selective_scan(const struct cuda_scan *scan, cudaStream_t stream);
cudaError_t cuda_selective_scan_backward(const struct cuda_scan *scan, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
