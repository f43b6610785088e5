/* operator_convolution_internal.h: the state of a convolution, which operator_convolution.c
 * prepares and operator_convolution_steps.c runs. */
#pragma once

#include "engine/backends/cpu/convolution_channels.h"
#include "engine/backends/cpu/convolution_planes.h"
#include "engine/backends/cpu/program.h"

/* A copy of x or y, of the whole batch, in another order: blocks of channels (the last one filled
 * up with zeros) or channels last. Each slice is copied from the tensor, or back to it. */
struct image_copy {
    struct onednn_reorder *reorder[2]; /* of slices of both sizes; NULL: there is no copy */
    struct onednn_call *call[TASKS_MAX];
    size_t offset, sample_bytes;
};

struct convolution_state {
    struct convolution_tensors tensors;
    int64_t rows[2]; /* samples of a slice: two sizes that differ by one, or one */
    struct onednn_convolution *primitive[2];
    bool plain;                            /* the primitives see NCHW */
    bool copies;                           /* the primitives see copies of other tensors, */
    enum onednn_images copy_order;         /* which lie so */
    bool own_kernel;                       /* kernels/depthwise.c instead of primitives */
    struct planes_convolution *planes;     /* instead of primitives; owned */
    struct channels_convolution *channels; /* the same */
    size_t channels_offset;                /* its workspace */
    bool direct_channels;                  /* it can write the gradient itself */
    bool divided;                          /* into program->parts tasks: samples, too */
    int partials;                          /* sums of the gradient by the weights */
    struct onednn_layout layout;           /* of the weights, as the primitives want or make them */
    struct onednn_reorder *reorder; /* between that and the parameter's; NULL: they are equal */
    struct onednn_reorder *part_reorder[TASKS_MAX]; /* the same in parts, */
    int reorder_parts;                              /* 0: it cannot be divided */

    size_t weight_bytes; /* in `layout` */
    size_t copy_offset, sum_offset, partial_offset, partial_bytes;
    size_t packed_offset; /* weights as `planes` wants them */
    struct image_copy copy_x, copy_y;
    size_t plain_x_offset, plain_y_offset; /* whole batches in NCHW, where the tensor has blocks */

    struct onednn_call *reorder_call[TASKS_MAX]; /* of its parts, or the first one alone */
    struct onednn_call *call[TASKS_MAX];
    struct onednn_call *direct_call; /* one task: writes the gradient itself */
};

/* Bytes of the tensor's copy in NCHW in the workspace; 0: the primitives use the tensor itself. */
size_t convolution_plain_bytes(const struct backend_program *program,
                               const struct convolution_state *state, int32_t tensor);
