/* convolution_planes.c: see convolution_planes.h.
 *
 * All three directions read planes of a source (x; for the gradient by the data: y) at places that
 * the kernel's positions give. Along an axis, forward and the gradient by the weights read pixel
 * i stride + k dilation - padding for result i: that is place i + k dilation / stride of the plane
 * of pixels that have the same remainder. The gradient by the data is done in as many passes as
 * the stride: those of its pixels a + i stride - padding read y at i - (k dilation - a) / stride
 * for the k for which that is whole. Positions of the kernel that meet no pixel are left out.
 *
 * What is under way is a block: some samples, or rows of one, of a group. Where the work is divided
 * into parts, a part is some blocks, and each may be of a range of the results' channels alone. The
 * gradient by the weights is divided by these if they are enough: then no sums are left to do. */
#include "engine/backends/cpu/convolution_planes.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* planes and results under way: they stay in a second cache of 1 MiB, beside packed weights */
    BLOCK_BYTES = 512 * 1024,
    /* of packed weights that are read for one vector after the other: a part of the first cache */
    PANEL_BYTES = 16 * 1024,
    COLUMNS_MAX = 8192, /* more at once gains nothing */
    GRADIENT_GRAIN = 4, /* results that planes_gradient() takes at once */
    COPY_COST = 8,      /* of a place of a plane, in multiplications */
    LINE = 16           /* floats */
};

/* One axis. */
struct axis_tap {
    int kernel, pass, phase;
    int64_t offset; /* in the plane */
};

struct axis {
    int64_t count;  /* results of a pass */
    int64_t source; /* extent of the source's images */
    int64_t step;   /* of the source, from one place of a plane to the next */
    int64_t reach;  /* places of a plane beyond `count` */
    int phases, passes;
    int64_t *origin;             /* [phases]: the source's pixel at place 0 */
    int64_t result, result_step; /* extent of the result's images; a pass writes so many apart */
    int64_t *to;                 /* [passes]: the result's pixel of the first one */
    struct axis_tap *taps;
    int tap_count;
};

struct pass {
    int64_t first_tap, depth; /* of `offset`, and how many for all channels */
    int64_t packed;           /* floats: where its packed weights begin */
    int64_t to[2];
};

struct planes_convolution {
    const struct kernels *kernels;
    enum onednn_direction direction;
    struct onednn_convolution_shape shape;
    struct axis axis[2];       /* rows, columns */
    int64_t channels, results; /* of a group: planes' channels, rows of the product */
    int64_t block, padded;     /* rows at once; all rows, in whole blocks */
    int64_t taps;              /* of all passes */
    struct pass *passes;
    int pass_count;
    int32_t *offset; /* floats, of each row of the products' second matrix, by pass */
    int32_t *weight; /* its place in PyTorch's weights of a result */
    int64_t group_packed;

    int64_t rows, samples; /* of a block under way: rows of results; samples where it is all rows */
    int parts;             /* 0: the caller divides the samples */
    int64_t splits;        /* of the results' channels */
    bool divides_weights;  /* a part is channels of the gradient by the weights, of all blocks */
    bool by_rows;          /* vectors begin anew with every row */
    int64_t row_stride, sample_columns, columns; /* of results */
    int64_t pitch, sample_stride, plane_stride;  /* of planes */
    int32_t *place;                              /* of each vector */
    int vector;
};

/* ---- geometry ----------------------------------------------------------------------------------
 */

/* Results i of [0, count) whose source pixel first + i step exists. */
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

/* `extent` is x's, source is y's. */
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

static int describe_axis(struct planes_convolution *planes, int d)
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

/* ---- blocks ------------------------------------------------------------------------------------
 */

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

static int64_t phase_count(const struct planes_convolution *planes)
{
    return planes->axis[0].phases * planes->axis[1].phases;
}

/* Floats from one row of the results to the next, and from one sample's to the next. */
static int64_t result_columns(const struct planes_convolution *planes, int64_t rows)
{
    if (planes->by_rows)
        return rows * planes->row_stride;
    return round_up((rows - 1) * planes->row_stride + planes->axis[1].count, planes->vector);
}

static int64_t result_rows(const struct planes_convolution *planes)
{
    return planes->direction == ONEDNN_BACKWARD_WEIGHTS ? planes->results : planes->padded;
}

/* A line more than needed where they would compete for the same places in a cache. */
static int64_t spread(int64_t floats)
{
    return (floats / LINE | 1) * LINE;
}

static int64_t block_bytes(const struct planes_convolution *planes, int64_t rows, int64_t samples)
{
    int64_t sample = (rows + planes->axis[0].reach) * planes->pitch;
    int64_t floats = planes->channels * phase_count(planes) * (samples * sample + 2 * LINE) +
                     result_rows(planes) * (samples * result_columns(planes, rows) + LINE);

    return floats * (int64_t)sizeof(float);
}

/* The least that a part of the channels of results takes on. */
static int64_t split_grain(const struct planes_convolution *planes)
{
    return planes->direction == ONEDNN_BACKWARD_WEIGHTS ? GRADIENT_GRAIN : planes->block;
}

static int64_t split_most(const struct planes_convolution *planes)
{
    int64_t grain = split_grain(planes);

    return (planes->results + grain - 1) / grain;
}

static double uneven(int64_t units, int64_t parts)
{
    return (double)round_up(units, parts) / (double)units;
}

/* What the work costs in so many parts, beside that of the multiplications alone, where blocks have
 * so many rows and channels are split: the longest part, and planes that are made more than once.
 */
static double division_cost(const struct planes_convolution *planes, int64_t rows, int64_t splits)
{
    const struct axis *axis = planes->axis;
    int64_t blocks = planes->shape.samples * ((axis[0].count + rows - 1) / rows);
    double places = (double)(axis[0].tap_count * axis[1].tap_count + 1);
    double copies = COPY_COST * (double)phase_count(planes) / (places * (double)planes->results);

    return uneven(blocks * planes->shape.groups * splits, planes->parts) *
           uneven(split_most(planes), splits) *
           (1 + copies * (double)splits * (double)(rows + axis[0].reach) / (double)rows);
}

static void divide_blocks(struct planes_convolution *planes)
{
    int64_t all = planes->axis[0].count, most = split_most(planes);
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
        most = 1; /* each part has sums of all */
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

static void choose_block(struct planes_convolution *planes)
{
    int64_t all = planes->axis[0].count, reach = planes->axis[0].reach, width, wide;

    planes->pitch = planes->axis[1].count + planes->axis[1].reach;
    width = (all - 1) * planes->pitch + planes->axis[1].count;
    wide = round_up(planes->axis[1].count, planes->vector);
    planes->by_rows = all * wide < width;
    planes->row_stride = planes->by_rows ? wide : planes->pitch;
    planes->rows = all;
    planes->samples = 1;
    planes->splits = 1;
    while (planes->rows > 1 + reach / 2 && block_bytes(planes, planes->rows, 1) > BLOCK_BYTES)
        planes->rows = (planes->rows + 1) / 2;
    if (planes->parts)
        divide_blocks(planes);
    if (planes->rows == all && (!planes->parts || planes->divides_weights))
        while (planes->samples < planes->shape.samples &&
               block_bytes(planes, all, planes->samples + 1) <= BLOCK_BYTES &&
               (planes->samples + 1) * result_columns(planes, all) <= COLUMNS_MAX)
            planes->samples++;
    planes->sample_columns = result_columns(planes, planes->rows);
    planes->columns = spread(planes->samples * planes->sample_columns + LINE - 1);
    planes->sample_stride = (planes->rows + reach) * planes->pitch;
    /* the last vector reads beyond */
    planes->plane_stride =
        spread(round_up(planes->samples * planes->sample_stride, LINE) + 2 * LINE);
}

static int list_places(struct planes_convolution *planes)
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

/* ---- rows of the products' second matrix -------------------------------------------------------
 */

/* Adds a pass' rows, for all channels; how many. */
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
                int64_t plane = (c * rows->phases + row->phase) * columns->phases + column->phase;
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

static int list_passes(struct planes_convolution *planes)
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
        first += pass->depth;
    }
    planes->group_packed = round_up(first * planes->padded, LINE);
    return 0;
}

struct planes_convolution *planes_create(const struct kernels *kernels,
                                         enum onednn_direction direction,
                                         const struct onednn_convolution_shape *shape, int parts)
{
    struct planes_convolution *planes = calloc(1, sizeof(*planes));
    int64_t in = shape->channels / shape->groups, out = shape->out_channels / shape->groups;
    bool backward = direction == ONEDNN_BACKWARD_DATA;

    if (!planes)
        return NULL;
    planes->kernels = kernels;
    planes->vector = kernels->vector;
    planes->direction = direction;
    planes->parts = parts;
    planes->shape = *shape;
    planes->channels = backward ? out : in;
    planes->results = backward ? in : out;
    planes->block = kernels->planes_block(planes->results);
    planes->padded = round_up(planes->results, planes->block);
    if (describe_axis(planes, 0) || describe_axis(planes, 1))
        goto failed;
    choose_block(planes);
    if (list_places(planes) || list_passes(planes))
        goto failed;
    return planes;
failed:
    planes_free(planes);
    return NULL;
}

void planes_free(struct planes_convolution *planes)
{
    if (!planes)
        return;
    for (int d = 0; d < 2; d++) {
        free(planes->axis[d].taps);
        free(planes->axis[d].origin);
        free(planes->axis[d].to);
    }
    free(planes->passes);
    free(planes->offset);
    free(planes->weight);
    free(planes->place);
    free(planes);
}

/* ---- memory ------------------------------------------------------------------------------------
 */

static int64_t planes_floats(const struct planes_convolution *planes)
{
    return planes->channels * phase_count(planes) * planes->plane_stride;
}

size_t planes_scratch_bytes(const struct planes_convolution *planes)
{
    return (size_t)(planes_floats(planes) + result_rows(planes) * planes->columns + PLANES_BEYOND) *
           sizeof(float);
}

size_t planes_packed_bytes(const struct planes_convolution *planes)
{
    return planes->direction == ONEDNN_BACKWARD_WEIGHTS
               ? 0
               : (size_t)(planes->shape.groups * planes->group_packed) * sizeof(float);
}

/* ---- weights -----------------------------------------------------------------------------------
 */

/* Rows of the second matrix that are multiplied in one go. */
static int64_t panel_depth(const struct planes_convolution *planes)
{
    return PANEL_BYTES / (int64_t)sizeof(float) / planes->block;
}

/* [depth][block] of one block of rows. */
static void pack_panel(const struct planes_convolution *planes, const float *weights,
                       const int32_t *place, int64_t depth, int64_t row, float *packed)
{
    const int64_t *kernel = planes->shape.kernel;
    int64_t in = planes->shape.channels / planes->shape.groups;
    int64_t window = kernel[0] * kernel[1];
    int64_t step = planes->direction == ONEDNN_BACKWARD_DATA ? window : in * window;

    for (int64_t m = 0; m < planes->block; m++) {
        const float *from = weights + (row + m) * step;

        for (int64_t r = 0; r < depth; r++)
            packed[r * planes->block + m] = row + m < planes->results ? from[place[r]] : 0;
    }
}

/* The weights of a group begin there, in PyTorch's order. */
static int64_t group_weights(const struct planes_convolution *planes, int64_t group)
{
    const struct onednn_convolution_shape *shape = &planes->shape;

    return group * (shape->out_channels / shape->groups) * (shape->channels / shape->groups) *
           shape->kernel[0] * shape->kernel[1];
}

/* [group][pass][panel][block of rows][depth of the panel][block] */
void planes_pack(const struct planes_convolution *planes, const float *weights, int part, int parts,
                 float *packed)
{
    int64_t most = panel_depth(planes), unit = 0;

    for (int64_t g = 0; g < planes->shape.groups; g++)
        for (int i = 0; i < planes->pass_count; i++) {
            const struct pass *pass = &planes->passes[i];
            float *to = packed + g * planes->group_packed + pass->packed;

            for (int64_t r = 0; r < pass->depth; r += most) {
                int64_t depth = pass->depth - r < most ? pass->depth - r : most;

                for (int64_t m = 0; m < planes->padded; m += planes->block, unit++)
                    if (unit % parts == part)
                        pack_panel(planes, weights + group_weights(planes, g),
                                   planes->weight + pass->first_tap + r, depth, m,
                                   to + r * planes->padded + m * depth);
            }
        }
}

/* ---- run ---------------------------------------------------------------------------------------
 */

/* What is under way. */
struct block {
    int64_t group, first_sample, samples, first_row, rows;
    int64_t first_result, end_result; /* of the group's channels */
    float *planes, *results;
};

static float *image_of(const struct planes_images *images, int64_t sample, int64_t channel,
                       int64_t channels, int64_t pixels)
{
    return images->start + (sample * channels + channel / images->block * images->block) * pixels +
           channel % images->block;
}

/* Copies the source's rows and samples of the block into planes. */
static void gather_source(const struct planes_convolution *planes,
                          const struct planes_images *source, const struct block *block)
{
    const struct axis *rows = &planes->axis[0], *columns = &planes->axis[1];
    int64_t pixels = rows->source * columns->source;
    int64_t channels = planes->channels * planes->shape.groups;
    struct planes_gather shape = {.height = rows->source,
                                  .width = columns->source,
                                  .pixel = source->block,
                                  .row_step = rows->step,
                                  .column_step = columns->step,
                                  .rows = block->rows + rows->reach,
                                  .columns = planes->pitch};
    float *to = block->planes;

    for (int64_t c = 0; c < planes->channels; c++)
        for (int i = 0; i < rows->phases; i++)
            for (int k = 0; k < columns->phases; k++, to += planes->plane_stride) {
                int64_t end = block->samples * planes->sample_stride;

                shape.row_origin = rows->origin[i] + block->first_row * rows->step;
                shape.column_origin = columns->origin[k];
                for (int64_t s = 0; s < block->samples; s++)
                    planes->kernels->planes_gather(&shape,
                                                   image_of(source, block->first_sample + s,
                                                            block->group * planes->channels + c,
                                                            channels, pixels),
                                                   to + s * planes->sample_stride);
                if (block->rows < planes->rows)
                    end = shape.rows * planes->pitch;
                memset(to + end, 0, 2 * LINE * sizeof(*to));
            }
}

static struct planes_columns block_columns(const struct planes_convolution *planes,
                                           const struct block *block)
{
    int64_t sample = result_columns(planes, block->rows);

    return (struct planes_columns){.vectors = block->samples * sample / planes->vector,
                                   .place = planes->place};
}

static void multiply_pass(const struct planes_convolution *planes, const struct pass *pass,
                          const struct block *block, const float *packed)
{
    struct planes_columns columns = block_columns(planes, block);
    const int32_t *offset = planes->offset + pass->first_tap;
    int64_t most = panel_depth(planes), r = 0;

    packed += block->group * planes->group_packed + pass->packed;
    do {
        int64_t depth = pass->depth - r < most ? pass->depth - r : most;

        for (int64_t m = block->first_result; m < block->end_result; m += planes->block)
            planes->kernels->planes_multiply(
                planes->block, depth, packed + r * planes->padded + m * depth, block->planes,
                offset + r, &columns, block->results + m * planes->columns, planes->columns, r > 0);
        r += depth;
    } while (r < pass->depth);
}

static void scatter_results(const struct planes_convolution *planes, const struct pass *pass,
                            const struct planes_images *result, const float *bias,
                            const struct block *block)
{
    const struct axis *rows = &planes->axis[0], *columns = &planes->axis[1];
    int64_t pixels = rows->result * columns->result;
    int64_t channels = planes->results * planes->shape.groups;
    struct planes_scatter shape = {
        .image = {.height = rows->result,
                  .width = columns->result,
                  .pixel = result->block,
                  .row_origin = pass->to[0] + block->first_row * rows->result_step,
                  .column_origin = pass->to[1],
                  .row_step = rows->result_step,
                  .column_step = columns->result_step,
                  .rows = block->rows,
                  .columns = columns->count},
        .row_stride = planes->row_stride,
        .relu = planes->direction == ONEDNN_FORWARD && planes->shape.relu};
    int64_t sample = result_columns(planes, block->rows);

    for (int64_t m = block->first_result; m < block->end_result; m++) {
        int64_t channel = block->group * planes->results + m;

        for (int64_t s = 0; s < block->samples; s++)
            planes->kernels->planes_scatter(
                &shape, block->results + m * planes->columns + s * sample, bias ? bias[channel] : 0,
                image_of(result, block->first_sample + s, channel, channels, pixels));
    }
}

/* y's gradient in the columns of the products: 0 where there is no pixel. */
static void gather_gradient(const struct planes_convolution *planes, const struct planes_images *y,
                            const struct block *block, float *bias)
{
    const struct axis *rows = &planes->axis[0], *columns = &planes->axis[1];
    int64_t sample = result_columns(planes, block->rows);
    int64_t pixels = rows->count * columns->count;
    int64_t channels = planes->results * planes->shape.groups;
    struct planes_gather shape = {.height = rows->count,
                                  .width = columns->count,
                                  .pixel = y->block,
                                  .row_origin = block->first_row,
                                  .row_step = 1,
                                  .column_step = 1,
                                  .rows = block->rows,
                                  .columns = planes->row_stride};

    for (int64_t m = block->first_result; m < block->end_result; m++) {
        int64_t channel = block->group * planes->results + m;
        float *to = block->results + m * planes->columns;

        for (int64_t s = 0; s < block->samples; s++, to += sample) {
            const float *from = image_of(y, block->first_sample + s, channel, channels, pixels);
            int64_t used = (block->rows - 1) * planes->row_stride + columns->count;

            /* the last row by itself: without what is behind it */
            shape.rows = block->rows - 1;
            shape.row_origin = block->first_row;
            shape.columns = planes->row_stride;
            planes->kernels->planes_gather(&shape, from, to);
            shape.rows = 1;
            shape.row_origin = block->first_row + block->rows - 1;
            shape.columns = columns->count;
            planes->kernels->planes_gather(&shape, from,
                                           to + (block->rows - 1) * planes->row_stride);
            memset(to + used, 0, (size_t)(sample - used) * sizeof(*to));
        }
        if (bias)
            bias[channel] += planes->kernels->planes_sum(block->results + m * planes->columns,
                                                         block->samples * sample / planes->vector);
    }
}

static void add_gradient(const struct planes_convolution *planes, const struct block *block,
                         float *weights)
{
    struct planes_columns columns = block_columns(planes, block);
    const struct pass *pass = planes->passes;
    int64_t row = planes->channels * planes->shape.kernel[0] * planes->shape.kernel[1];

    planes->kernels->planes_gradient(
        block->end_result - block->first_result, pass->depth,
        block->results + block->first_result * planes->columns, planes->columns, block->planes,
        planes->offset, &columns, planes->weight,
        weights + group_weights(planes, block->group) + block->first_result * row, row);
}

static void run_block(const struct planes_convolution *planes, const struct planes_images *x,
                      const struct planes_images *y, const struct block *block, float *weights,
                      float *bias)
{
    bool backward = planes->direction == ONEDNN_BACKWARD_DATA;

    gather_source(planes, backward ? y : x, block);
    if (planes->direction == ONEDNN_BACKWARD_WEIGHTS) {
        gather_gradient(planes, y, block, bias);
        add_gradient(planes, block, weights);
        return;
    }
    for (int i = 0; i < planes->pass_count; i++) {
        multiply_pass(planes, &planes->passes[i], block, weights);
        scatter_results(planes, &planes->passes[i], backward ? x : y, bias, block);
    }
}

/* The channels of results of split `split`. */
static void take_split(const struct planes_convolution *planes, int64_t split, struct block *block)
{
    int64_t grain = split_grain(planes), most = split_most(planes);
    int64_t end = most * (split + 1) / planes->splits * grain;

    block->first_result = most * split / planes->splits * grain;
    block->end_result = end < planes->results ? end : planes->results;
}

static void take_samples(const struct planes_convolution *planes, int64_t first, int64_t end,
                         struct block *block)
{
    block->first_sample = first;
    block->samples = end - first < planes->samples ? end - first : planes->samples;
}

static void take_rows(const struct planes_convolution *planes, int64_t first, struct block *block)
{
    int64_t left = planes->axis[0].count - first;

    block->first_row = first;
    block->rows = left < planes->rows ? left : planes->rows;
}

static void clear_gradient(const struct planes_convolution *planes, float *weights, float *bias)
{
    const struct onednn_convolution_shape *shape = &planes->shape;

    if (planes->direction != ONEDNN_BACKWARD_WEIGHTS)
        return;
    memset(weights, 0, (size_t)group_weights(planes, shape->groups) * sizeof(*weights));
    if (bias)
        memset(bias, 0, (size_t)shape->out_channels * sizeof(*bias));
}

void planes_run(const struct planes_convolution *planes, const struct planes_images *x,
                const struct planes_images *y, int64_t samples, float *weights, float *bias,
                void *scratch)
{
    struct block block = {.planes = scratch, .results = (float *)scratch + planes_floats(planes)};

    clear_gradient(planes, weights, bias);
    take_split(planes, 0, &block);
    for (int64_t s = 0; s < samples; s += planes->samples)
        for (int64_t row = 0; row < planes->axis[0].count; row += planes->rows)
            for (int64_t g = 0; g < planes->shape.groups; g++) {
                block.group = g;
                take_samples(planes, s, samples, &block);
                take_rows(planes, row, &block);
                run_block(planes, x, y, &block, weights, bias);
            }
}

bool planes_divides_weights(const struct planes_convolution *planes)
{
    return planes->divides_weights;
}

/* Channels `block` has of the gradient: of all samples and rows. */
static void run_channels(const struct planes_convolution *planes, const struct planes_images *x,
                         const struct planes_images *y, struct block *block, float *weights,
                         float *bias)
{
    int64_t channels = block->end_result - block->first_result, samples = planes->shape.samples;
    int64_t row = planes->channels * planes->shape.kernel[0] * planes->shape.kernel[1];

    memset(weights + group_weights(planes, block->group) + block->first_result * row, 0,
           (size_t)(channels * row) * sizeof(*weights));
    if (bias)
        memset(bias + block->group * planes->results + block->first_result, 0,
               (size_t)channels * sizeof(*bias));
    for (int64_t s = 0; s < samples; s += planes->samples)
        for (int64_t first = 0; first < planes->axis[0].count; first += planes->rows) {
            take_samples(planes, s, samples, block);
            take_rows(planes, first, block);
            run_block(planes, x, y, block, weights, bias);
        }
}

void planes_run_part(const struct planes_convolution *planes, const struct planes_images *x,
                     const struct planes_images *y, int part, float *weights, float *bias,
                     void *scratch)
{
    struct block block = {.planes = scratch, .results = (float *)scratch + planes_floats(planes)};
    int64_t row_blocks = (planes->axis[0].count + planes->rows - 1) / planes->rows;
    int64_t blocks = planes->divides_weights ? 1 : planes->shape.samples * row_blocks;
    int64_t units = blocks * planes->shape.groups * planes->splits;

    if (!planes->divides_weights)
        clear_gradient(planes, weights, bias);
    for (int64_t unit = units * part / planes->parts; unit < units * (part + 1) / planes->parts;
         unit++) {
        int64_t place = unit / planes->splits / planes->shape.groups;

        take_split(planes, unit % planes->splits, &block);
        block.group = unit / planes->splits % planes->shape.groups;
        if (planes->divides_weights) {
            run_channels(planes, x, y, &block, weights, bias);
            continue;
        }
        take_samples(planes, place / row_blocks, place / row_blocks + 1, &block);
        take_rows(planes, place % row_blocks * planes->rows, &block);
        run_block(planes, x, y, &block, weights, bias);
    }
}
