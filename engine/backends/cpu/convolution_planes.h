/* convolution_planes.h: a convolution, or a gradient of one, by the kernels of kernels/planes.h:
 * any kernel, stride, dilation and number of groups, images in any order, float32. It works on some
 * samples, or some rows of one, at a time: it copies them into planes, multiplies, and copies the
 * results back. The scratch for this fits into the second-level cache. Weights are in PyTorch's
 * order. */
#pragma once

#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/onednn.h"

#include <stddef.h>

struct planes_convolution;

/* Images of x or y: `pixel` floats from one pixel to the next of a channel, `block` channels side
 * by side. */
struct planes_images {
    float *start;
    int64_t block;
};

/* With `parts` 0, the shape's `samples` is the maximum for planes_run(). Otherwise it is the number
 * on which planes_run_part() works, divided into `parts` parts. The shape's order and type of
 * images do not matter. `in_turn`: planes of some channels at a time, where those of all are too
 * large for a block of whole images. NULL: out of memory. Free with planes_free(). */
struct planes_convolution *planes_create(const struct kernels *kernels,
                                         enum onednn_direction direction,
                                         const struct onednn_convolution_shape *shape, int parts,
                                         bool in_turn);
/* Whether `in_turn` may make a difference where x and y of a group have so many numbers in a
 * sample. Borders are not counted. */
bool planes_may_turn(int64_t numbers);
void planes_free(struct planes_convolution *planes);
/* Scratch bytes of each thread that runs it. */
size_t planes_scratch_bytes(const struct planes_convolution *planes);
/* Bytes of the packed weights; 0 for the gradient by the weights, which packs none. */
size_t planes_packed_bytes(const struct planes_convolution *planes);
/* Packs part `part` of `parts` of the weights. */
void planes_pack(const struct planes_convolution *planes, const float *weights, int part, int parts,
                 float *packed);
/* Forward writes y, from packed weights and bias (NULL: none); the gradient by the data writes x;
 * that by the weights writes `weights` and `bias`, in PyTorch's order. x and y are of `samples`
 * samples. */
void planes_run(const struct planes_convolution *planes, const struct planes_images *x,
                const struct planes_images *y, int64_t samples, float *weights, float *bias,
                void *scratch);
/* The same for one part of the work on all samples. For the gradient by the weights each part
 * writes a partial sum of its own, or, if planes_divides_weights(), its part of the gradient. */
void planes_run_part(const struct planes_convolution *planes, const struct planes_images *x,
                     const struct planes_images *y, int part, float *weights, float *bias,
                     void *scratch);
bool planes_divides_weights(const struct planes_convolution *planes);
