/* convolution_unfolded.h: a convolution of one group, or a gradient of one, by the kernels of
 * kernels/unfold.h: any kernel, stride and dilation, images in any order, float32. Vectors are of
 * channels, so it suits tiny images with many channels. A position of the kernel that meets no
 * pixel is left out for each pixel by itself, so large kernels, strides and dilations cost what
 * they read. The work on all samples is divided into parts, and no partial sums are added. */
#pragma once

#include "engine/backends/cpu/convolution_planes.h"

struct unfolded_convolution;

/* For what convolution_can_unfold() of convolution_method.h allows. NULL: out of memory. Free with
 * unfolded_free(). */
struct unfolded_convolution *unfolded_create(const struct kernels *kernels,
                                             enum onednn_direction direction,
                                             const struct onednn_convolution_shape *shape,
                                             int parts);
void unfolded_free(struct unfolded_convolution *unfolded); /* NULL allowed */
/* Weights lie in blocks of one vector of y's channels: [channels of y / lanes][row of the
 * kernel][column][channel of x][lane]. */
void unfolded_weights_layout(const struct unfolded_convolution *unfolded,
                             struct onednn_layout *layout);
/* Scratch bytes of each thread that runs it. */
size_t unfolded_scratch_bytes(const struct unfolded_convolution *unfolded);
/* Bytes of what unfolded_pack() makes; 0: forward packs nothing. */
size_t unfolded_packed_bytes(const struct unfolded_convolution *unfolded);
/* Packs part `part` of `parts`: of the weights for the gradient by the data, of y's gradient for
 * that by the weights. All of it must be done before parts run. */
void unfolded_pack(const struct unfolded_convolution *unfolded, const float *weights,
                   const struct planes_images *y, int part, int parts, float *packed);
/* One part of the work. Forward writes y, from `weights` and `bias` (NULL: none); the gradient by
 * the data writes x, from `packed`; that by the weights writes `weights` and `bias`, from x and
 * `packed`. */
void unfolded_run_part(const struct unfolded_convolution *unfolded, const struct planes_images *x,
                       const struct planes_images *y, int part, float *weights, float *bias,
                       const float *packed, void *scratch);
