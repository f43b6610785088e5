/* kernels.h: the kernels of the CUDA backend as the host code calls them: each function puts its
 * launches on `stream` and returns cudaGetLastError(). `float *` is float32; struct cuda_array says
 * how its numbers are stored, and arithmetic is float32 all the same. Images lie channels-last,
 * all else row-major in PyTorch's shapes. Sums have a fixed order, so that results are the same
 * bits on the same device. */
#pragma once

#include "engine/graph/loss_scale.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_GROUPS_MAX = 260,  /* groups of an optimizer: 64 of a specification and the rest, of each
                               up to 4 (worker_spec_train.c) */
    CUDA_COEFFICIENTS = 17, /* numbers that a group's update needs */
    CUDA_ITEMS_MAX = 32,    /* parameters of one launch */
    CUDA_SQUARES_BLOCKS = 128, /* partial sums of one launch */
    CUDA_SQUARES_LAUNCHES = 64,
    CUDA_ARRIVALS = 256 /* counters of blocks that are done */
};

/* What changes from step to step, in device memory: kernels of a captured graph read it there. Each
 * of several steps that one graph does has its own. */
struct cuda_scalars {
    uint64_t seed;
    int64_t batch, step;
    float loss_factor; /* what the gradient of the mean loss is multiplied by */
    float unscale;     /* what gradients are multiplied by before anything else */
    float clip_norm;   /* 0: none */
    float clip_value;  /* INFINITY: none */
    float average_decay;
    int32_t finite_alone; /* an update with a gradient that is not finite changes nothing */
    int32_t group_count;
    struct loss_scale *loss_scale; /* on the device, which multiplies loss_factor and follows its
                                      rule at the update; NULL: the host has done both */
    /* of batches that the device makes (batch.h) */
    int64_t first;  /* place in the orders of the batch's first sample */
    uint32_t epoch; /* that augmentation draws by */
    float share;    /* MixUp's lambda */
    float soft_low, soft_own, soft_other;
    float group[CUDA_GROUPS_MAX][CUDA_COEFFICIENTS]; /* last: as many as the graph has */
};

/* What the device keeps for a program from run to run. */
struct cuda_metrics {
    double loss_sum, last_loss;
    int64_t samples, correct, nonfinite_step;
};
struct cuda_control {
    struct cuda_metrics metrics;
    float gradient_factor;            /* of the present update */
    int32_t skipped;                  /* whether it changes nothing */
    unsigned arrivals[CUDA_ARRIVALS]; /* zero between launches */
    struct loss_scale loss_scale;
    float group[CUDA_GROUPS_MAX][CUDA_COEFFICIENTS]; /* with a loss scale of the device */
    double squares[CUDA_SQUARES_BLOCKS * CUDA_SQUARES_LAUNCHES];
};

/* Numbers as they are stored: `type` is enum tensor_type: float32, bfloat16 or float16. */
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
/* y = f(a) or f(a, b), element by element, of the node's operator; `b` without address where it has
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
    int first_block[CUDA_CASTS_MAX + 1]; /* the function's own */
    struct cuda_cast cast[CUDA_CASTS_MAX];
};
cudaError_t cuda_cast_many(struct cuda_casts *casts, cudaStream_t stream);
/* Which number of the mask of base/philox.h an element takes: that of its row (row > 0: elements of
 * one), else of its index in PyTorch's order; channels > 0: images that lie channels-last. */
struct cuda_dropout_shape {
    int64_t row, channels, pixels;
};
cudaError_t cuda_dropout(const struct cuda_scalars *scalars, uint32_t dropout_stream,
                         float probability, const struct cuda_dropout_shape *shape,
                         struct cuda_array x, struct cuda_array y, int64_t count,
                         cudaStream_t stream);
/* `summed`: nothing is done where the update is skipped. */
cudaError_t cuda_moving_average(const struct cuda_control *control,
                                const struct cuda_scalars *scalars, bool summed, float *average,
                                const float *value, int64_t count, cudaStream_t stream);

/* ---- layout.cu: between PyTorch's order and channels-last: [n, channels, pixels] and
 * [n, pixels, channels] ---- */

struct cuda_layout {
    int64_t channels, pixels; /* channels 1: there is but one order */
};
/* `count` canonical elements from element `first` of the tensor, which lie side by side in
 * `canonical`, to their places in `stored`, and back. */
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
    bool rectified;    /* maximum: of max(0, x + bias); bias NULL: of max(0, x) */
    const float *bias; /* [channels] */
};
/* Where a maximum has no position, for it is not above zero: windows of fewer pixels alone are
 * rectified. */
enum { CUDA_POOL_NOWHERE = 255 };
/* `position` of each maximum within its window, row by row; NULL: not wanted. */
cudaError_t cuda_max_pool(const struct cuda_pool *pool, struct cuda_array x, struct cuda_array y,
                          uint8_t *position, cudaStream_t stream);
cudaError_t cuda_max_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                   const uint8_t *position, struct cuda_array dx,
                                   cudaStream_t stream);
cudaError_t cuda_average_pool(const struct cuda_pool *pool, struct cuda_array x,
                              struct cuda_array y, cudaStream_t stream);
cudaError_t cuda_average_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                       struct cuda_array dx, cudaStream_t stream);
/* x[images, pixels, channels] scale[images, channels]; results may lie where x and dy do. */
cudaError_t cuda_channel_scale(struct cuda_array x, struct cuda_array scale, struct cuda_array y,
                               int64_t images, int64_t pixels, int64_t channels,
                               cudaStream_t stream);
/* dscale = the sums of dy x over the pixels; dx = dy scale, unless dx.at is NULL. */
cudaError_t cuda_channel_scale_backward(struct cuda_array dy, struct cuda_array x,
                                        struct cuda_array scale, struct cuda_array dx,
                                        struct cuda_array dscale, int64_t images, int64_t pixels,
                                        int64_t channels, cudaStream_t stream);
/* dx = dy scale + pooled / pixels, pooled[images, channels]: the gradient by what was averaged,
 * too; dy at NULL: of that alone. */
cudaError_t cuda_channel_scale_gradient(struct cuda_array dy, struct cuda_array scale,
                                        struct cuda_array pooled, struct cuda_array dx,
                                        int64_t images, int64_t pixels, int64_t channels,
                                        cudaStream_t stream);

/* ---- embedding.cu: index[count]; one outside of the vocabulary gives not a number ---- */

cudaError_t cuda_embedding(const int32_t *index, const float *weight, struct cuda_array y,
                           int64_t count, int64_t width, int64_t vocabulary, cudaStream_t stream);
cudaError_t cuda_embedding_backward(const int32_t *index, struct cuda_array dy, float *dweight,
                                    int64_t count, int64_t width, int64_t vocabulary,
                                    bool accumulate, cudaStream_t stream);

/* ---- reduce.cu ---- */

/* sum[c] (+)= sum over r of x[r, c] */
cudaError_t cuda_column_sum(struct cuda_array x, int64_t rows, int64_t columns, bool accumulate,
                            float *sum, cudaStream_t stream);
/* sum[c][k] (+)= sum over p < count of parts[p][k][c]: gradients of filters with so many taps. */
cudaError_t cuda_filter_total(const float *parts, int count, int channels, int taps,
                              bool accumulate, float *sum, cudaStream_t stream);

/* ---- loss.cu: `partial` has room for `rows` doubles and then `rows` integers of 32 bits ---- */

enum { CUDA_LOSS_PARTIAL_BYTES = 12 }; /* for each row */

/* label[rows] or, where it is NULL, probability[rows, classes]; adds to the control's metrics. */
cudaError_t cuda_cross_entropy(struct cuda_control *control, const struct cuda_scalars *scalars,
                               const float *logits, const int32_t *label, const float *probability,
                               float *log_sum_exp, int64_t rows, int64_t classes, void *partial,
                               cudaStream_t stream);
cudaError_t cuda_cross_entropy_backward(const struct cuda_scalars *scalars, const float *logits,
                                        const int32_t *label, const float *probability,
                                        const float *log_sum_exp, float *dlogits, int64_t rows,
                                        int64_t classes, cudaStream_t stream);
cudaError_t cuda_mse(struct cuda_control *control, const struct cuda_scalars *scalars,
                     const float *prediction, const float *target, int64_t rows, int64_t features,
                     void *partial, cudaStream_t stream);
cudaError_t cuda_mse_backward(const struct cuda_scalars *scalars, const float *prediction,
                              const float *target, float *dprediction, int64_t rows,
                              int64_t features, cudaStream_t stream);

/* ---- batch_norm.cu ---- */

struct cuda_batch_norm {
    struct cuda_array x, y; /* [rows, channels, pixels]; images channels-last: pixels 1 */
    const float *weight, *bias;
    float *running_mean, *running_variance; /* NULL: they stay */
    float *mean, *inverse_std;
    int64_t rows, channels, pixels;
    float epsilon, momentum;
    int multiprocessors;
    bool overlaps;      /* the device has programmatic dependent launches: compute capability 9 */
    float *partial;     /* cuda_batch_norm_scratch() bytes */
    unsigned *arrivals; /* CUDA_ARRIVALS, zero between launches */
    float *means;       /* this and the next two: the kernels' own */
    double inverse_rows, inverse_freedom;
    /* What cuda_batch_norm_is_fast() has fused, all of x's type: */
    struct cuda_array addend; /* added to the result; at NULL: none */
    struct {                  /* the addend is normalised first; weight NULL: it is not */
        const float *weight, *bias, *mean, *inverse_std;
    } second;
    int activation; /* of that, enum activation_kind: ReLU, SiLU, hardswish; -1: none */
};
/* How the gradient by the result comes to batch norm, beside norm->activation, which is taken back
 * from x. */
struct cuda_batch_norm_gradient {
    struct cuda_array dy;
    struct cuda_array result; /* at not NULL: of ReLU; dy counts where that is above zero, */
    struct cuda_array other;  /* with this added to it (at NULL: nothing), */
    /* and that gradient is stored here; it may lie where dy or other do */
    struct cuda_array masked;
    struct cuda_array dx; /* may lie where dy or `masked` do */
    float *dweight, *dbias;
    bool accumulate;
};
/* Whether there are kernels that fuse; others take a block for each channel. */
bool cuda_batch_norm_is_fast(const struct cuda_batch_norm *norm);
size_t cuda_batch_norm_scratch(const struct cuda_batch_norm *norm);
/* With the moments of the batch, which are found first and stored. */
cudaError_t cuda_batch_norm_train(const struct cuda_batch_norm *norm, cudaStream_t stream);
/* These alone; of what is fast. */
cudaError_t cuda_batch_norm_moments(const struct cuda_batch_norm *norm, cudaStream_t stream);
/* With the running values, or with mean and inverse_std as they are. */
cudaError_t cuda_batch_norm_apply(const struct cuda_batch_norm *norm, bool running,
                                  cudaStream_t stream);
cudaError_t cuda_batch_norm_backward(const struct cuda_batch_norm *norm,
                                     const struct cuda_batch_norm_gradient *gradient,
                                     cudaStream_t stream);

/* ---- convolution.cu ---- */

/* y[r, c] = activation(x[r, c] + bias[c]); kind: enum activation_kind, -1: none; bias NULL: none. x
 * + bias goes to `sum`, too, unless that is at NULL. y or sum may lie where x does. */
cudaError_t cuda_bias_activation(struct cuda_array x, const float *bias, int kind,
                                 struct cuda_array sum, struct cuda_array y, int64_t rows,
                                 int64_t channels, cudaStream_t stream);
enum { CUDA_CHANNEL_PARTS = 256 };
/* sum[c] (+)= sum over r of x[r, c]; `parts`: room for CUDA_CHANNEL_PARTS times `channels`. */
struct cuda_channel_sum {
    struct cuda_array x;
    int64_t rows, channels;
    bool accumulate;
    float *sum, *parts;
    const uint8_t *position; /* not NULL: without those at CUDA_POOL_NOWHERE */
    /* x is first taken back through an activation of that kind (-1: none), of which `saved` was
     * kept, and stored; it may lie where x does. */
    int kind;
    struct cuda_array saved, result;
};
cudaError_t cuda_channel_sum(const struct cuda_channel_sum *sum, cudaStream_t stream);
/* gradient (+)= from, element by element */
cudaError_t cuda_add_gradient(struct cuda_array from, float *gradient, int64_t count,
                              bool accumulate, cudaStream_t stream);

/* ---- depthwise.cu ---- */

enum { CUDA_DEPTHWISE_BLOCKS = 264 }; /* that add up the gradient of the weights */
enum cuda_depthwise_pass { CUDA_DEPTHWISE_FORWARD, CUDA_DEPTHWISE_DATA, CUDA_DEPTHWISE_WEIGHTS };
struct cuda_depthwise {
    int type; /* of images and filters: enum tensor_type */
    int batch, channels, height, width, out_height, out_width;
    int kernel, stride; /* 3 or 5, 1 or 2; padding is kernel / 2; channels a multiple of 8 */
};
struct cuda_depthwise_operands {
    void *x, *y;        /* or their gradients */
    const void *weight; /* but for WEIGHTS */
    const float *bias;  /* of FORWARD, may be NULL */
    float *gradient;    /* WEIGHTS: is (+)= */
    bool accumulate;
    float *parts; /* WEIGHTS: room for partial sums, of some number of whole gradients */
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

/* A thread has a channel of some results: for few channels in a group.
 * part_bytes: the operands'. */
enum { CUDA_DIRECT_BLOCKS = 1056 }; /* that add up the gradient of the weights */
bool cuda_direct_is_possible(const struct cuda_convolution *convolution, size_t part_bytes);
cudaError_t cuda_direct(const struct cuda_convolution *convolution, enum cuda_depthwise_pass pass,
                        const struct cuda_depthwise_operands *operands, cudaStream_t stream);

/* As a product of gathered operands, on devices of compute capability 8.0 and
 * more; `tile`: which size of a block's results, of CUDA_IMPLICIT_TILES. `parts` is used by each
 * pass. */
enum {
    CUDA_IMPLICIT_TILES = 4,
    CUDA_IMPLICIT_BLOCKS = 264, /* that are wanted, before terms are divided among them */
    CUDA_IMPLICIT_STRIDE_MAX = 4
};
bool cuda_implicit_is_possible(const struct cuda_convolution *convolution,
                               enum cuda_depthwise_pass pass, size_t part_bytes);
cudaError_t cuda_implicit(const struct cuda_convolution *convolution, enum cuda_depthwise_pass pass,
                          int tile, const struct cuda_depthwise_operands *operands,
                          cudaStream_t stream);

/* ---- stem.cu: on devices of compute capability 8.0 and more ---- */

enum { CUDA_STEM_BLOCKS = 528 }; /* that add up the gradient of the weights */
/* 3x3 with padding 1 of images with one channel or three, in 16 bits. */
struct cuda_stem {
    int type; /* of images and filters: enum tensor_type */
    int batch, channels, height, width, outputs, out_height, out_width, stride;
};
/* Without `gradient` y is written, else that: (+)=. */
struct cuda_stem_operands {
    const void *x, *weight;
    void *y;           /* or its gradient */
    const float *bias; /* may be NULL */
    float *gradient;
    bool accumulate;
    float *parts; /* with `gradient`: room for partial sums, of some number of whole gradients */
    size_t part_bytes;
};
bool cuda_stem_is_possible(const struct cuda_stem *stem);
cudaError_t cuda_stem(const struct cuda_stem *stem, const struct cuda_stem_operands *operands,
                      cudaStream_t stream);

/* ---- weights_tf32.cu: on devices of compute capability 8.0 and more ---- */

/* 3x3 with stride 1 and padding 1 of float32, multiplied in tf32. */
struct cuda_weights_tf32 {
    int batch, channels, height, width, outputs;
};
struct cuda_weights_tf32_operands {
    const void *x, *y; /* images, and the gradient by the results */
    float *gradient;   /* is (+)= */
    bool accumulate;
    float *parts; /* room for partial sums, of some number of whole gradients, one at least */
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
    float *state0, *state1; /* NULL: none */
    int64_t count;
    int32_t kind, group; /* enum optimizer_kind; index of the coefficients */
};
struct cuda_items {
    int32_t count;
    int32_t first_block[CUDA_ITEMS_MAX + 1];
    struct cuda_item item[CUDA_ITEMS_MAX];
};
/* Fills in first_block; returns the blocks that the update takes. */
int cuda_items_blocks(struct cuda_items *items);

/* Partial sums of the gradients' squares, for launch number `launch`. */
cudaError_t cuda_gradient_squares(struct cuda_control *control, const struct cuda_items *items,
                                  int launch, cudaStream_t stream);
/* The factor that gradients are multiplied by, and whether the update is to be skipped. */
cudaError_t cuda_gradient_factor(struct cuda_control *control, const struct cuda_scalars *scalars,
                                 int launches, cudaStream_t stream);
/* `summed`: by that factor, unless it is to be skipped. */
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
/* Moves the momentum; x = the direction / max(its norm, epsilon). squares: CUDA_SQUARES_BLOCKS. */
cudaError_t cuda_muon_direction(const struct cuda_muon *muon, double epsilon, float *x,
                                double *squares, cudaStream_t stream);
/* The parameter by the step's rate times `scale`, against x. */
cudaError_t cuda_muon_update(const struct cuda_muon *muon, float scale, const float *x,
                             cudaStream_t stream);

/* Where a group's coefficients stand; the host fills them in (optimizer.c of this folder). */
enum {
    COEFFICIENT_RATE,   /* of the step, bias correction included */
    COEFFICIENT_SHRINK, /* decoupled decay: the parameter times it */
    COEFFICIENT_DECAY,  /* coupled decay: added to the gradient */
    COEFFICIENT_KEEP,   /* of the first state */
    COEFFICIENT_TAKE,   /* of what is added to it */
    COEFFICIENT_KEEP2,  /* of the second */
    COEFFICIENT_TAKE2,
    COEFFICIENT_EPSILON,
    COEFFICIENT_ROOT,     /* the second moment's correction, under the root */
    COEFFICIENT_OWN,      /* SGD: momentum; NAdam: the rate of the gradient itself */
    COEFFICIENT_NESTEROV, /* not 0: yes */
    COEFFICIENT_MOMENTUM, /* not 0: SGD, RMSprop have a buffer */
    COEFFICIENT_KIND,     /* enum optimizer_kind */
    COEFFICIENT_DOUBLES   /* two doubles: struct cuda_count_terms */
};

#ifdef __cplusplus
}
#endif
