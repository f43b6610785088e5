/* convolution_planes.c: see convolution_planes.h. convolution_planes_geometry.c computes which
 * pixels are read and how the work is divided into blocks. */
#include "engine/backends/cpu/convolution_planes_internal.h"

#include <stdlib.h>
#include <string.h>

/* The bytes of a panel of packed weights. Every vector of columns reads them again, so they should
 * stay in the first-level cache. */
enum { PANEL_BYTES = 16 * 1024, PREFETCH_AHEAD = 4096 };

struct planes_convolution *planes_create(const struct kernels *kernels,
                                         enum onednn_direction direction,
                                         const struct onednn_convolution_shape *shape, int parts,
                                         bool in_turn)
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
    planes->panel = PANEL_BYTES / (int64_t)sizeof(float) / planes->block;
    planes->padded = planes_round_up(planes->results, planes->block);
    if (planes_describe_axis(planes, 0) || planes_describe_axis(planes, 1))
        goto failed;
    planes_choose_block(planes, in_turn);
    if (planes_list_places(planes) || planes_list_passes(planes))
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

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t planes_floats(const struct planes_convolution *planes)
{
    return planes->turn * planes_phase_count(planes) * planes->plane_stride;
}

size_t planes_scratch_bytes(const struct planes_convolution *planes)
{
    return (size_t)(planes_floats(planes) + planes_result_rows(planes) * planes->columns +
                    PLANES_BEYOND) *
           sizeof(float);
}

size_t planes_packed_bytes(const struct planes_convolution *planes)
{
    return planes->direction == ONEDNN_BACKWARD_WEIGHTS
               ? 0
               : (size_t)(planes->shape.groups * planes->group_packed) * sizeof(float);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Where the product ends that begins with row r of the second matrix. Until row `end`, the planes
 * exist at the same time. */
static int64_t panel_end(const struct planes_convolution *planes, int64_t r, int64_t end)
{
    return r + planes->panel < end ? r + planes->panel : end;
}

/* Packs one block of rows as [depth][block]. */
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

/* Where the weights of a group begin, in PyTorch's order. */
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
    int64_t unit = 0;

    for (int64_t g = 0; g < planes->shape.groups; g++)
        for (int i = 0; i < planes->pass_count; i++) {
            const struct pass *pass = &planes->passes[i];
            float *to = packed + g * planes->group_packed + pass->packed;
            int64_t turn = planes->turn * pass->channel_depth, turn_end = 0;

            for (int64_t r = 0, end; r < pass->depth; r = end) {
                turn_end += r == turn_end ? turn : 0;
                end = panel_end(planes, r, turn_end < pass->depth ? turn_end : pass->depth);
                for (int64_t m = 0; m < planes->padded; m += planes->block, unit++)
                    if (unit % parts == part)
                        pack_panel(planes, weights + group_weights(planes, g),
                                   planes->weight + pass->first_tap + r, end - r, m,
                                   to + r * planes->padded + m * (end - r));
            }
        }
}

/* ---- run ------------------------------------------------------------------------------------- */

/* The block that a task is working on. */
struct block {
    int64_t group, first_sample, samples, first_row, rows;
    int64_t first_result, end_result; /* of the group's channels */
    int64_t first_channel, channels;  /* whose planes there are */
    float *planes, *results;
};

static float *image_of(const struct planes_images *images, int64_t sample, int64_t channel,
                       int64_t channels, int64_t pixels)
{
    return images->start + (sample * channels + channel / images->block * images->block) * pixels +
           channel % images->block;
}

/* How far ahead rows are prefetched between which a stride leaves out others, which the processor
 * does not foresee: a whole number of such rows. */
static int64_t prefetch_distance(const struct planes_convolution *planes,
                                 const struct planes_images *source)
{
    int64_t row = planes->axis[0].step * planes->axis[1].source;

    if (planes->turn == planes->channels || planes->axis[0].step == 1 || source->block > 1)
        return 0;
    return (PREFETCH_AHEAD + row) / row * row;
}

/* Copies the block's rows and samples of the source into planes. */
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
                                  .columns = planes->pitch,
                                  .prefetch = prefetch_distance(planes, source)};
    float *to = block->planes;

    for (int64_t c = block->first_channel; c < block->first_channel + block->channels; c++)
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
                memset(to + end, 0, 2 * PLANES_LINE * sizeof(*to));
            }
}

static struct planes_columns block_columns(const struct planes_convolution *planes,
                                           const struct block *block)
{
    int64_t sample = planes_result_columns(planes, block->rows);

    return (struct planes_columns){.vectors = block->samples * sample / planes->vector,
                                   .place = planes->place};
}

static void multiply_pass(const struct planes_convolution *planes, const struct pass *pass,
                          const struct block *block, const float *packed)
{
    struct planes_columns columns = block_columns(planes, block);
    const int32_t *offset = planes->offset + pass->first_tap;
    int64_t r = block->first_channel * pass->channel_depth, end;
    int64_t turn_end = r + block->channels * pass->channel_depth;

    packed += block->group * planes->group_packed + pass->packed;
    do {
        end = panel_end(planes, r, turn_end);
        for (int64_t m = block->first_result; m < block->end_result; m += planes->block)
            planes->kernels->planes_multiply(
                planes->block, end - r, packed + r * planes->padded + m * (end - r), block->planes,
                offset + r, &columns, block->results + m * planes->columns, planes->columns, r > 0);
        r = end;
    } while (r < turn_end);
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
    int64_t sample = planes_result_columns(planes, block->rows);

    for (int64_t m = block->first_result; m < block->end_result; m++) {
        int64_t channel = block->group * planes->results + m;

        for (int64_t s = 0; s < block->samples; s++)
            planes->kernels->planes_scatter(
                &shape, block->results + m * planes->columns + s * sample, bias ? bias[channel] : 0,
                image_of(result, block->first_sample + s, channel, channels, pixels));
    }
}

/* Copies y's gradient into the columns of the products; columns without a pixel become 0. */
static void gather_gradient(const struct planes_convolution *planes, const struct planes_images *y,
                            const struct block *block, float *bias)
{
    const struct axis *rows = &planes->axis[0], *columns = &planes->axis[1];
    int64_t sample = planes_result_columns(planes, block->rows);
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

            /* the last row is a product of its own, which reads nothing behind it */
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
    int64_t first = block->first_channel * pass->channel_depth;

    planes->kernels->planes_gradient(
        block->end_result - block->first_result, block->channels * pass->channel_depth,
        block->results + block->first_result * planes->columns, planes->columns, block->planes,
        planes->offset + first, &columns, planes->weight + first,
        weights + group_weights(planes, block->group) + block->first_result * row, row);
}

static void run_block(const struct planes_convolution *planes, const struct planes_images *x,
                      const struct planes_images *y, struct block *block, float *weights,
                      float *bias)
{
    bool backward = planes->direction == ONEDNN_BACKWARD_DATA;

    if (planes->direction == ONEDNN_BACKWARD_WEIGHTS)
        gather_gradient(planes, y, block, bias);
    for (int64_t c = 0; c < planes->channels; c += planes->turn) {
        int64_t left = planes->channels - c;

        block->first_channel = c;
        block->channels = left < planes->turn ? left : planes->turn;
        gather_source(planes, backward ? y : x, block);
        if (planes->direction == ONEDNN_BACKWARD_WEIGHTS) {
            add_gradient(planes, block, weights);
            continue;
        }
        for (int i = 0; i < planes->pass_count; i++) {
            multiply_pass(planes, &planes->passes[i], block, weights);
            if (left <= planes->turn)
                scatter_results(planes, &planes->passes[i], backward ? x : y, bias, block);
        }
    }
}

/* Sets the result channels of split `split`. */
static void take_split(const struct planes_convolution *planes, int64_t split, struct block *block)
{
    int64_t grain = planes_split_grain(planes), most = planes_split_most(planes);
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

/* Runs the gradient for the channels of `block`, over all samples and rows. */
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
