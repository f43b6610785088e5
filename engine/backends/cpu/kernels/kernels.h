/* kernels.h: the CPU backend's own kernels, for operators where oneDNN is slow or cannot fuse. They
 * are plain loops over float32. Every file of this folder is compiled once for each instruction set
 * level (KERNEL_LEVEL: baseline, v3, v4). kernels_available() lists the levels that this processor
 * can run.
 *
 * A kernel computes the piece that it is given, in a fixed order of operations, and calls no other
 * part of the backend. The program divides work among tasks. Arrays do not overlap unless a comment
 * says "in place". */
#pragma once

#include "engine/backends/cpu/kernels/attention.h"
#include "engine/backends/cpu/kernels/digits.h"
#include "engine/backends/cpu/kernels/int8.h"
#include "engine/backends/cpu/kernels/planes.h"
#include "engine/backends/cpu/kernels/recurrent.h"
#include "engine/backends/cpu/kernels/tiles.h"
#include "engine/backends/cpu/kernels/unfold.h"
#include "engine/backends/cpu/kernels/winograd.h"
#include "engine/graph/forward.h"

#include <stdbool.h>
#include <stdint.h>

/* Activations of `samples` × `channels` × `pixels` elements in the order [sample][channel /
 * block][pixel][channel % block]. Block 1 is PyTorch's NCHW; 8 and 16 are oneDNN's nChw8c and
 * nChw16c; block = channels with one pixel is a matrix. */
struct image_layout {
    int64_t samples, channels, pixels;
    int64_t block;
};

/* What an optimizer reads besides the arrays. */
struct optimizer_scalars {
    int64_t step; /* the number of the step, from 1 */
    float learning_rate;
    float gradient_factor;   /* the gradient is multiplied by this first (clipping by norm) */
    float gradient_limit;    /* then it is limited to ±this (clipping by value); may be infinite */
    double momentum;         /* the momentum or beta1 of this step */
    double momentum_product; /* NAdam's product of momenta, up to this step */
    float average_share;     /* Schedule-Free: what this step counts in the mean of all steps */
};

/* The random numbers of a dropout's mask. */
struct dropout_mask {
    uint64_t seed;
    uint32_t stream; /* of the node */
    int64_t batch;
    float probability;
};

/* A pooling, or a depthwise convolution, of one image. */
struct pool_shape {
    int64_t height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2];
};

/* Layer norm, or RMS norm if rows are not `centred`. */
struct row_norm {
    int64_t width; /* of a row */
    float epsilon;
    bool centred;
    const float *weight, *bias; /* bias may be NULL */
};

/* Images of from[0] x from[1] pixels become to[0] x to[1]; axis 0 is the height. */
struct resize_shape {
    int64_t from[2], to[2];
    enum resize_mode mode;
    float step[2]; /* struct graph_node */
};

struct group_norm {
    int64_t groups;
    float epsilon;
    const float *weight, *bias;
};

/* The gradient with respect to batch norm's result, if a sum and an activation are fused with
 * it. */
struct batch_norm_gradient {
    const float *dy; /* the gradient with respect to the last fused result */
    /* ReLU of a sum: dy + other (may be NULL) counts where `result` > 0. The pass stores it in
     * `masked`, which may be dy or other. */
    const float *other, *result;
    float *masked;
    /* Otherwise an activation (as in batch_norm_apply) of x factor[c] + offset[c]; NULL: none. */
    const float *factor, *offset;
    int activation;
};

/* A causal convolution of `channels` side by side, of `row` that a step has. */
struct causal_conv_task {
    int64_t length, channels, row;
    int kernel;
    bool reverse, silu;
    const float *x, *weight, *bias; /* weight[channel][kernel] */
    float *y;
    /* backward: dx, and the sums dweight and dbias, which are added to */
    const float *dy;
    float *dx, *dweight, *dbias;
};

/* A selective scan of `channels` side by side, of `row` that a step of u, delta, z and y has. `row`
 * and `channels` are those of the arrays by channel, too, which begin at the first one. */
struct scan_task {
    int64_t length, channels, row, states;
    bool reverse;
    const float *u, *delta, *z; /* z may be NULL */
    const float *b, *c;         /* [length][states] */
    const float *a, *d;         /* a[state][row]: A, not its logarithm; d[row] */
    float *kept;                /* [chunk][state][row]; NULL: states are not kept */
    float *y;
    /* backward: the gradients of the same arrays; db, dc, da and dd are sums that are added to. dz
     * is NULL without z */
    const float *dy;
    float *du, *ddelta, *dz, *db, *dc, *da, *dd;
    float *scratch; /* scan_scratch_floats() */
};
enum { SCAN_STRIP = 16, SCAN_GROUP = 8 };
/* Floats of scratch for a scan of `channels` channels, and for its gradients. */
static inline int64_t scan_scratch_floats(int64_t states, int64_t channels)
{
    int64_t strips = (channels + SCAN_STRIP - 1) / SCAN_STRIP;

    return SCAN_STRIP * (strips * states + SCAN_CHUNK * (2 * states + 2 * SCAN_GROUP + 6));
}

/* type, name, arguments */
/* clang-format off */
#define KERNEL_LIST(KERNEL)                                                                         \
    /* y = f(x); in place allowed */                                                                \
    KERNEL(void, activation_forward,                                                                \
           (enum activation_kind kind, const float *x, float *y, int64_t count))                    \
    /* dx = dy f'(saved): saved is y or x (OP_ACTIVATION_BACKWARD); dx may be dy */                 \
    KERNEL(void, activation_backward,                                                               \
           (enum activation_kind kind, const float *dy, const float *saved, float *dx,              \
            int64_t count))                                                                         \
    /* y = f(a) or f(a, b), element by element, of the node's operator (pointwise.c); y may be a,   \
     * and b */                                                                                     \
    KERNEL(                                                                                         \
        void, pointwise,                                                                            \
        (const struct graph_node *node, const float *a, const float *b, float *y, int64_t count))   \
    /* y[r * stride + c] += bias[c] */                                                              \
    KERNEL(void, bias_add,                                                                          \
           (float *y, const float *bias, int64_t rows, int64_t columns, int64_t stride))            \
    /* y[r * stride + c] = max(0, y[r * stride + c] + bias[c]) */                                   \
    KERNEL(void, bias_add_relu,                                                                     \
           (float *y, const float *bias, int64_t rows, int64_t columns, int64_t stride))            \
    /* sum[c] = (accumulate ? sum[c] : 0) + sum over r of x[r * stride + c] */                      \
    KERNEL(void, column_sum,                                                                        \
           (const float *x, int64_t rows, int64_t columns, int64_t stride, float *sum,              \
            bool accumulate))                                                                       \
    /* to[r * to_row + c] = (accumulate ? itself : 0) + from[r * from_row + c] */                   \
    KERNEL(void, matrix_copy,                                                                       \
           (const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,          \
            int64_t to_row, bool accumulate))                                                       \
    /* to[c * rows + r] = from[r * from_row + c] */                                                 \
    KERNEL(void, matrix_transpose,                                                                  \
           (const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to))         \
    /* to[c * to_row + r] = from[r * from_row + c] */                                                \
    KERNEL(void, matrix_transpose_to,                                                               \
           (const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,          \
            int64_t to_row))                                                                        \
    /* y = a + b; y may be a or b */                                                                \
    KERNEL(void, add, (const float *a, const float *b, float *y, int64_t count))                    \
    /* y[i] = (accumulate ? y[i] : 0) + sum over p of part[p * stride + i], added in pairs */       \
    KERNEL(void, partials_sum,                                                                      \
           (const float *part, int64_t parts, int64_t stride, float *y, int64_t count,              \
            bool accumulate))                                                                       \
    KERNEL(double, squares_sum, (const float *x, int64_t count))                                    \
    /* log_sum_exp[r] of logits[r][classes]; returns the sum of the rows' losses, NaN for a label   \
     * outside the classes; adds to *correct the rows whose largest logit is the label's. With      \
     * `counted`, the label -1 is ignored, and *counted receives the number of the others */        \
    KERNEL(double, cross_entropy_forward,                                                           \
           (const float *logits, const int32_t *label, float *log_sum_exp, int64_t rows,            \
            int64_t classes, int64_t *correct, int64_t *counted))                                   \
    /* dlogits = scale (softmax - one-hot), 0 where the label is -1 */                                                       \
    KERNEL(void, cross_entropy_backward,                                                            \
           (const float *logits, const int32_t *label, const float *log_sum_exp, float *dlogits,    \
            int64_t rows, int64_t classes, float scale))                                            \
    /* The same with probabilities[r][classes] for labels: a row's loss is the sum of -probability  \
     * log softmax, its label the class of the largest probability, the first of equal ones */      \
    KERNEL(double, soft_cross_entropy_forward,                                                      \
           (const float *logits, const float *probabilities, float *log_sum_exp, int64_t rows,      \
            int64_t classes, int64_t *correct))                                                     \
    /* dlogits = scale (softmax sum of probabilities - probabilities) */                            \
    KERNEL(void, soft_cross_entropy_backward,                                                       \
           (const float *logits, const float *probabilities, const float *log_sum_exp,              \
            float *dlogits, int64_t rows, int64_t classes, float scale))                            \
    /* sum of squared differences */                                                                \
    KERNEL(double, mse_forward, (const float *prediction, const float *target, int64_t count))      \
    /* d = scale (prediction - target) */                                                           \
    KERNEL(void, mse_backward,                                                                      \
           (const float *prediction, const float *target, float *d, int64_t count, float scale))    \
    /* OP_VALUE_LOSS: the sum of the rows' losses */                                                \
    KERNEL(double, value_loss_forward,                                                              \
           (const struct value_loss_config *loss, const float *prediction, const float *target,     \
            int64_t rows, int64_t features))                                                        \
    /* d = scale times the gradient of that sum */                                                  \
    KERNEL(void, value_loss_backward,                                                               \
           (const struct value_loss_config *loss, const float *prediction, const float *target,     \
            float *d, int64_t rows, int64_t features, float scale))                                 \
    /* OP_FOCAL_LOSS: as cross_entropy_forward, and the gradient */                                 \
    KERNEL(double, focal_loss_forward,                                                              \
           (const float *logits, const int32_t *label, float gamma, float *log_sum_exp,             \
            int64_t rows, int64_t classes, int64_t *correct))                                       \
    KERNEL(void, focal_loss_backward,                                                               \
           (const float *logits, const int32_t *label, float gamma, const float *log_sum_exp,       \
            float *dlogits, int64_t rows, int64_t classes, float scale))                            \
    /* OP_ORDINAL_LOSS: as cross_entropy_forward, and the gradient */                               \
    KERNEL(double, ordinal_loss_forward,                                                            \
           (const float *logits, const int32_t *label, float *log_sum_exp, int64_t rows,            \
            int64_t classes, int64_t *correct))                                                     \
    KERNEL(void, ordinal_loss_backward,                                                             \
           (const float *logits, const int32_t *label, const float *log_sum_exp, float *dlogits,    \
            int64_t rows, int64_t classes, float scale))                                            \
    /* OP_TRIPLET_LOSS of the anchors first … end - 1 of a batch: fills their rows of `saved`       \
     * (triplet_row()), adds to *triplets how many count, and returns the sum of their losses;      \
     * `scratch` has a float for each sample of the batch */                                        \
    KERNEL(double, triplet_loss_forward,                                                            \
           (const struct triplet_loss_config *config, const float *x, const int32_t *label,         \
            int64_t batch, int64_t features, int64_t first, int64_t end, float *saved,              \
            float *scratch, int64_t *triplets))                                                     \
    /* The gradient of these samples, times `scale`, of the mean over all triplets of the batch */  \
    KERNEL(void, triplet_loss_backward,                                                             \
           (const float *x, const float *saved, int64_t batch, int64_t features, int64_t first,     \
            int64_t end, float scale, float *dx))                                                   \
    /* OP_HEAD_LOSSES: the sum of the rows' losses; a label outside of its classes makes it NaN */  \
    KERNEL(double, head_losses_forward,                                                             \
           (const struct loss_head *heads, int head_count, const float *logits,                     \
            const int32_t *label, int64_t rows))                                                    \
    KERNEL(void, head_losses_backward,                                                              \
           (const struct loss_head *heads, int head_count, const float *logits,                     \
            const int32_t *label, float *dlogits, int64_t rows, float scale))                       \
    /* One step of the optimizer over `count` elements; state arrays may be NULL where the          \
     * optimizer keeps none */                                                                      \
    KERNEL(void, optimizer_update,                                                                  \
           (const struct optimizer_config *config, const struct optimizer_scalars *scalars,         \
            float *parameter, const float *gradient, float *const *states, int64_t count))          \
    /* Muon's momentum and direction; returns the sum of the direction's squares */                 \
    KERNEL(double, muon_direction,                                                                  \
           (const struct optimizer_config *config, const struct optimizer_scalars *scalars,         \
            const float *gradient, float *momentum, float *direction, int64_t count))               \
    /* LAMB: updates the moments, and adds the squares of w and of the direction */                 \
    KERNEL(void, lamb_moments,                                                                      \
           (const struct optimizer_config *config, const struct optimizer_scalars *scalars,         \
            const float *w, const float *gradient, float *m, float *v, double squares[2],           \
            int64_t count))                                                                         \
    /* w -= rate times the direction */                                                             \
    KERNEL(void, lamb_step,                                                                         \
           (const struct optimizer_config *config, const struct optimizer_scalars *scalars,         \
            float rate, float *w, const float *m, const float *v, int64_t count))                   \
    /* y = a x + b y */                                                                             \
    KERNEL(void, scaled_sum, (float a, const float *x, float b, float *y, int64_t count))           \
    /* y = factor x; in place allowed */                                                            \
    KERNEL(void, scale, (const float *x, float factor, float *y, int64_t count))                    \
    /* average = decay average + (1 - decay) value; exactly value where decay is 0 */               \
    KERNEL(void, moving_average, (float *average, const float *value, float share, int64_t count))  \
    /* y[i] = weight[index[i]], rows of `width`; NaN for an index outside the `vocabulary` */       \
    KERNEL(void, embedding_forward,                                                                 \
           (const int32_t *index, const float *weight, float *y, int64_t count, int64_t width,      \
            int64_t vocabulary))                                                                    \
    /* dweight[v] += dy[i] where index[i] = v, for v in [first, end) */                             \
    KERNEL(void, embedding_backward,                                                                \
           (const int32_t *index, const float *dy, float *dweight, int64_t count, int64_t width,    \
            int64_t first, int64_t end))                                                            \
    /* y = x kept / (1 - p); element i of the piece is element first + i of the batch, counted as   \
     * in PyTorch's layout. In place allowed. */                                                    \
    KERNEL(                                                                                         \
        void, dropout,                                                                              \
        (const struct dropout_mask *mask, const float *x, float *y, int64_t first, int64_t count))  \
    /* The same over images in blocks; `first_sample` is the piece's place in the batch */          \
    KERNEL(void, dropout_blocked,                                                                   \
           (const struct dropout_mask *mask, const float *x, float *y,                              \
            const struct image_layout *layout, int64_t first_sample))                               \
    /* y = x rounded to bfloat16 or float16, still as float32; in place allowed */                  \
    KERNEL(void, round_values, (enum tensor_type type, const float *x, float *y, int64_t count))    \
    /* y = x kept / (1 - p) for whole rows; row i of the piece is row first + i of the batch. In    \
     * place allowed. */                                                                            \
    KERNEL(void, dropout_rows,                                                                      \
           (const struct dropout_mask *mask, const float *x, float *y, int64_t first,               \
            int64_t rows, int64_t row_elements))                                                    \
    /* y = x + bias[channel]; in place allowed */                                                   \
    KERNEL(void, channel_bias_forward,                                                              \
           (const float *x, const float *bias, const struct image_layout *layout, float *y))        \
    /* dbias[c] = (accumulate ? dbias[c] : 0) + sum of dy over samples and pixels, for c in         \
     * [first, end) */                                                                              \
    KERNEL(void, channel_bias_backward,                                                             \
           (const float *dy, const struct image_layout *layout, int64_t first, int64_t end,         \
            bool accumulate, float *dbias))                                                         \
    /* Of one sample; mean[group] and inverse_std[group] may be NULL; scratch has 2 floats for each \
     * channel */                                                                                   \
    KERNEL(void, group_norm_forward,                                                                \
           (const struct group_norm *norm, const float *x, const struct image_layout *layout,       \
            float *y, float *mean, float *inverse_std, float *scratch))                             \
    /* dx, and the sample's part of dweight and dbias; dx may be dy; scratch has 4 floats for each  \
     * channel */                                                                                   \
    KERNEL(void, group_norm_backward,                                                               \
           (const struct group_norm *norm, const float *dy, const float *x,                         \
            const struct image_layout *layout, const float *mean, const float *inverse_std,         \
            float *dx, float *dweight, float *dbias, float *scratch))                               \
    /* OP_RESIZE2D of pieces of images with `block` channels side by side */                        \
    KERNEL(void, resize_forward,                                                                    \
           (const float *x, const struct resize_shape *shape, int64_t images, int64_t block,        \
            float *y))                                                                              \
    KERNEL(void, resize_backward,                                                                   \
           (const float *dy, const struct resize_shape *shape, int64_t images, int64_t block,       \
            float *dx))                                                                             \
    /* Adaptive pools of such pieces; `arg` may be NULL; `shape` gives the extents alone */         \
    KERNEL(void, adaptive_max_forward,                                                              \
           (const float *x, const struct pool_shape *shape, int64_t images, int64_t block,          \
            float *y, uint8_t *arg))                                                                \
    KERNEL(void, adaptive_max_backward,                                                             \
           (const float *dy, const uint8_t *arg, const struct pool_shape *shape, int64_t images,    \
            int64_t block, float *dx))                                                              \
    KERNEL(void, adaptive_average_forward,                                                          \
           (const float *x, const struct pool_shape *shape, int64_t images, int64_t block,          \
            float *y))                                                                              \
    KERNEL(void, adaptive_average_backward,                                                         \
           (const float *dy, const struct pool_shape *shape, int64_t images, int64_t block,         \
            float *dx))                                                                             \
    /* y = x scale[sample][channel]; in place allowed */                                            \
    KERNEL(void, channel_scale_forward,                                                             \
           (const float *x, const float *scale, const struct image_layout *layout, float *y))       \
    /* dx = dy scale[sample][channel], dscale = sum of dy x over the pixels; dx may be dy */        \
    KERNEL(void, channel_scale_backward,                                                            \
           (const float *dy, const float *x, const float *scale,                                    \
            const struct image_layout *layout, float *dx, float *dscale))                           \
    /* the same sums, and matrix_transpose, of bfloat16 */                                          \
    KERNEL(void, column_sum_bfloat16,                                                               \
           (const uint16_t *x, int64_t rows, int64_t columns, int64_t stride, float *sum,           \
            bool accumulate))                                                                       \
    KERNEL(void, matrix_transpose_bfloat16,                                                         \
           (const uint16_t *from, int64_t from_row, int64_t rows, int64_t columns, uint16_t *to))   \
    /* y = x in bfloat16 */                                                                         \
    KERNEL(void, convert_bfloat16, (const float *x, uint16_t *y, int64_t count))                    \
    /* Between blocks of `layout` and PyTorch's NCHW */                                             \
    KERNEL(void, blocks_to_plain, (const float *x, float *y, const struct image_layout *layout))    \
    KERNEL(void, plain_to_blocks, (const float *x, float *y, const struct image_layout *layout))    \
    /* sum[c] of all samples and pixels */                                                          \
    KERNEL(void, channel_sum, (const float *x, const struct image_layout *layout, float *sum))      \
    /* mean[c], and m2[c] = sum of squared deviations from it */                                    \
    KERNEL(void, batch_norm_moments,                                                                \
           (const float *x, const struct image_layout *layout, float *mean, float *m2))             \
    /* y = f(x factor[c] + offset[c] + addend); `addend` may be NULL, f is ReLU, SiLU, hardswish    \
     * or                                                                                           \
     * (-1) nothing. y may be x or addend */                                                        \
    KERNEL(void, batch_norm_apply,                                                                  \
           (const float *x, const struct image_layout *layout, const float *factor,                 \
            const float *offset, const float *addend, int activation, float *y))                    \
    /* sum_dy[c], and sum_dy_x[c] = sum of dy (x - mean[c]); stores `masked` */                     \
    KERNEL(void, batch_norm_backward_sums,                                                          \
           (const float *x, const struct batch_norm_gradient *dy,                                   \
            const struct image_layout *layout, const float *mean, float *sum_dy, float *sum_dy_x))  \
    /* dx = dy a[c] + (x - mean[c]) b[c] + e[c], with `masked` as the sums stored it; dx may be     \
     * any array of dy's */                                                                         \
    KERNEL(void, batch_norm_backward_apply,                                                         \
           (const float *x, const struct batch_norm_gradient *dy,                                   \
            const struct image_layout *layout, const float *mean, const float *a, const float *b,   \
            const float *e, float *dx))                                                             \
    /* Of each row: sum = x + addend (both NULL: none), y = (row - mean) inverse weight + bias, where  \
     * inverse is 1 / sqrt(mean square of row - mean, plus epsilon). mean and inverse may be NULL */ \
    KERNEL(void, row_norm_forward,                                                                  \
           (const struct row_norm *norm, const float *x, const float *addend, int64_t rows,         \
            float *sum, float *y, float *mean, float *inverse))                                     \
    /* dx, with dsum (may be NULL) added to it; dx may be dy or dsum. dweight and dbias (may be     \
     * NULL) receive the sums over these rows */                                                    \
    KERNEL(void, row_norm_backward,                                                                 \
           (const struct row_norm *norm, const float *dy, const float *x, const float *dsum,        \
            const float *mean, const float *inverse, int64_t rows, float *dx, float *dweight,       \
            float *dbias))                                                                          \
    /* `images` = samples × channels / block pieces of height × width × block. arg: the position \
     * of the maximum within its window, row-major */                                               \
    KERNEL(void, max_pool_forward,                                                                  \
           (const float *x, const struct pool_shape *shape, int64_t images, int64_t block,          \
            float *y, uint8_t *arg))                                                                \
    /* The same of integers that lie channels last */                                              \
    KERNEL(void, max_pool_bytes,                                                                    \
           (const uint8_t *x, const struct pool_shape *shape, int64_t images, int64_t channels,     \
            uint8_t *y))                                                                            \
    KERNEL(void, max_pool_backward,                                                                 \
           (const float *dy, const uint8_t *arg, const struct pool_shape *shape, int64_t images,    \
            int64_t block, float *dx))                                                              \
    /* A depthwise convolution: x (`shape` is that of an image, `layout` that of x),                \
     * weight[channel / block][kh][kw][block] and bias, which may be NULL; y at least 0 if `relu`   \
     */                                                                                             \
    KERNEL(void, depthwise_forward,                                                                 \
           (const float *x, const float *weight, const float *bias, bool relu,                      \
            const struct pool_shape *shape, const struct image_layout *layout, float *y))           \
    KERNEL(void, depthwise_backward_data,                                                           \
           (const float *dy, const float *weight, const struct pool_shape *shape,                   \
            const struct image_layout *layout, float *dx))                                          \
    /* The gradient of a depthwise convolution's weights, dweight[channel / block][kh][kw][block],  \
     * from the images x (`shape` is that of one, `layout` that of x) and dy; dbias may be NULL */  \
    KERNEL(void, depthwise_backward_weights,                                                        \
           (const float *x, const float *dy, const struct pool_shape *shape,                        \
            const struct image_layout *layout, float *dweight, float *dbias))                       \
    /* y[f] = the largest x[t * features + f] for t in [0, length), position[f] the first such t;    \
     * `position` may be NULL. NaN counts as the largest */                                         \
    KERNEL(void, max_over_time,                                                                     \
           (const float *x, int64_t length, int64_t features, float *y, int32_t *position))         \
    /* The operators of the same names over one sequence of a sample, for the channels that `task`  \
     * has (struct causal_conv_task, struct scan_task) */                                           \
    KERNEL(void, causal_conv, (const struct causal_conv_task *task))                                \
    KERNEL(void, causal_conv_backward, (const struct causal_conv_task *task))                       \
    KERNEL(void, selective_scan, (const struct scan_task *task))                                    \
    KERNEL(void, selective_scan_backward, (const struct scan_task *task))                           \
    /* y = a and b of a sample (struct broadcast_attributes); y may be a */                         \
    KERNEL(void, broadcast_forward,                                                                 \
           (const struct broadcast_attributes *how, const float *a, const float *b, float *y))      \
    /* da from dy and those of a and b that it needs; da may be dy */                               \
    KERNEL(void, broadcast_backward_first,                                                          \
           (const struct broadcast_attributes *how, const float *dy, const float *a,                \
            const float *b, float *da))                                                             \
    /* Adds to db, for elements `first` to before `end` of b, the gradients of one sample */        \
    KERNEL(void, broadcast_backward_second,                                                         \
           (const struct broadcast_attributes *how, const float *dy, const float *a,                \
            const float *b, int64_t first, int64_t end, float *db))                                 \
    /* The softmax of each row, and its gradient; y may be x, dx may be dy */                       \
    KERNEL(void, softmax_forward, (const float *x, int64_t rows, int64_t columns, float *y))        \
    KERNEL(void, softmax_backward,                                                                  \
           (const float *dy, const float *y, int64_t rows, int64_t columns, float *dx))             \
    /* One sample's elements in another order of axes */                                            \
    KERNEL(void, permute, (const struct permute_attributes *how, const float *x, float *y))         \
    /* One sample's rows of x by the numbers of `map` (struct take_attributes). The gradient is      \
     * added to dx, for the rows from `first` to before `end` of outer times from */                \
    KERNEL(void, take_forward,                                                                      \
           (const struct take_attributes *how, const float *x, const float *map, float *y))         \
    KERNEL(void, take_backward,                                                                     \
           (const struct take_attributes *how, const float *dy, const float *map, int64_t first,    \
            int64_t end, float *dx))                                                                \
    /* One sample's sums over an axis, and their gradient (struct axis_sum_attributes) */           \
    KERNEL(void, axis_sum_forward,                                                                  \
           (const struct axis_sum_attributes *how, const float *x, float *y))                       \
    KERNEL(void, axis_sum_backward,                                                                 \
           (const struct axis_sum_attributes *how, const float *dy, float *dx))                     \
    /* The products of one sample */                                                                \
    KERNEL(void, batch_product,                                                                     \
           (const struct batch_product_attributes *how, const float *a, const float *b, float *y))  \
    KERNEL(                                                                                         \
        void, average_pool_forward,                                                                 \
        (const float *x, const struct pool_shape *shape, int64_t images, int64_t block, float *y))  \
    KERNEL(void, average_pool_backward,                                                             \
           (const float *dy, const struct pool_shape *shape, int64_t images, int64_t block,         \
            float *dx))
/* clang-format on */

struct kernels {
    const char *level; /* "x86-64-v3" */
    int vector; /* floats in a register, and the channels of a block in the Winograd kernels */
#define KERNEL_MEMBER(type, name, arguments) type(*name) arguments;
    KERNEL_LIST(KERNEL_MEMBER)
    WINOGRAD_KERNEL_LIST(KERNEL_MEMBER)
    TILE_KERNEL_LIST(KERNEL_MEMBER)
    PLANES_KERNEL_LIST(KERNEL_MEMBER)
    UNFOLD_KERNEL_LIST(KERNEL_MEMBER)
    ATTENTION_KERNEL_LIST(KERNEL_MEMBER)
    RECURRENT_KERNEL_LIST(KERNEL_MEMBER)
    INT8_KERNEL_LIST(KERNEL_MEMBER)
    DIGITS_KERNEL_LIST(KERNEL_MEMBER)
#undef KERNEL_MEMBER
};

/* The tables that this processor can run, the best first; NULL behind the last. */
const struct kernels *const *kernels_available(void);

/* Within this folder: KERNEL_NAME(add) is add_v3 in the files compiled for level v3. */
#ifdef KERNEL_LEVEL
#define KERNEL_JOIN_(name, level) name##_##level
#define KERNEL_JOIN(name, level) KERNEL_JOIN_(name, level)
#define KERNEL_NAME(name) KERNEL_JOIN(name, KERNEL_LEVEL)
#define KERNEL_DECLARE(type, name, arguments) type KERNEL_NAME(name) arguments;
KERNEL_LIST(KERNEL_DECLARE)
WINOGRAD_KERNEL_LIST(KERNEL_DECLARE)
TILE_KERNEL_LIST(KERNEL_DECLARE)
PLANES_KERNEL_LIST(KERNEL_DECLARE)
UNFOLD_KERNEL_LIST(KERNEL_DECLARE)
ATTENTION_KERNEL_LIST(KERNEL_DECLARE)
RECURRENT_KERNEL_LIST(KERNEL_DECLARE)
INT8_KERNEL_LIST(KERNEL_DECLARE)
DIGITS_KERNEL_LIST(KERNEL_DECLARE)
#undef KERNEL_DECLARE
#endif
