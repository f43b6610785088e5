/* convolution_unfolded_geometry.c: which pixels an unfolded convolution reads, and into which units
 * its work is divided.
 *
 * All three directions read a source (x; the gradient by the data reads y's gradient) at places
 * that depend on the result's pixel and on the position in the kernel. A table for each axis says
 * where, or that there is nothing to read. */
#include "engine/backends/cpu/convolution_unfolded_internal.h"
#include "engine/backends/cpu/kernels/kernels.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The relative cost of each further group of vectors, for which the source is unfolded again. */
static const double group_cost = 0.02;

/* The source's place that result i reads at position k of the kernel, or -1. */
static int32_t source_place(const struct unfolded_convolution *unfolded, int d, int64_t i,
                            int64_t k)
{
    const struct onednn_convolution_shape *shape = &unfolded->shape;
    int64_t stride = shape->stride[d], place;

    if (unfolded->direction == ONEDNN_BACKWARD_DATA) {
        place = i + shape->padding[d] - k * shape->dilation[d];
        place = place % stride ? -1 : place / stride;
    } else {
        place = i * stride + k * shape->dilation[d] - shape->padding[d];
    }
    return place >= 0 && place < unfolded->axis[d].extent ? (int32_t)place : -1;
}

int unfolded_describe_axis(struct unfolded_convolution *unfolded, int d)
{
    const struct onednn_convolution_shape *shape = &unfolded->shape;
    struct unfolded_axis *axis = &unfolded->axis[d];
    bool backward = unfolded->direction == ONEDNN_BACKWARD_DATA;
    int64_t x = d ? shape->width : shape->height, y = d ? shape->out_width : shape->out_height;
    int64_t step = backward ? shape->stride[d] : 1, count = 0;

    axis->taps = shape->kernel[d];
    axis->results = backward ? x : y;
    axis->extent = backward ? y : x;
    axis->source = calloc((size_t)(axis->results * axis->taps), sizeof *axis->source);
    axis->order = calloc((size_t)axis->results, sizeof *axis->order);
    if (!axis->source || !axis->order)
        return -ENOMEM;
    for (int64_t i = 0; i < axis->results; i++)
        for (int64_t k = 0; k < axis->taps; k++)
            axis->source[i * axis->taps + k] = source_place(unfolded, d, i, k);
    for (int64_t first = 0; first < step; first++)
        for (int64_t i = first; i < axis->results; i += step)
            axis->order[count++] = (int32_t)i;
    return 0;
}

/* Chooses the number of groups with the least cost: few groups whose units divide evenly. */
static int64_t choose_groups(int64_t panels, int64_t vectors, int64_t parts)
{
    int64_t most = vectors < parts ? vectors : parts, best = 1;
    double least = INFINITY;

    for (int64_t groups = 1; groups <= most; groups++) {
        int64_t units = groups * panels, longest = (units + parts - 1) / parts;
        int64_t widest = (vectors + groups - 1) / groups;
        double cost = (double)(longest * widest) * (1 + group_cost * (double)groups);

        if (cost < least) {
            least = cost;
            best = groups;
        }
    }
    return best;
}

void unfolded_divide_work(struct unfolded_convolution *unfolded)
{
    int64_t rows = unfolded_is_gradient(unfolded) ? unfolded->source_channels : unfolded->pixels;

    unfolded->rows = unfolded->kernels->planes_block(rows);
    unfolded->panels = (rows + unfolded->rows - 1) / unfolded->rows;
    if (unfolded_is_gradient(unfolded))
        unfolded->panels *= unfolded->taps;
    unfolded->groups = choose_groups(unfolded->panels, unfolded->vectors, unfolded->parts);
    unfolded->depth =
        unfolded_is_gradient(unfolded) || unfolded->source_channels > UNFOLDED_DEPTH_MAX
            ? UNFOLDED_DEPTH_MAX
            : UNFOLDED_DEPTH_MAX / unfolded->source_channels * unfolded->source_channels;
}
