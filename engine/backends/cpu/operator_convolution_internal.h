/* operator_convolution_internal.h: the state of a convolution, which operator_convolution.c
 * prepares. operator_convolution_steps.c says by which steps it runs, and
 * operator_convolution_run.c runs them. */
#pragma once

#include "engine/backends/cpu/convolution_channels.h"
#include "engine/backends/cpu/convolution_planes.h"
#include "engine/backends/cpu/convolution_unfolded.h"
#include "engine/backends/cpu/program.h"

/* A copy of x or y, for the whole batch, in another order: in blocks of channels, of which zeros
 * fill the last one, or channels-last. Each slice is copied from the tensor, or back to it. */
struct image_copy {
    struct onednn_reorder *reorder[2]; /* for slices of both sizes; NULL: there is no copy */
    struct onednn_call *call[TASKS_MAX];
    size_t offset, sample_bytes;
};

struct convolution_state {
    struct convolution_tensors tensors;
    int64_t rows[2]; /* samples of a slice; there are at most two sizes, which differ by one */
    struct onednn_convolution *primitive[2];
    bool plain;                            /* the primitives get images in NCHW */
    bool copies;                           /* the primitives get copies of images */
    enum onednn_images copy_order;         /* the order of these copies */
    bool own_kernel;                       /* kernels/depthwise.c computes it, without primitives */
    struct planes_convolution *planes;     /* owned: computes it instead of primitives; or NULL */
    struct channels_convolution *channels; /* owned: the same */
    struct unfolded_convolution *unfolded; /* owned: the same */
    size_t channels_offset;                /* of the workspace of `channels` */
    bool direct_parts; /* `channels` or `unfolded` can write the gradient itself */
    bool divided;      /* the work is divided into program->parts tasks, the samples included */
    int partials;      /* how many partial sums the gradient by the weights has */
    struct onednn_layout layout; /* the layout of the weights that the primitives read or write */
    /* copies between that layout and the parameter's; NULL: they are equal */
    struct onednn_reorder *reorder;
    struct onednn_reorder *part_reorder[TASKS_MAX]; /* the same copy in parts */
    int reorder_parts;                              /* how many parts; 0: it cannot be divided */

    size_t weight_bytes; /* in that layout */
    size_t copy_offset, sum_offset, partial_offset, partial_bytes;
    size_t packed_offset; /* of what `planes` or `unfolded` packs */
    struct image_copy copy_x, copy_y;
    /* copies of whole batches in NCHW, if the tensor has blocks */
    size_t plain_x_offset, plain_y_offset;

    struct onednn_call *reorder_call[TASKS_MAX]; /* of the parts, or only the first one */
    struct onednn_call *call[TASKS_MAX];
    struct onednn_call *direct_call; /* with one task: it writes the gradient itself */
};

/* Bytes of the tensor's copy in NCHW in the workspace; 0: the primitives use the tensor itself. */
size_t convolution_plain_bytes(const struct backend_program *program,
                               const struct convolution_state *state, int32_t tensor);

/* ---- operator_convolution_run.c ---- */

/* Where the primitive finds sample `first` of x or y. */
void *convolution_primitive_sample(const struct backend_program *program,
                                   const struct convolution_state *state, const char *workspace,
                                   int32_t tensor, int64_t first);

/* The steps: the weights are copied into the layout of the primitives, or from it; operands are
 * packed; images and weights are copied for `channels`; the slices run; partial sums of gradients
 * are added up; the sum is added to the gradient, in the gradient's layout. */
step_function convolution_run_reorder, convolution_run_pack, convolution_run_channels_copies,
    convolution_run, convolution_run_sum, convolution_run_take_copy;
