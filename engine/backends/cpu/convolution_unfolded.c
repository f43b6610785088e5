/* convolution_unfolded.c: see convolution_unfolded.h. convolution_unfolded_geometry.c computes
 * which pixels are read and how the work is divided.
 *
 * Forward and the gradient by the data take panels of pixels. Samples are next to each other, and
 * so are pixels that read the same positions of the kernel: those a stride apart for the gradient
 * by the data. A position that no pixel of a panel reads is left out. The gradient by the weights
 * takes each position of the kernel by itself, and only the pixels that read something there. */
#include "base/alignment.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/convolution_unfolded_internal.h"
#include "engine/backends/cpu/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

enum {
    LANES_MAX = 16,
    ROWS_MAX = 16,    /* at least planes_block() of anything */
    PANELS_MAX = 16,  /* that read the same weights, in turns */
    VECTORS_MAX = 16, /* whose weights are read in turns: they stay in the second-level cache */
    GRADIENT_BYTES = 256 * 1024 /* of y's gradient that is read in turns, for the same reason */
};

/* What a task works with, in its scratch memory. */
struct unfolded_work {
    float *results; /* [row of a panel, of all panels in turns][lane of the vectors in turns] */
    float *operand; /* [depth][row] */
    int64_t *channel, *result_channel; /* where channels lie within a pixel: of source, of result */
    int32_t *offset;                   /* of the weights, or of y's gradient, by depth */
    int32_t *place;                    /* of the vectors */
    const float **pixel;               /* by row, or by depth */
};

/* ---- create ---------------------------------------------------------------------------------- */

struct unfolded_convolution *unfolded_create(const struct kernels *kernels,
                                             enum onednn_direction direction,
                                             const struct onednn_convolution_shape *shape,
                                             int parts)
{
    bool backward = direction == ONEDNN_BACKWARD_DATA;
    struct unfolded_convolution *made = calloc(1, sizeof *made);

    if (!made)
        return NULL;
    made->kernels = kernels;
    made->direction = direction;
    made->shape = *shape;
    made->parts = parts;
    made->taps = shape->kernel[0] * shape->kernel[1];
    made->source_channels = backward ? shape->out_channels : shape->channels;
    made->channels = backward ? shape->channels : shape->out_channels;
    made->vectors = (made->channels + kernels->vector - 1) / kernels->vector;
    if (unfolded_describe_axis(made, 0) || unfolded_describe_axis(made, 1)) {
        unfolded_free(made);
        return NULL;
    }
    made->pixels = shape->samples * made->axis[0].results * made->axis[1].results;
    unfolded_divide_work(made);
    return made;
}

void unfolded_free(struct unfolded_convolution *unfolded)
{
    if (!unfolded)
        return;
    for (int d = 0; d < 2; d++) {
        free(unfolded->axis[d].source);
        free(unfolded->axis[d].order);
    }
    free(unfolded);
}

void unfolded_weights_layout(const struct unfolded_convolution *unfolded,
                             struct onednn_layout *layout)
{
    const struct onednn_convolution_shape *shape = &unfolded->shape;

    onednn_layout_vectors_of_weights(
        (int64_t[]){shape->out_channels, shape->channels, shape->kernel[0], shape->kernel[1]},
        unfolded->kernels->vector, layout);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Floats of one vector of the second matrix: of the weights, or of y's gradient. */
static int64_t vector_floats(const struct unfolded_convolution *unfolded)
{
    int64_t rows = unfolded_is_gradient(unfolded) ? unfolded->pixels
                                                  : unfolded->taps * unfolded->source_channels;

    return rows * unfolded->kernels->vector;
}

size_t unfolded_packed_bytes(const struct unfolded_convolution *unfolded)
{
    return unfolded->direction == ONEDNN_FORWARD
               ? 0
               : (size_t)(unfolded->vectors * vector_floats(unfolded)) * sizeof(float);
}

static void *take(char *memory, size_t *used, size_t bytes)
{
    size_t begin = *used;

    *used += align_up(bytes, MEMORY_ALIGNMENT);
    return memory ? memory + begin : NULL;
}

/* Lays out what a task works with in `memory`, or nowhere if that is NULL. Returns the bytes. */
static size_t lay_out_work(const struct unfolded_convolution *unfolded, char *memory,
                           struct unfolded_work *work)
{
    size_t lanes = (size_t)VECTORS_MAX * LANES_MAX, used = 0;

    work->results = take(memory, &used, (size_t)PANELS_MAX * ROWS_MAX * lanes * sizeof(float));
    work->operand = take(memory, &used, (size_t)UNFOLDED_DEPTH_MAX * ROWS_MAX * sizeof(float));
    work->channel = take(memory, &used, (size_t)unfolded->source_channels * sizeof(int64_t));
    work->result_channel = take(memory, &used, (size_t)unfolded->channels * sizeof(int64_t));
    work->offset = take(memory, &used, UNFOLDED_DEPTH_MAX * sizeof(int32_t));
    work->place = take(memory, &used, VECTORS_MAX * sizeof(int32_t));
    work->pixel = take(memory, &used, UNFOLDED_DEPTH_MAX * sizeof(float *));
    return used;
}

size_t unfolded_scratch_bytes(const struct unfolded_convolution *unfolded)
{
    struct unfolded_work work;

    return lay_out_work(unfolded, NULL, &work);
}

/* ---- images ---------------------------------------------------------------------------------- */

static void list_channels(int64_t block, int64_t channels, int64_t pixels, int64_t *channel)
{
    for (int64_t c = 0; c < channels; c++)
        channel[c] = c / block * block * pixels + c % block;
}

/* A pixel of the result. Samples are next to each other, then columns in their axis' order. */
struct result_pixel {
    int64_t sample, row, column; /* row and column count in the order of their axis */
};

static struct result_pixel result_pixel(const struct unfolded_convolution *unfolded, int64_t index)
{
    int64_t place = index / unfolded->shape.samples, columns = unfolded->axis[1].results;

    return (struct result_pixel){.sample = index % unfolded->shape.samples,
                                 .row = place / columns,
                                 .column = place % columns};
}

/* The next pixel, without a division. */
static inline void step_sample(const struct unfolded_convolution *unfolded,
                               struct result_pixel *pixel)
{
    if (++pixel->sample < unfolded->shape.samples)
        return;
    pixel->sample = 0;
    if (++pixel->column < unfolded->axis[1].results)
        return;
    pixel->column = 0;
    pixel->row++;
}

static float *result_address(const struct unfolded_convolution *unfolded,
                             const struct planes_images *images, const struct result_pixel *pixel)
{
    int64_t columns = unfolded->axis[1].results, pixels = unfolded->axis[0].results * columns;
    int64_t row = unfolded->axis[0].order[pixel->row];

    return images->start + pixel->sample * unfolded->channels * pixels +
           (row * columns + unfolded->axis[1].order[pixel->column]) * images->block;
}

/* Where the pixel of the result reads the source at a position of the kernel (row, column): in
 * floats from its sample on; -1: nothing. */
static inline int64_t source_offset(const struct unfolded_convolution *unfolded, int64_t block,
                                    const struct result_pixel *pixel, const int64_t tap[2])
{
    const struct unfolded_axis *rows = &unfolded->axis[0], *columns = &unfolded->axis[1];
    int64_t row = rows->source[rows->order[pixel->row] * rows->taps + tap[0]];
    int64_t column = columns->source[columns->order[pixel->column] * columns->taps + tap[1]];

    return (row | column) < 0 ? -1 : (row * columns->extent + column) * block;
}

static int64_t source_sample_floats(const struct unfolded_convolution *unfolded)
{
    return unfolded->source_channels * unfolded->axis[0].extent * unfolded->axis[1].extent;
}

static void split_tap(const struct unfolded_convolution *unfolded, int64_t tap, int64_t split[2])
{
    split[0] = tap / unfolded->axis[1].taps;
    split[1] = tap % unfolded->axis[1].taps;
}

/* ---- pack ------------------------------------------------------------------------------------ */

/* Packs one position of the kernel: [channel of y][lane of x's channels], for each vector. */
static void pack_tap(const struct unfolded_convolution *unfolded, const float *weights, int64_t tap,
                     float *packed)
{
    int64_t x = unfolded->channels, y = unfolded->source_channels;
    int64_t lanes = unfolded->kernels->vector, width = vector_floats(unfolded);

    for (int64_t first = 0; first < x; first += lanes, packed += width) {
        int64_t rows = x - first < lanes ? x - first : lanes;

        for (int64_t c = 0; c < y; c += lanes) {
            const float *from =
                weights + (c / lanes * unfolded->taps + tap) * x * lanes + first * lanes;
            float *to = packed + (tap * y + c) * lanes;
            int64_t columns = y - c < lanes ? y - c : lanes;

            if (rows == lanes) {
                unfolded->kernels->matrix_transpose(from, lanes, rows, columns, to);
                continue;
            }
            for (int64_t k = 0; k < columns; k++)
                for (int64_t r = 0; r < lanes; r++)
                    to[k * lanes + r] = r < rows ? from[r * lanes + k] : 0;
        }
    }
}

static void pack_gradient(const struct unfolded_convolution *unfolded,
                          const struct planes_images *y, int64_t first, int64_t end, float *packed)
{
    enum { AT_ONCE = 64 };
    int64_t pixels = unfolded->axis[0].results * unfolded->axis[1].results, lanes = LANES_MAX;
    int64_t channel[LANES_MAX];

    lanes = unfolded->kernels->vector;
    for (int64_t c = 0; c < unfolded->channels; c += lanes, packed += vector_floats(unfolded)) {
        int64_t count = unfolded->channels - c < lanes ? unfolded->channels - c : lanes;

        for (int64_t i = 0; i < count; i++)
            channel[i] = (c + i) / y->block * y->block * pixels + (c + i) % y->block;
        for (int64_t p = first; p < end; p += AT_ONCE) {
            int64_t some = end - p < AT_ONCE ? end - p : AT_ONCE;
            const float *pixel[AT_ONCE];
            struct result_pixel place = result_pixel(unfolded, p);

            for (int64_t i = 0; i < some; i++, step_sample(unfolded, &place))
                pixel[i] = result_address(unfolded, y, &place);
            unfolded->kernels->unfold_vectors(some, pixel, count, channel, packed + p * lanes, 0);
        }
    }
}

void unfolded_pack(const struct unfolded_convolution *unfolded, const float *weights,
                   const struct planes_images *y, int part, int parts, float *packed)
{
    int64_t count = unfolded_is_gradient(unfolded) ? unfolded->pixels : unfolded->taps;
    int64_t first = count * part / parts, end = count * (part + 1) / parts;

    if (unfolded_is_gradient(unfolded)) {
        pack_gradient(unfolded, y, first, end, packed);
        return;
    }
    for (int64_t tap = first; tap < end; tap++)
        pack_tap(unfolded, weights, tap, packed);
}

/* ---- forward, and the gradient by the data --------------------------------------------------- */

/* Panels [first, first + count) of vectors [vector, vector + vectors), which are worked on in turns
 * as long as they read the same weights. */
struct unfolded_panels {
    int64_t first, count, vector, vectors;
    bool started[PANELS_MAX]; /* whether the panel's results have been written */
    struct result_pixel pixel[PANELS_MAX * ROWS_MAX];
};

static int64_t panel_rows(const struct unfolded_convolution *unfolded, int64_t panel)
{
    int64_t left = unfolded->pixels - panel * unfolded->rows;

    return left < unfolded->rows ? left : unfolded->rows;
}

/* Unfolds what a panel reads of channels [first, end) at positions [tap, last), and multiplies. */
static void multiply_panel(const struct unfolded_convolution *unfolded,
                           const struct planes_images *source, struct unfolded_panels *panels,
                           int64_t index, const int64_t taps[2], const int64_t channels[2],
                           const float *weights, struct unfolded_work *work)
{
    const struct kernels *kernels = unfolded->kernels;
    const struct planes_columns columns = {.vectors = panels->vectors, .place = work->place};
    const struct result_pixel *pixel = panels->pixel + index * unfolded->rows;
    int64_t rows = panel_rows(unfolded, panels->first + index), count = channels[1] - channels[0];
    int64_t stride = panels->vectors * kernels->vector, depth = 0;
    int64_t sample = source_sample_floats(unfolded);

    for (int64_t tap = taps[0]; tap < taps[1]; tap++) {
        int64_t place[2];
        bool any = false;

        split_tap(unfolded, tap, place);
        for (int64_t r = 0; r < rows; r++) {
            int64_t offset = source_offset(unfolded, source->block, &pixel[r], place);

            work->pixel[r] = offset < 0 ? NULL : source->start + pixel[r].sample * sample + offset;
            any = any || offset >= 0;
        }
        if (!any)
            continue;
        kernels->unfold_pixels(rows, work->pixel, count, work->channel + channels[0],
                               work->operand + depth * rows);
        for (int64_t c = 0; c < count; c++)
            work->offset[depth + c] =
                (int32_t)((tap * unfolded->source_channels + channels[0] + c) * kernels->vector);
        depth += count;
    }
    if (!depth)
        return;
    kernels->planes_multiply(rows, depth, work->operand, weights, work->offset, &columns,
                             work->results + index * unfolded->rows * stride, stride,
                             panels->started[index]);
    panels->started[index] = true;
}

static void store_panel(const struct unfolded_convolution *unfolded,
                        const struct planes_images *result, const struct unfolded_panels *panels,
                        int64_t index, const float *bias, struct unfolded_work *work)
{
    int64_t lanes = unfolded->kernels->vector, stride = panels->vectors * lanes;
    int64_t rows = panel_rows(unfolded, panels->first + index), first = panels->vector * lanes;
    int64_t left = unfolded->channels - first;
    float *results = work->results + index * unfolded->rows * stride;
    float *pixel[ROWS_MAX];

    if (!panels->started[index])
        memset(results, 0, (size_t)(rows * stride) * sizeof *results);
    for (int64_t r = 0; r < rows; r++)
        pixel[r] = result_address(unfolded, result, &panels->pixel[index * unfolded->rows + r]);
    unfolded->kernels->unfold_store(
        rows, pixel, left < stride ? left : stride, work->result_channel + first, results, stride,
        bias ? bias + first : NULL, unfolded->direction == ONEDNN_FORWARD && unfolded->shape.relu);
}

static void run_panels(const struct unfolded_convolution *unfolded,
                       const struct planes_images *source, const struct planes_images *result,
                       struct unfolded_panels *panels, const float *weights, const float *bias,
                       struct unfolded_work *work)
{
    int64_t channels = unfolded->source_channels, width = vector_floats(unfolded);
    int64_t taps = channels < unfolded->depth ? unfolded->depth / channels : 1;
    int64_t most = channels < unfolded->depth ? channels : unfolded->depth;

    for (int64_t v = 0; v < panels->vectors; v++)
        work->place[v] = (int32_t)(v * width);
    for (int64_t i = 0; i < panels->count; i++) {
        panels->started[i] = false;
        for (int64_t r = 0; r < panel_rows(unfolded, panels->first + i); r++)
            panels->pixel[i * unfolded->rows + r] =
                result_pixel(unfolded, (panels->first + i) * unfolded->rows + r);
    }
    for (int64_t tap = 0; tap < unfolded->taps; tap += taps)
        for (int64_t c = 0; c < channels; c += most) {
            int64_t last = tap + taps < unfolded->taps ? tap + taps : unfolded->taps;
            int64_t end = c + most < channels ? c + most : channels;

            for (int64_t i = 0; i < panels->count; i++)
                multiply_panel(unfolded, source, panels, i, (int64_t[]){tap, last},
                               (int64_t[]){c, end}, weights + panels->vector * width, work);
        }
    for (int64_t i = 0; i < panels->count; i++)
        store_panel(unfolded, result, panels, i, bias, work);
}

/* The vectors of a group: [first, end). */
static void group_vectors(const struct unfolded_convolution *unfolded, int64_t group,
                          int64_t vectors[2])
{
    vectors[0] = unfolded->vectors * group / unfolded->groups;
    vectors[1] = unfolded->vectors * (group + 1) / unfolded->groups;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Runs units [first, end): the panels of the first group of vectors, those of the second … */
static void run_units(const struct unfolded_convolution *unfolded,
                      const struct planes_images *source, const struct planes_images *result,
                      int64_t first, int64_t end, const float *weights, const float *bias,
                      struct unfolded_work *work)
{
    struct unfolded_panels panels;

    for (int64_t unit = first, next; unit < end; unit = next) {
        int64_t group = unit / unfolded->panels, vectors[2];

        next = least(least(unit + PANELS_MAX, end), (group + 1) * unfolded->panels);
        panels.first = unit - group * unfolded->panels;
        panels.count = next - unit;
        group_vectors(unfolded, group, vectors);
        for (int64_t v = vectors[0]; v < vectors[1]; v += VECTORS_MAX) {
            panels.vector = v;
            panels.vectors = least(VECTORS_MAX, vectors[1] - v);
            run_panels(unfolded, source, result, &panels, weights, bias, work);
        }
    }
}

/* ---- the gradient by the weights ------------------------------------------------------------- */

/* A unit: some channels of x at one position of the kernel, some vectors of y's channels. */
struct unfolded_rows {
    int64_t tap, first, rows, vector, vectors;
};

static struct unfolded_rows rows_of(const struct unfolded_convolution *unfolded, int64_t unit)
{
    int64_t blocks = unfolded->panels / unfolded->taps, panel = unit % unfolded->panels;
    int64_t vectors[2];
    struct unfolded_rows rows = {.tap = panel / blocks, .first = panel % blocks * unfolded->rows};

    group_vectors(unfolded, unit / unfolded->panels, vectors);
    rows.rows = least(unfolded->rows, unfolded->source_channels - rows.first);
    rows.vector = vectors[0];
    rows.vectors = vectors[1] - vectors[0];
    return rows;
}

/* Lists up to UNFOLDED_DEPTH_MAX pixels of [*next, end) that read something at the position of the
 * kernel, and goes on to the next one. Returns how many there are. */
static int64_t list_pixels(const struct unfolded_convolution *unfolded,
                           const struct planes_images *x, int64_t tap, int64_t *next, int64_t end,
                           struct unfolded_work *work)
{
    int64_t samples = unfolded->shape.samples, sample = source_sample_floats(unfolded);
    int64_t lanes = unfolded->kernels->vector, depth = 0, p = *next, place[2];
    struct result_pixel pixel = result_pixel(unfolded, p);

    split_tap(unfolded, tap, place);
    while (p < end && depth < UNFOLDED_DEPTH_MAX) {
        int64_t offset = source_offset(unfolded, x->block, &pixel, place);
        int64_t left = least(samples - pixel.sample, end - p);
        int64_t taken = offset < 0 ? left : least(left, UNFOLDED_DEPTH_MAX - depth);

        /* all samples read there, or none does */
        for (int64_t i = 0; i < taken && offset >= 0; i++) {
            work->pixel[depth] = x->start + (pixel.sample + i) * sample + offset;
            work->offset[depth++] = (int32_t)((p + i) * lanes);
        }
        p += taken;
        pixel.sample += taken - 1;
        step_sample(unfolded, &pixel);
    }
    *next = p;
    return depth;
}

/* Adds the unit's sums over pixels [first, end) to the gradient, or begins it. */
static void add_rows(const struct unfolded_convolution *unfolded, const struct planes_images *x,
                     const struct unfolded_rows *rows, int64_t first, int64_t end,
                     const float *packed, float *weights, struct unfolded_work *work)
{
    const struct kernels *kernels = unfolded->kernels;
    int64_t lanes = kernels->vector, next = first, depth;
    int64_t width = unfolded->taps * unfolded->source_channels * lanes;
    int64_t place = (rows->tap * unfolded->source_channels + rows->first) * lanes;

    for (int64_t v = 0; v < rows->vectors; v += VECTORS_MAX) {
        int64_t vectors = least(VECTORS_MAX, rows->vectors - v), stride = vectors * lanes;
        const struct planes_columns columns = {.vectors = vectors, .place = work->place};
        bool started = false;

        for (int64_t i = 0; i < vectors; i++)
            work->place[i] = (int32_t)(i * vector_floats(unfolded));
        for (next = first; next < end; started = started || depth) {
            depth = list_pixels(unfolded, x, rows->tap, &next, end, work);
            if (!depth)
                break;
            kernels->unfold_channels(depth, work->pixel, rows->rows, work->channel + rows->first,
                                     work->operand);
            kernels->planes_multiply(rows->rows, depth, work->operand,
                                     packed + (rows->vector + v) * vector_floats(unfolded),
                                     work->offset, &columns, work->results, stride, started);
        }
        if (!started && first == 0)
            memset(work->results, 0, (size_t)(rows->rows * stride) * sizeof(float));
        for (int64_t i = 0; i < vectors && (started || first == 0); i++)
            kernels->matrix_copy(work->results + i * lanes, stride, rows->rows, lanes,
                                 weights + (rows->vector + v + i) * width + place, lanes,
                                 first > 0);
    }
}

/* Sums of some pixels are added to the sum of all, which rounds less than one long sum. */
static void sum_bias(const struct unfolded_convolution *unfolded, int64_t vector,
                     const float *packed, float *bias)
{
    int64_t lanes = unfolded->kernels->vector;
    float sum[LANES_MAX] = {0}, part[LANES_MAX];

    packed += vector * vector_floats(unfolded);
    for (int64_t p = 0; p < unfolded->pixels; p += UNFOLDED_DEPTH_MAX) {
        unfolded->kernels->column_sum(packed + p * lanes,
                                      least(UNFOLDED_DEPTH_MAX, unfolded->pixels - p), lanes, lanes,
                                      part, false);
        unfolded->kernels->add(sum, part, sum, lanes);
    }
    memcpy(bias + vector * lanes, sum,
           (size_t)least(lanes, unfolded->channels - vector * lanes) * sizeof *bias);
}

static void run_gradient(const struct unfolded_convolution *unfolded, const struct planes_images *x,
                         int part, const float *packed, float *weights, float *bias,
                         struct unfolded_work *work)
{
    int64_t units = unfolded->panels * unfolded->groups;
    int64_t first = units * part / unfolded->parts, end = units * (part + 1) / unfolded->parts;
    int64_t row_bytes =
        unfolded->vectors / unfolded->groups * unfolded->kernels->vector * (int64_t)sizeof(float);
    int64_t pixels = GRADIENT_BYTES / (row_bytes ? row_bytes : 1);

    pixels = pixels < UNFOLDED_DEPTH_MAX ? UNFOLDED_DEPTH_MAX : pixels;
    for (int64_t p = 0; p < unfolded->pixels; p += pixels)
        for (int64_t unit = first; unit < end; unit++) {
            struct unfolded_rows rows = rows_of(unfolded, unit);

            add_rows(unfolded, x, &rows, p, least(p + pixels, unfolded->pixels), packed, weights,
                     work);
        }
    for (int64_t v = unfolded->vectors * part / unfolded->parts;
         bias && v < unfolded->vectors * (part + 1) / unfolded->parts; v++)
        sum_bias(unfolded, v, packed, bias);
}

void unfolded_run_part(const struct unfolded_convolution *unfolded, const struct planes_images *x,
                       const struct planes_images *y, int part, float *weights, float *bias,
                       const float *packed, void *scratch)
{
    const struct unfolded_axis *rows = &unfolded->axis[0], *columns = &unfolded->axis[1];
    bool backward = unfolded->direction == ONEDNN_BACKWARD_DATA;
    const struct planes_images *source = backward ? y : x, *result = backward ? x : y;
    int64_t units = unfolded->panels * unfolded->groups;
    struct unfolded_work work;

    lay_out_work(unfolded, scratch, &work);
    list_channels(source->block, unfolded->source_channels, rows->extent * columns->extent,
                  work.channel);
    if (unfolded_is_gradient(unfolded)) {
        run_gradient(unfolded, x, part, packed, weights, bias, &work);
        return;
    }
    list_channels(result->block, unfolded->channels, rows->results * columns->results,
                  work.result_channel);
    run_units(unfolded, source, result, units * part / unfolded->parts,
              units * (part + 1) / unfolded->parts, backward ? packed : weights,
              backward ? NULL : bias, &work);
}
