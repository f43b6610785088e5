/* kernels.h: the kernels of the CUDA backend as the host code calls them. Each function launches on
 * `stream` and returns cudaGetLastError(). `float *` is float32; struct cuda_array says how its
 * numbers are stored. Arithmetic is float32 in any case. Images are channels-last, all else is
 * row-major in PyTorch's shapes. Sums have a fixed order, so that one device always gives the same
 * bits. */
#pragma once

#include "engine/backends/update_rule.h"
#include "engine/graph/graph.h"
#include "engine/graph/loss_scale.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* the groups of an optimizer: 64 of a specification and one for the rest, each divided into up
     * to 4 (worker_spec_train.c) */
    CUDA_GROUPS_MAX = 260,
    CUDA_ITEMS_MAX = 32,       /* the most parameters of one launch */
    CUDA_SQUARES_BLOCKS = 128, /* the partial sums of one launch */
    CUDA_SQUARES_LAUNCHES = 64,
    CUDA_ARRIVALS = 256 /* counters of finished blocks */
};

/* What changes from step to step. It is in device memory, where the kernels of a captured graph
 * read it. If one graph has several steps, each of them has its own. */
struct cuda_scalars {
    uint64_t seed;
    int64_t batch, step;
    float loss_factor;    /* the factor of the gradient of the mean loss */
    float unscale;        /* the factor by which gradients are multiplied first */
    float clip_norm;      /* 0: none */
    float clip_value;     /* INFINITY: none */
    float average_share;  /* of a moving average: 1 - decay */
    int32_t finite_alone; /* an update with a gradient that is not finite changes nothing */
    int32_t group_count;
    /* On the device. It multiplies loss_factor and is adapted at the update. NULL: the host has
     * done both. */
    struct loss_scale *loss_scale;
    /* for batches that the device makes (batch.h) */
    int64_t first;  /* the place of the batch's first sample in the orders */
    uint32_t epoch; /* by which augmentation draws */
    float share;    /* MixUp's lambda */
    float soft_low, soft_own, soft_other;
    /* the last member: as many as the graph has groups */
    float group[CUDA_GROUPS_MAX][UPDATE_COEFFICIENTS];
};

/* What the device keeps for a program between runs. */
struct cuda_metrics {
    double loss_sum, last_loss;
    int64_t samples, labels, correct, nonfinite_step;
};
struct cuda_control {
    struct cuda_metrics metrics;
    int64_t labels;                   /* of the step's loss: those that count */
    float gradient_factor;            /* of the current update */
    int32_t skipped;                  /* the update changes nothing */
    unsigned arrivals[CUDA_ARRIVALS]; /* zero between launches */
    struct loss_scale loss_scale;
    float group[CUDA_GROUPS_MAX][UPDATE_COEFFICIENTS]; /* if the device adapts the loss scale */
    double squares[CUDA_SQUARES_BLOCKS * CUDA_SQUARES_LAUNCHES];
};

/* An array of numbers. `type` is enum tensor_type: float32, bfloat16 or float16. */
struct cuda_array {
    void *at;
    int type;
};

/* ---- elementwise.cu: `kind` is enum activation_kind. A result may take the place of an operand of
 * its own type ---- */

cudaError_t cuda_activation(int kind, struct cuda_array x, struct cuda_array y, int64_t count,
                            cudaStream_t stream);
cudaError_t cuda_activation_backward(int kind, struct cuda_array dy, struct cuda_array saved,
                                     struct cuda_array dx, int64_t count, cudaStream_t stream);
/* y = f(a) or f(a, b), element by element, for the node's operator. `b` has no address if there is
 * one operand. */
struct graph_node;
cudaError_t cuda_pointwise(const struct graph_node *node, struct cuda_array a, struct cuda_array b,
                           struct cuda_array y, int64_t count, cudaStream_t stream);
cudaError_t cuda_cast(struct cuda_array x, struct cuda_array y, int64_t count, cudaStream_t stream);
/* Several at a time. */
enum { CUDA_CASTS_MAX = 64 };
struct cuda_cast {
    const float *from;
    struct cuda_array to;
    int64_t elements;
};
struct cuda_casts {
    int count;
    int first_block[CUDA_CASTS_MAX + 1]; /* set by the function */
    struct cuda_cast cast[CUDA_CASTS_MAX];
};
cudaError_t cuda_cast_many(struct cuda_casts *casts, cudaStream_t stream);
/* Which number of the mask of base/philox.h an element gets. row > 0: that of its row, which has so
 * many elements; otherwise that of its index in PyTorch's order. channels > 0: the images are
 * channels-last; then a row is a channel of an image. */
struct cuda_dropout_shape {
    int64_t row, channels, pixels;
};
cudaError_t cuda_dropout(const struct cuda_scalars *scalars, uint32_t dropout_stream,
                         float probability, const struct cuda_dropout_shape *shape,
                         struct cuda_array x, struct cuda_array y, int64_t count,
                         cudaStream_t stream);
/* `summed`: does nothing if the update is skipped. */
cudaError_t cuda_moving_average(const struct cuda_control *control,
                                const struct cuda_scalars *scalars, bool summed, bool copies,
                                float *average, const float *value, int64_t count,
                                cudaStream_t stream);

/* ---- generation.cu ---- */

/* The major compute capability whose instructions the kernels may use on this device: that of the
 * code they run from, which may have been compiled for an earlier generation than the device's. */
cudaError_t cuda_code_major(int *major);

/* ---- layout.cu: between PyTorch's order and channels-last: [n, channels, pixels] and
 * [n, pixels, channels] ---- */

struct cuda_layout {
    int64_t channels, pixels; /* channels 1: both orders are the same */
};
/* Copies `count` elements, from element `first` of the tensor in PyTorch's order, from `canonical`,
 * where they are contiguous, to their places in `stored`; and back. */
cudaError_t cuda_layout_store(struct cuda_layout layout, struct cuda_array canonical,
                              struct cuda_array stored, int64_t first, int64_t count,
                              cudaStream_t stream);
cudaError_t cuda_layout_load(struct cuda_layout layout, struct cuda_array stored,
                             struct cuda_array canonical, int64_t first, int64_t count,
                             cudaStream_t stream);

/* ---- images.cu ---- */

struct cuda_pool {
    int64_t images, channels, height, width, out_height, out_width;
    int kernel[2], stride[2], padding[2];
    bool rectified;    /* for a maximum: of max(0, x + bias); bias NULL: of max(0, x) */
    const float *bias; /* [channels] */
};
/* The position of a rectified maximum that is not above zero. Only windows of fewer pixels than
 * this are rectified. */
enum { CUDA_POOL_NOWHERE = 255 };
/* `position` receives each maximum's position within its window, row by row; NULL: it is not
 * wanted. */
cudaError_t cuda_max_pool(const struct cuda_pool *pool, struct cuda_array x, struct cuda_array y,
                          uint8_t *position, cudaStream_t stream);
cudaError_t cuda_max_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                   const uint8_t *position, struct cuda_array dx,
                                   cudaStream_t stream);
cudaError_t cuda_average_pool(const struct cuda_pool *pool, struct cuda_array x,
                              struct cuda_array y, cudaStream_t stream);
cudaError_t cuda_average_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                       struct cuda_array dx, cudaStream_t stream);
/* An activation that is a channel scale's neighbour. */
struct cuda_gate {
    int kind; /* enum activation_kind; -1: there is none */
    /* Forward: receives the activation's result, in whose type it multiplies; at NULL: nothing
     * does. It must not overlap `scale`. Backward: what the activation saved. */
    struct cuda_array tensor;
};
/* x[images, pixels, channels] gate(scale[images, channels]). Results may overwrite x and dy. */
cudaError_t cuda_channel_scale(struct cuda_array x, struct cuda_array scale, struct cuda_gate gate,
                               struct cuda_array y, int64_t images, int64_t pixels,
                               int64_t channels, cudaStream_t stream);
/* dscale = the sums of dy x over the pixels, times the gate's derivative; dx = dy scale, unless
 * dx.at is NULL. Here `scale` is the gate's result. */
cudaError_t cuda_channel_scale_backward(struct cuda_array dy, struct cuda_array x,
                                        struct cuda_array scale, struct cuda_gate gate,
                                        struct cuda_array dx, struct cuda_array dscale,
                                        int64_t images, int64_t pixels, int64_t channels,
                                        cudaStream_t stream);
/* dx = dy scale + pooled / pixels, with pooled[images, channels] the gradient with respect to an
 * average of x. dy at NULL: only the second term. */
cudaError_t cuda_channel_scale_gradient(struct cuda_array dy, struct cuda_array scale,
                                        struct cuda_array pooled, struct cuda_array dx,
                                        int64_t images, int64_t pixels, int64_t channels,
                                        cudaStream_t stream);

/* ---- embedding.cu: index[count]; one outside of the vocabulary gives not a number ---- */

cudaError_t cuda_embedding(const int32_t *index, const float *weight, struct cuda_array y,
                           int64_t count, int64_t width, int64_t vocabulary, cudaStream_t stream);
/* Into how many parts the positions are divided, whose sums are added up at the end. */
int cuda_embedding_parts(int64_t count, int64_t vocabulary);
/* sums_of_parts: cuda_embedding_parts() x vocabulary x width numbers; NULL if there is one part
 * alone */
cudaError_t cuda_embedding_backward(const int32_t *index, struct cuda_array dy, float *dweight,
                                    int64_t count, int64_t width, int64_t vocabulary,
                                    bool accumulate, float *sums_of_parts, cudaStream_t stream);

/* ---- reduce.cu ---- */

/* sum[c] (+)= sum over r of x[r, c] */
cudaError_t cuda_column_sum(struct cuda_array x, int64_t rows, int64_t columns, bool accumulate,
                            float *sum, cudaStream_t stream);
/* The same of many rows. The sums of parts of them are kept in `scratch` first, and added in their
 * order: as many parts as fit there, and keep a block busy. */
cudaError_t cuda_long_column_sum(struct cuda_array x, int64_t rows, int64_t columns,
                                 bool accumulate, float *sum, void *scratch, size_t scratch_bytes,
                                 cudaStream_t stream);
/* The same of rows whose beginnings are `pitch` numbers apart. */
cudaError_t cuda_strided_column_sum(struct cuda_array x, int64_t rows, int64_t pitch,
                                    int64_t columns, bool accumulate, float *sum,
                                    cudaStream_t stream);
/* sum[c][k] (+)= sum over p < count of parts[p][k][c]: gradients of filters with `taps` taps. */
cudaError_t cuda_filter_total(const float *parts, int count, int channels, int taps,
                              bool accumulate, float *sum, cudaStream_t stream);

/* ---- loss.cu: `partial` has room for `rows` doubles and then `rows` integers of 32 bits ---- */

enum { CUDA_LOSS_PARTIAL_BYTES = 12 }; /* for each row */

/* Uses label[rows], or if it is NULL, probability[rows, classes]. Adds to the control's metrics.
 * `tokens`: the rows are steps of sequences, of which those with the label -1 do not count; the
 * control then keeps how many do, for the gradient. */
struct cuda_cross_entropy {
    struct cuda_control *control;
    const struct cuda_scalars *scalars;
    const float *logits;
    const int32_t *label;
    const float *probability;
    float *log_sum_exp;
    int64_t samples, rows, classes;
    bool tokens;
};
cudaError_t cuda_cross_entropy(const struct cuda_cross_entropy *loss, void *partial,
                               cudaStream_t stream);
cudaError_t cuda_cross_entropy_backward(const struct cuda_cross_entropy *loss, float *dlogits,
                                        cudaStream_t stream);
/* The sum of the losses of several heads (engine/graph/loss_head.h). */
struct cuda_head_losses {
    struct cuda_control *control;
    const struct cuda_scalars *scalars;
    const float *logits;           /* [rows, classes] */
    const int32_t *label;          /* [rows, labels] */
    int64_t rows, classes, labels; /* of all heads */
    struct loss_head heads[GRAPH_HEADS_MAX];
    int head_count;
};
cudaError_t cuda_head_losses(const struct cuda_head_losses *losses, void *partial,
                             cudaStream_t stream);
cudaError_t cuda_head_losses_backward(const struct cuda_head_losses *losses, float *dlogits,
                                      cudaStream_t stream);
cudaError_t cuda_mse(struct cuda_control *control, const struct cuda_scalars *scalars,
                     const float *prediction, const float *target, int64_t rows, int64_t features,
                     void *partial, cudaStream_t stream);
cudaError_t cuda_mse_backward(const struct cuda_scalars *scalars, const float *prediction,
                              const float *target, float *dprediction, int64_t rows,
                              int64_t features, cudaStream_t stream);

/* ---- value_loss.cu: `partial` as of loss.cu ---- */

struct cuda_value_loss {
    struct cuda_control *control;
    const struct cuda_scalars *scalars;
    const float *prediction, *target; /* [rows, features], [rows, targets] */
    int64_t rows, features, targets;
    struct value_loss_config config;
};
cudaError_t cuda_value_loss(const struct cuda_value_loss *loss, void *partial, cudaStream_t stream);
cudaError_t cuda_value_loss_backward(const struct cuda_value_loss *loss, float *dprediction,
                                     cudaStream_t stream);
/* The focal loss, or that of classes in order. */
struct cuda_class_loss {
    struct cuda_control *control;
    const struct cuda_scalars *scalars;
    const float *logits;  /* [rows, classes] */
    const int32_t *label; /* [rows] */
    float *log_sum_exp;   /* [rows] */
    int64_t rows, classes;
    bool ordinal;
    float gamma;
};
cudaError_t cuda_class_loss(const struct cuda_class_loss *loss, void *partial, cudaStream_t stream);
cudaError_t cuda_class_loss_backward(const struct cuda_class_loss *loss, float *dlogits,
                                     cudaStream_t stream);

/* ---- triplet_loss.cu: `partial` as of loss.cu ---- */

struct cuda_triplet_loss {
    struct cuda_control *control;
    const struct cuda_scalars *scalars;
    const float *x;       /* [rows, features] */
    const int32_t *label; /* [rows] */
    float *saved;         /* [rows, row], of triplet_row(rows) */
    int64_t rows, row, features;
    struct triplet_loss_config config;
};
cudaError_t cuda_triplet_loss(const struct cuda_triplet_loss *loss, void *partial,
                              cudaStream_t stream);
cudaError_t cuda_triplet_loss_backward(const struct cuda_triplet_loss *loss, float *dx,
                                       cudaStream_t stream);

/* ---- batch_norm.cu ---- */

struct cuda_batch_norm {
    struct cuda_array x, y; /* [rows, channels, pixels]; channels-last images have pixels 1 */
    const float *weight, *bias;
    float *running_mean, *running_variance; /* NULL: they do not change */
    float *mean, *inverse_std;
    int64_t rows, channels, pixels;
    float epsilon, momentum;
    int multiprocessors;
    bool overlaps;      /* device and code have programmatic dependent launches: generation 9 */
    bool whole;         /* in one launch; needs cuda_batch_norm_can_be_whole() */
    float *partial;     /* cuda_batch_norm_scratch() bytes */
    unsigned *arrivals; /* CUDA_ARRIVALS counters, zero between launches */
    float *means;       /* these three are set by the functions */
    double inverse_rows, inverse_freedom;
    /* The members below need cuda_batch_norm_is_fast(), and have x's type: */
    struct cuda_array addend; /* added to the result; at NULL: none */
    struct {                  /* normalises the addend first; weight NULL: it does not */
        const float *weight, *bias, *mean, *inverse_std;
    } second;
    /* of the sum, enum activation_kind: ReLU, SiLU, hardswish, GELU; -1: none */
    int activation;
};
/* How the gradient with respect to batch norm's result is computed. The derivative of
 * norm->activation, whose operand is recomputed from x, comes in addition. */
struct cuda_batch_norm_gradient {
    struct cuda_array dy;
    /* at not NULL: the result of a ReLU; dy counts where it is above zero, */
    struct cuda_array result;
    struct cuda_array other; /* after this was added to it (at NULL: nothing), */
    /* and that gradient is stored here; it may overwrite dy or other */
    struct cuda_array masked;
    struct cuda_array dx; /* may overwrite dy or `masked` */
    float *dweight, *dbias;
    bool accumulate;
};
/* Whether there are kernels that fuse. Otherwise each channel is computed by one block. */
bool cuda_batch_norm_is_fast(const struct cuda_batch_norm *norm);
/* Whether one launch can compute the moments of the batch and the result, or all gradients.
 * `arrays`: how many arrays as large as x it reads, x among them. */
bool cuda_batch_norm_can_be_whole(const struct cuda_batch_norm *norm, int arrays);
size_t cuda_batch_norm_scratch(const struct cuda_batch_norm *norm);
/* With the moments of the batch, which it computes and stores first. */
cudaError_t cuda_batch_norm_train(const struct cuda_batch_norm *norm, cudaStream_t stream);
/* Computes only the moments; needs cuda_batch_norm_is_fast(). */
cudaError_t cuda_batch_norm_moments(const struct cuda_batch_norm *norm, cudaStream_t stream);
/* With the running values, or with the stored mean and inverse_std. bias NULL: the result is weight
 * x inverse_std, without the mean, as for the gradient through running values. */
cudaError_t cuda_batch_norm_apply(const struct cuda_batch_norm *norm, bool running,
                                  cudaStream_t stream);
cudaError_t cuda_batch_norm_backward(const struct cuda_batch_norm *norm,
                                     const struct cuda_batch_norm_gradient *gradient,
                                     cudaStream_t stream);

/* ---- convolution.cu ---- */

/* y[r, c] = activation(x[r, c] + bias[c]). kind: enum activation_kind, -1: none; bias NULL: none. x
 * + bias is also written to `sum`, unless that is at NULL. y or sum may overwrite x. */
cudaError_t cuda_bias_activation(struct cuda_array x, const float *bias, int kind,
                                 struct cuda_array sum, struct cuda_array y, int64_t rows,
                                 int64_t channels, cudaStream_t stream);
enum { CUDA_CHANNEL_PARTS = 256 };
/* sum[c] (+)= sum over r of x[r, c]. `parts`: room for CUDA_CHANNEL_PARTS times `channels`. */
struct cuda_channel_sum {
    struct cuda_array x;
    int64_t rows, channels;
    bool accumulate;
    float *sum, *parts;
    unsigned *arrivals;      /* CUDA_ARRIVALS counters, zero between launches */
    const uint8_t *position; /* not NULL: leaves out elements whose position is CUDA_POOL_NOWHERE */
    /* The derivative of an activation of this kind (-1: none), which saved `saved`, is applied to x
     * first. The product is stored, and may overwrite x. */
    int kind;
    struct cuda_array saved, result;
};
cudaError_t cuda_channel_sum(const struct cuda_channel_sum *sum, cudaStream_t stream);
/* to[b, row, tap, c] (+)= from[b, row, tap, c], or 0 where `from` has no such row or channel. */
struct cuda_fill {
    int64_t blocks;
    int64_t from_rows, to_rows, taps, from_channels, to_channels;
};
cudaError_t cuda_fill_channels(const struct cuda_fill *fill, struct cuda_array from,
                               struct cuda_array to, bool accumulate, cudaStream_t stream);
/* gradient (+)= from, element by element */
cudaError_t cuda_add_gradient(struct cuda_array from, float *gradient, int64_t count,
                              bool accumulate, cudaStream_t stream);

/* ---- depthwise.cu ---- */

enum { CUDA_DEPTHWISE_BLOCKS = 264 }; /* blocks that sum up the gradient of the weights */
enum cuda_depthwise_pass { CUDA_DEPTHWISE_FORWARD, CUDA_DEPTHWISE_DATA, CUDA_DEPTHWISE_WEIGHTS };
struct cuda_depthwise {
    int type; /* of images and filters: enum tensor_type */
    int batch, channels, height, width, out_height, out_width;
    int kernel, stride; /* 3 or 5; 1 or 2; padding is kernel / 2; channels: a multiple of 8 */
};
struct cuda_depthwise_operands {
    void *x, *y;        /* or their gradients */
    const void *weight; /* not for WEIGHTS */
    const float *bias;  /* for FORWARD; may be NULL */
    float *gradient;    /* for WEIGHTS: (+)= the result */
    bool accumulate;
    float *parts; /* for WEIGHTS: room for the partial sums of some whole gradients */
    size_t part_bytes;
};
cudaError_t cuda_depthwise(const struct cuda_depthwise *depthwise, enum cuda_depthwise_pass pass,
                           const struct cuda_depthwise_operands *operands, cudaStream_t stream);

/* ---- direct.cu and implicit.cu: any convolution ---- */

struct cuda_convolution {
    int type;  /* of images and filters: enum tensor_type */
    bool tf32; /* float32 may be multiplied in tf32 */
    int batch, channels, height, width, outputs, out_height, out_width;
    int kernel[2], stride[2], padding[2], dilation[2], groups;
};

/* A thread has a channel of some results: for few channels in a group. part_bytes: of the operands'
 * `parts`. */
enum { CUDA_DIRECT_BLOCKS = 1056 }; /* the most blocks, here and in narrow.cu */
bool cuda_direct_is_possible(const struct cuda_convolution *convolution, size_t part_bytes);
cudaError_t cuda_direct(const struct cuda_convolution *convolution, enum cuda_depthwise_pass pass,
                        const struct cuda_depthwise_operands *operands, cudaStream_t stream);

/* As a product of gathered operands, on devices of compute capability 8.0 and above. `tile`: the
 * size of a block's results, one of CUDA_IMPLICIT_TILES. Every pass uses `parts`. */
enum {
    CUDA_IMPLICIT_TILES = 4,
    CUDA_IMPLICIT_BLOCKS = 264, /* the blocks to aim at, for which terms are divided */
    CUDA_IMPLICIT_STRIDE_MAX = 4
};
bool cuda_implicit_is_possible(const struct cuda_convolution *convolution,
                               enum cuda_depthwise_pass pass, size_t part_bytes);
cudaError_t cuda_implicit(const struct cuda_convolution *convolution, enum cuda_depthwise_pass pass,
                          int tile, const struct cuda_depthwise_operands *operands,
                          cudaStream_t stream);

/* ---- narrow.cu ---- */

/* Only by the data: threads of a warp divide the filters. */
enum { CUDA_NARROW_CHANNELS = 4 }; /* the most channels */
bool cuda_narrow_is_possible(const struct cuda_convolution *convolution);
cudaError_t cuda_narrow_data(const struct cuda_convolution *convolution,
                             const struct cuda_depthwise_operands *operands, cudaStream_t stream);

/* ---- pointwise.cu ---- */

/* 1x1 convolutions of few channels, all passes. part_bytes: of the operands' `parts`. */
enum {
    CUDA_POINTWISE_CHANNELS = 32, /* the most channels, and the most filters */
    CUDA_POINTWISE_BLOCKS = 528   /* blocks that sum up the gradient of the weights */
};
bool cuda_pointwise_convolution_is_possible(const struct cuda_convolution *convolution,
                                            size_t part_bytes);
cudaError_t cuda_pointwise_convolution(const struct cuda_convolution *convolution,
                                       enum cuda_depthwise_pass pass,
                                       const struct cuda_depthwise_operands *operands,
                                       cudaStream_t stream);

/* ---- stem.cu: on devices of compute capability 8.0 and more ---- */

enum { CUDA_STEM_BLOCKS = 528 }; /* blocks that sum up the gradient of the weights */
/* 3x3 convolutions with padding 1 of images with one or three channels, in 16 bits. */
struct cuda_stem {
    int type; /* of images and filters: enum tensor_type */
    int batch, channels, height, width, outputs, out_height, out_width, stride, padding;
};
/* Without `gradient` it writes y; with it, gradient (+)= the result. */
struct cuda_stem_operands {
    const void *x, *weight;
    void *y;           /* or its gradient */
    const float *bias; /* may be NULL */
    float *gradient;
    bool accumulate;
    float *parts; /* with `gradient`: room for the partial sums of some whole gradients */
    size_t part_bytes;
};
bool cuda_stem_is_possible(const struct cuda_stem *stem);
cudaError_t cuda_stem(const struct cuda_stem *stem, const struct cuda_stem_operands *operands,
                      cudaStream_t stream);

/* ---- weights_tf32.cu: on devices of compute capability 8.0 and more ---- */

/* 3x3 convolutions with stride 1 and padding 1 of float32, multiplied in tf32. */
struct cuda_weights_tf32 {
    int batch, channels, height, width, outputs;
};
struct cuda_weights_tf32_operands {
    const void *x, *y; /* the images, and the gradient with respect to the results */
    float *gradient;   /* (+)= the result */
    bool accumulate;
    float *parts; /* room for the partial sums of some whole gradients, at least one */
    size_t part_bytes;
};
bool cuda_weights_tf32_is_possible(const struct cuda_weights_tf32 *weights);
cudaError_t cuda_weights_tf32(const struct cuda_weights_tf32 *weights,
                              const struct cuda_weights_tf32_operands *operands,
                              cudaStream_t stream);

/* ---- optimizer.cu ---- */

struct cuda_item {
    float *parameter;
    struct cuda_array gradient;
    float *state0, *state1, *state2; /* NULL: none */
    int64_t count;
    int32_t formula, group; /* enum update_formula; the index of the group's coefficients */
    int32_t rounding; /* enum tensor_type, to which the parameter is rounded; float32: it is not */
};
struct cuda_items {
    int32_t count;
    int32_t first_block[CUDA_ITEMS_MAX + 1];
    struct cuda_item item[CUDA_ITEMS_MAX];
};
/* Fills in first_block, and returns how many blocks the update takes. */
int cuda_items_blocks(struct cuda_items *items);

/* Computes partial sums of the gradients' squares, for launch number `launch`. */
cudaError_t cuda_gradient_squares(struct cuda_control *control, const struct cuda_items *items,
                                  int launch, cudaStream_t stream);
/* Computes the factor of the gradients, and whether the update is skipped. */
cudaError_t cuda_gradient_factor(struct cuda_control *control, const struct cuda_scalars *scalars,
                                 int launches, cudaStream_t stream);
/* `summed`: multiplies by that factor, and does nothing if the update is skipped. */
cudaError_t cuda_optimizer_update(const struct cuda_control *control,
                                  const struct cuda_scalars *scalars,
                                  const struct cuda_items *items, bool summed, cudaStream_t stream);

/* ---- muon.cu ---- */

struct cuda_muon {
    const struct cuda_control *control;
    const struct cuda_scalars *scalars;
    bool summed;
    struct cuda_item item; /* state0: the momentum */
};
/* Updates the momentum; x = the direction / max(its norm, epsilon). squares:
 * CUDA_SQUARES_BLOCKS. */
cudaError_t cuda_muon_direction(const struct cuda_muon *muon, double epsilon, float *x,
                                double *squares, cudaStream_t stream);
/* Moves the parameter against x, by the step's rate times `scale`. */
cudaError_t cuda_muon_update(const struct cuda_muon *muon, float scale, const float *x,
                             cudaStream_t stream);

/* ---- lamb.cu ---- */

struct cuda_lamb {
    const struct cuda_control *control;
    const struct cuda_scalars *scalars;
    bool summed;
    struct cuda_item item; /* state0, state1: the moments */
};
/* Updates the moments and the parameter. squares: 2 CUDA_SQUARES_BLOCKS. */
cudaError_t cuda_lamb(const struct cuda_lamb *lamb, double *squares, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
