/* general.h: the kernels of operators over plain tensors, as models of other programs need them,
 * as the host code calls them; see kernels.h. Tensors are rows in PyTorch's order unless it says
 * otherwise; the attributes are those of the graph's nodes (engine/graph/graph.h). */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"
#include "engine/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- general.cu ---- */

/* Columns from `first` on of rows[rows, row]: part[rows, width]. */
struct cuda_slice {
    int64_t rows, row, first, width;
};
cudaError_t cuda_slice(const struct cuda_slice *slice, struct cuda_array rows,
                       struct cuda_array part, cudaStream_t stream);
/* rows = part in its columns, 0 in all others */
cudaError_t cuda_slice_backward(const struct cuda_slice *slice, struct cuda_array part,
                                struct cuda_array rows, cudaStream_t stream);

cudaError_t cuda_permute(const struct permute_attributes *how, int64_t batch, struct cuda_array x,
                         struct cuda_array y, cudaStream_t stream);

/* `shared`: x is a parameter, which all samples read. */
cudaError_t cuda_take(const struct take_attributes *how, int64_t batch, bool shared,
                      struct cuda_array x, const float *map, struct cuda_array y,
                      cudaStream_t stream);
/* dx of a parameter sums over the samples. */
cudaError_t cuda_take_backward(const struct take_attributes *how, int64_t batch, bool shared,
                               bool accumulate, struct cuda_array dy, const float *map,
                               struct cuda_array dx, cudaStream_t stream);

cudaError_t cuda_axis_sum(const struct axis_sum_attributes *how, int64_t batch, struct cuda_array x,
                          struct cuda_array y, cudaStream_t stream);
cudaError_t cuda_axis_sum_backward(const struct axis_sum_attributes *how, int64_t batch,
                                   struct cuda_array dy, struct cuda_array dx, cudaStream_t stream);

/* Each of rows[rows, columns]. */
cudaError_t cuda_softmax(int64_t rows, int64_t columns, struct cuda_array x, struct cuda_array y,
                         cudaStream_t stream);
cudaError_t cuda_softmax_backward(int64_t rows, int64_t columns, struct cuda_array dy,
                                  struct cuda_array y, struct cuda_array dx, cudaStream_t stream);

/* For what the library has no product for. */
cudaError_t cuda_batch_product(const struct batch_product_attributes *how, int64_t batch,
                               struct cuda_array a, struct cuda_array b, struct cuda_array y,
                               cudaStream_t stream);

/* ---- broadcast.cu ---- */

struct cuda_broadcast {
    struct broadcast_attributes how;
    int64_t batch;
    bool shared; /* b is a parameter, which all samples read */
};
cudaError_t cuda_broadcast(const struct cuda_broadcast *broadcast, struct cuda_array a,
                           struct cuda_array b, struct cuda_array y, cudaStream_t stream);
/* The gradient by a. Operands that the kind does not read have no address. */
cudaError_t cuda_broadcast_backward_first(const struct cuda_broadcast *broadcast,
                                          struct cuda_array dy, struct cuda_array a,
                                          struct cuda_array b, struct cuda_array da,
                                          cudaStream_t stream);
/* The bytes that the gradient by b needs for the sums of parts. */
size_t cuda_broadcast_scratch(const struct cuda_broadcast *broadcast);
cudaError_t cuda_broadcast_backward_second(const struct cuda_broadcast *broadcast,
                                           struct cuda_array dy, struct cuda_array a,
                                           struct cuda_array b, bool accumulate,
                                           struct cuda_array db, float *scratch,
                                           cudaStream_t stream);

/* ---- spatial.cu: images are channels-last ---- */

/* Of cuda_pool the extents count alone. `position` as cuda_max_pool() has it. */
cudaError_t cuda_adaptive_max(const struct cuda_pool *pool, struct cuda_array x,
                              struct cuda_array y, uint8_t *position, cudaStream_t stream);
cudaError_t cuda_adaptive_max_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                       const uint8_t *position, struct cuda_array dx,
                                       cudaStream_t stream);
cudaError_t cuda_adaptive_average(const struct cuda_pool *pool, struct cuda_array x,
                                  struct cuda_array y, cudaStream_t stream);
cudaError_t cuda_adaptive_average_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                           struct cuda_array dx, cudaStream_t stream);

struct cuda_resize {
    int64_t images, channels;
    int64_t from[2], to[2]; /* height and width */
    float step[2];          /* pixels of the operand from one of the result to the next */
    enum resize_mode mode;
};
cudaError_t cuda_resize(const struct cuda_resize *resize, struct cuda_array x, struct cuda_array y,
                        cudaStream_t stream);
cudaError_t cuda_resize_backward(const struct cuda_resize *resize, struct cuda_array dy,
                                 struct cuda_array dx, cudaStream_t stream);

/* ---- group_norm.cu ---- */

struct cuda_group_norm {
    int64_t batch, channels, pixels;
    bool channels_last;
    int groups;
    float epsilon;
    struct cuda_array x;
    const float *weight, *bias;
    float *mean, *inverse_std; /* [batch, groups] */
    /* cuda_group_norm_pieces() bytes, backward cuda_group_norm_scratch() */
    float *scratch;
    /* backward */
    struct cuda_array dy, dx;
    float *dweight, *dbias;
    bool accumulate_weight, accumulate_bias;
};
size_t cuda_group_norm_pieces(const struct cuda_group_norm *norm);
cudaError_t cuda_group_norm(const struct cuda_group_norm *norm, struct cuda_array y,
                            cudaStream_t stream);
size_t cuda_group_norm_scratch(const struct cuda_group_norm *norm);
cudaError_t cuda_group_norm_backward(const struct cuda_group_norm *norm, cudaStream_t stream);

/* ---- fake_quantize.cu ---- */

/* The bytes in which an observation keeps the ranges of parts. */
enum { CUDA_RANGE_PARTS = 256, CUDA_RANGE_SCRATCH = CUDA_RANGE_PARTS * 2 * sizeof(float) };
/* The running range[2] follows that of x, as on the CPU. */
cudaError_t cuda_observe_range(struct cuda_array x, int64_t count, float *range, float *scratch,
                               cudaStream_t stream);
cudaError_t cuda_fake_quantize(struct cuda_array x, int64_t count, const float *range,
                               struct cuda_array y, cudaStream_t stream);
cudaError_t cuda_fake_quantize_backward(struct cuda_array dy, struct cuda_array x, int64_t count,
                                        const float *range, struct cuda_array dx,
                                        cudaStream_t stream);
/* Each of rows[rows, width] by its own range. */
cudaError_t cuda_fake_quantize_rows(int64_t rows, int64_t width, bool symmetric,
                                    struct cuda_array x, struct cuda_array y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
