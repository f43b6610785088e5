/* convolution_planes.h: a convolution, or a gradient of one, by the kernels of kernels/planes.h:
 * any kernel, stride, dilation and number of groups, images in any order, float32. It works on some
 * samples, or on some rows of one, at a time: copies them into planes, multiplies, and puts the
 * results back, all in scratch that stays in the second cache. Weights are in PyTorch's order. */
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

/* `parts` 0: `samples` is the most that planes_run() will be given; else it is all that
 * planes_run_part() works on, in so many parts. Order and type of images in the shape do not
 * matter. NULL: out of memory. Free with planes_free(). */
struct planes_convolution *planes_create(const struct kernels *kernels,
                                         enum onednn_direction direction,
                                         const struct onednn_convolution_shape *shape, int parts);
void planes_free(struct planes_convolution *planes);
/* Of each thread that runs it. */
size_t planes_scratch_bytes(const struct planes_convolution *planes);
/* Packed weights; 0 for their gradient, which has none. */
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
/* The same of all samples, part `part` alone. Of the gradient by the weights each part has a sum of
 * its own, or, if planes_divides_weights(), writes its part of the one. */
void planes_run_part(const struct planes_convolution *planes, const struct planes_images *x,
                     const struct planes_images *y, int part, float *weights, float *bias,
                     void *scratch);
bool planes_divides_weights(const struct planes_convolution *planes);
