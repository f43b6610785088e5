/* convolution_planes_geometry.c: computes which pixels a convolution over planes reads for which
 * results, and into which blocks its work is divided.
 *
 * All three directions read planes of a source (x; the gradient by the data reads y's gradient) at
 * places that depend on the position k in the kernel. Along an axis, forward and the gradient by
 * the weights read pixel i stride + k dilation - padding for result i. That is place i + k dilation
 * / stride in the plane of the pixels with the same remainder. The gradient by the data takes as
 * many passes as the stride. Pass a computes the pixels a + i stride - padding. They read y at i -
 * (k dilation - a) / stride, for each k for which that is an integer. Kernel positions that never
 * meet a pixel are left out.
 *
 * A block is the unit of work: some samples, or some rows of one sample, of a group. In turn, the
 * planes of some channels are made, multiplied and added to the results, then those of others, so
 * that a block has more rows. If the work is divided into parts, a part is a number of blocks, and
 * a block may cover a range of the result channels only. If there are enough such ranges, the
 * gradient by the weights is divided by them alone. Then no partial sums have to be added. */
#include "engine/backends/cpu/convolution_planes_internal.h"

#include <stdlib.h>

enum {
    /* the planes and results of a block: beside the packed weights they fit into a second-level
     * cache of 1 MiB */
    BLOCK_BYTES = 512 * 1024,
    COLUMNS_MAX = 8192, /* larger products gained nothing */
    GRADIENT_GRAIN = 4, /* results that planes_gradient() computes at once */
    COPY_COST = 8       /* of copying one place of a plane, in multiplications */
};

/* ---- geometry -------------------------------------------------------------------------------- */

/* Whether pixel first + i step of the source exists for some result i of [0, count). */
static bool meets(int64_t first, int64_t step, int64_t count, int64_t extent)
{
    int64_t low = first < 0 ? (-first + step - 1) / step : 0;

    return low < count && first + low * step < extent;
}

static void describe_forward(struct axis *axis, int64_t kernel, int64_t stride, int64_t padding,
                             int64_t dilation)
{
    int64_t least = INT64_MAX, most = 0;

    axis->step = stride;
    axis->passes = 1;
    axis->to[0] = 0;
    axis->result = axis->count;
    axis->result_step = 1;
    for (int k = 0; k < kernel; k++) {
        int64_t remainder = k * dilation % stride, offset = k * dilation / stride;
        int phase = 0;

        if (!meets(k * dilation - padding, stride, axis->count, axis->source))
            continue;
        while (phase < axis->phases && axis->origin[phase] != remainder - padding)
            phase++;
        axis->origin[phase] = remainder - padding;
        axis->phases = phase == axis->phases ? phase + 1 : axis->phases;
        axis->taps[axis->tap_count++] =
            (struct axis_tap){.kernel = k, .phase = phase, .offset = offset};
        least = offset < least ? offset : least;
        most = offset > most ? offset : most;
    }
    least = axis->tap_count ? least : 0;
    for (int i = 0; i < axis->tap_count; i++)
        axis->taps[i].offset -= least;
    for (int i = 0; i < axis->phases; i++)
        axis->origin[i] += least * stride;
    axis->reach = axis->tap_count ? most - least : 0;
}

/* `extent` is the size of x; the source is y. */
static void describe_backward(struct axis *axis, int64_t extent, int64_t kernel, int64_t stride,
                              int64_t padding, int64_t dilation)
{
    int64_t first = padding / stride, least = INT64_MAX, most = INT64_MIN;

    axis->count = (padding + extent - 1) / stride + 1 - first;
    axis->step = 1;
    axis->phases = 1;
    axis->passes = (int)stride;
    axis->result = extent;
    axis->result_step = stride;
    for (int a = 0; a < stride; a++)
        axis->to[a] = first * stride + a - padding;
    for (int k = 0; k < kernel; k++) {
        int64_t remainder = k * dilation % stride, behind = k * dilation / stride;

        if (!meets(first - behind, 1, axis->count, axis->source))
            continue;
        axis->taps[axis->tap_count++] =
            (struct axis_tap){.kernel = k, .pass = (int)remainder, .offset = -behind};
        least = -behind < least ? -behind : least;
        most = -behind > most ? -behind : most;
    }
    least = axis->tap_count ? least : 0;
    for (int i = 0; i < axis->tap_count; i++)
        axis->taps[i].offset -= least;
    axis->origin[0] = first + least;
    axis->reach = axis->tap_count ? most - least : 0;
}

int planes_describe_axis(struct planes_convolution *planes, int d)
{
    const struct onednn_convolution_shape *shape = &planes->shape;
    struct axis *axis = &planes->axis[d];
    int64_t x = d ? shape->width : shape->height, y = d ? shape->out_width : shape->out_height;
    size_t taps = (size_t)shape->kernel[d], stride = (size_t)shape->stride[d];
    size_t phases = taps > stride ? taps : stride;

    axis->taps = calloc(taps, sizeof(*axis->taps));
    axis->origin = calloc(phases + 1, sizeof(*axis->origin));
    axis->to = calloc(phases, sizeof(*axis->to));
    if (!axis->taps || !axis->origin || !axis->to)
        return -1;
    if (planes->direction == ONEDNN_BACKWARD_DATA) {
        axis->source = y;
        describe_backward(axis, x, shape->kernel[d], shape->stride[d], shape->padding[d],
                          shape->dilation[d]);
    } else {
        axis->source = x;
        axis->count = y;
        describe_forward(axis, shape->kernel[d], shape->stride[d], shape->padding[d],
                         shape->dilation[d]);
    }
    return 0;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

int64_t planes_phase_count(const struct planes_convolution *planes)
{
    return planes->axis[0].phases * planes->axis[1].phases;
}

int64_t planes_result_columns(const struct planes_convolution *planes, int64_t rows)
{
    if (planes->by_rows)
        return rows * planes->row_stride;
    return planes_round_up((rows - 1) * planes->row_stride + planes->axis[1].count, planes->vector);
}

int64_t planes_result_rows(const struct planes_convolution *planes)
{
    return planes->direction == ONEDNN_BACKWARD_WEIGHTS ? planes->results : planes->padded;
}

/* Makes a distance an odd number of cache lines, so that rows do not fall into the same sets of the
 * cache. */
static int64_t spread(int64_t floats)
{
    return (floats / PLANES_LINE | 1) * PLANES_LINE;
}

static int64_t block_bytes(const struct planes_convolution *planes, int64_t rows, int64_t samples)
{
    int64_t sample = (rows + planes->axis[0].reach) * planes->pitch;
    int64_t floats =
        planes->turn * planes_phase_count(planes) * (samples * sample + 2 * PLANES_LINE) +
        planes_result_rows(planes) * (samples * planes_result_columns(planes, rows) + PLANES_LINE);

    return floats * (int64_t)sizeof(float);
}

int64_t planes_split_grain(const struct planes_convolution *planes)
{
    return planes->direction == ONEDNN_BACKWARD_WEIGHTS ? GRADIENT_GRAIN : planes->block;
}

int64_t planes_split_most(const struct planes_convolution *planes)
{
    int64_t grain = planes_split_grain(planes);

    return (planes->results + grain - 1) / grain;
}

static double uneven(int64_t units, int64_t parts)
{
    return (double)planes_round_up(units, parts) / (double)units;
}

/* The relative cost of dividing the work among the parts, for blocks of `rows` rows and `splits`
 * ranges of channels; 1: the multiplications alone. It counts the longest part, and planes that
 * several parts make. */
static double division_cost(const struct planes_convolution *planes, int64_t rows, int64_t splits)
{
    const struct axis *axis = planes->axis;
    int64_t blocks = planes->shape.samples * ((axis[0].count + rows - 1) / rows);
    double places = (double)(axis[0].tap_count * axis[1].tap_count + 1);
    double copies =
        COPY_COST * (double)planes_phase_count(planes) / (places * (double)planes->results);

    return uneven(blocks * planes->shape.groups * splits, planes->parts) *
           uneven(planes_split_most(planes), splits) *
           (1 + copies * (double)splits * (double)(rows + axis[0].reach) / (double)rows);
}

static void divide_blocks(struct planes_convolution *planes)
{
    int64_t all = planes->axis[0].count, most = planes_split_most(planes);
    double least = division_cost(planes, planes->rows, 1);

    most = most < planes->parts ? most : planes->parts;
    planes->splits = 1;
    if (planes->direction == ONEDNN_BACKWARD_WEIGHTS &&
        planes->shape.groups * most >= planes->parts) {
        planes->divides_weights = true;
        for (int64_t splits = 1; splits <= most; splits++)
            if (planes->shape.groups * splits >= planes->parts &&
                (planes->shape.groups * planes->splits < planes->parts ||
                 uneven(planes->shape.groups * splits, planes->parts) <
                     uneven(planes->shape.groups * planes->splits, planes->parts)))
                planes->splits = splits;
        return;
    }
    if (planes->direction == ONEDNN_BACKWARD_WEIGHTS)
        most = 1; /* each part would need sums of all channels */
    for (int64_t count = (all + planes->rows - 1) / planes->rows, first = count;
         count <= all && count <= first + 2 * planes->parts; count++)
        for (int64_t splits = 1; splits <= most; splits++) {
            int64_t rows = (all + count - 1) / count;
            double cost = division_cost(planes, rows, splits);

            if (cost < least) {
                least = cost;
                planes->rows = rows;
                planes->splits = splits;
            }
        }
}

bool planes_may_turn(int64_t numbers)
{
    return numbers * (int64_t)sizeof(float) > BLOCK_BYTES / 2;
}

/* Makes planes for as many channels at a time as fit into a block, evenly. */
static void choose_turn(struct planes_convolution *planes)
{
    int64_t turns;

    while (planes->turn < planes->channels) {
        planes->turn++;
        if (block_bytes(planes, planes->rows, 1) > BLOCK_BYTES) {
            planes->turn--;
            break;
        }
    }
    turns = (planes->channels + planes->turn - 1) / planes->turn;
    planes->turn = (planes->channels + turns - 1) / turns;
}

void planes_choose_block(struct planes_convolution *planes, bool in_turn)
{
    int64_t all = planes->axis[0].count, reach = planes->axis[0].reach, width, wide;

    planes->pitch = planes->axis[1].count + planes->axis[1].reach;
    width = (all - 1) * planes->pitch + planes->axis[1].count;
    wide = planes_round_up(planes->axis[1].count, planes->vector);
    planes->by_rows = all * wide < width;
    planes->row_stride = planes->by_rows ? wide : planes->pitch;
    planes->rows = all;
    planes->samples = 1;
    planes->splits = 1;
    planes->turn = planes->channels;
    if (in_turn && planes->axis[0].passes * planes->axis[1].passes == 1 &&
        block_bytes(planes, all, 1) > BLOCK_BYTES)
        planes->turn = 1;
    while (planes->rows > 1 + reach / 2 && block_bytes(planes, planes->rows, 1) > BLOCK_BYTES)
        planes->rows = (planes->rows + 1) / 2;
    if (planes->parts)
        divide_blocks(planes);
    choose_turn(planes);
    if (planes->rows == all && planes->turn == planes->channels &&
        (!planes->parts || planes->divides_weights))
        while (planes->samples < planes->shape.samples &&
               block_bytes(planes, all, planes->samples + 1) <= BLOCK_BYTES &&
               (planes->samples + 1) * planes_result_columns(planes, all) <= COLUMNS_MAX)
            planes->samples++;
    planes->sample_columns = planes_result_columns(planes, planes->rows);
    planes->columns = spread(planes->samples * planes->sample_columns + PLANES_LINE - 1);
    planes->sample_stride = (planes->rows + reach) * planes->pitch;
    /* the last vector reads beyond the end */
    planes->plane_stride = spread(
        planes_round_up(planes->samples * planes->sample_stride, PLANES_LINE) + 2 * PLANES_LINE);
}

int planes_list_places(struct planes_convolution *planes)
{
    int64_t in_sample = planes->sample_columns / planes->vector;
    int64_t in_row = planes->row_stride / planes->vector;

    planes->place = calloc((size_t)(planes->samples * in_sample) + 1, sizeof(*planes->place));
    if (!planes->place)
        return -1;
    for (int64_t s = 0; s < planes->samples; s++)
        for (int64_t v = 0; v < in_sample; v++)
            planes->place[s * in_sample + v] =
                (int32_t)(s * planes->sample_stride +
                          (planes->by_rows
                               ? v / in_row * planes->pitch + v % in_row * planes->vector
                               : v * planes->vector));
    return 0;
}

/* ---- rows of the products' second matrix ----------------------------------------------------- */

/* Adds the rows of a pass for all channels, and returns their number. */
static int64_t list_rows(struct planes_convolution *planes, int row_pass, int column_pass,
                         int64_t first)
{
    const struct axis *rows = &planes->axis[0], *columns = &planes->axis[1];
    const int64_t *kernel = planes->shape.kernel;
    bool backward = planes->direction == ONEDNN_BACKWARD_DATA;
    int64_t in = planes->shape.channels / planes->shape.groups, count = 0;

    for (int64_t c = 0; c < planes->channels; c++)
        for (int r = 0; r < rows->tap_count; r++)
            for (int u = 0; u < columns->tap_count; u++) {
                const struct axis_tap *row = &rows->taps[r], *column = &columns->taps[u];
                int64_t plane = (c % planes->turn * rows->phases + row->phase) * columns->phases +
                                column->phase;
                int64_t channel = backward ? c * in : c;

                if (row->pass != row_pass || column->pass != column_pass)
                    continue;
                planes->offset[first + count] =
                    (int32_t)(plane * planes->plane_stride + row->offset * planes->pitch +
                              column->offset);
                planes->weight[first + count++] =
                    (int32_t)((channel * kernel[0] + row->kernel) * kernel[1] + column->kernel);
            }
    return count;
}

int planes_list_passes(struct planes_convolution *planes)
{
    const struct axis *rows = &planes->axis[0], *columns = &planes->axis[1];
    int64_t all = planes->channels * rows->tap_count * columns->tap_count, first = 0;

    planes->pass_count = rows->passes * columns->passes;
    planes->passes = calloc((size_t)planes->pass_count, sizeof(*planes->passes));
    planes->offset = calloc((size_t)all + 1, sizeof(*planes->offset));
    planes->weight = calloc((size_t)all + 1, sizeof(*planes->weight));
    if (!planes->passes || !planes->offset || !planes->weight)
        return -1;
    for (int i = 0; i < planes->pass_count; i++) {
        struct pass *pass = &planes->passes[i];
        int row = i / columns->passes, column = i % columns->passes;

        pass->first_tap = first;
        pass->packed = first * planes->padded;
        pass->to[0] = rows->to[row];
        pass->to[1] = columns->to[column];
        pass->depth = list_rows(planes, row, column, first);
        pass->channel_depth = pass->depth / planes->channels;
        first += pass->depth;
    }
    planes->group_packed = planes_round_up(first * planes->padded, PLANES_LINE);
    return 0;
}
