/* tiles_images.c: the operators between convolutions, over slices of images in tiles (tiles.h): the
 * parts of batch normalisation (Ioffe and Szegedy 2015, arXiv:1502.03167), pools, sums, ReLU, and
 * conversions from and to float32. Sums are float32 within RUN rows, and float64 beyond. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/tiles_vector.h"

enum { RUN = 256, HALVES_OF_ROW = TILE_CHANNELS / LANES };

/* The rows of channels c … c + 31 for the samples of block b. They are contiguous. */
struct tile_run {
    int64_t first, count; /* the index of the first number, and how many rows there are */
};

static struct tile_run run_of(const struct tile_images *images, int64_t b, int64_t c)
{
    int64_t first = tile_block_first(images->samples, b);
    int64_t rows = tile_block_first(images->samples, b + 1) - first;

    return (struct tile_run){(first * images->channels + c * rows) * images->pixels,
                             images->pixels * rows};
}

/* ---- batch normalisation --------------------------------------------------------------------- */

static void add_sums(double *total, const floats sum[HALVES_OF_ROW])
{
    for (int k = 0; k < TILE_CHANNELS; k++)
        total[k] += ((const float *)sum)[k];
}

/* Estimates the mean of a channel by that of its first RUN numbers. The sums around this estimate
 * stay accurate (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", eq.
 * 1.7). */
static void estimate_center(const uint16_t *x, int64_t count, floats center[HALVES_OF_ROW])
{
    int64_t rows = count < RUN ? count : RUN;

    for (int h = 0; h < HALVES_OF_ROW; h++) {
        floats sum = {0};

        for (int64_t i = 0; i < rows; i++)
            sum += load_halves(x + i * TILE_CHANNELS + h * LANES);
        center[h] = sum / (float)rows;
    }
}

void KERNEL_NAME(tile_moments)(const uint16_t *x, const struct tile_images *images, float *mean,
                               float *m2)
{
    double count = (double)(images->samples * images->pixels);

    for (int64_t c = 0; c < images->channels; c += TILE_CHANNELS) {
        double sum[TILE_CHANNELS] = {0}, squares[TILE_CHANNELS] = {0};
        floats center[HALVES_OF_ROW];

        for (int64_t b = 0; b < tile_block_count(images->samples); b++) {
            struct tile_run run = run_of(images, b, c);

            if (b == 0)
                estimate_center(x + run.first, run.count, center);
            for (int64_t start = 0; start < run.count; start += RUN) {
                const uint16_t *row = x + run.first + start * TILE_CHANNELS;
                int64_t rows = run.count - start < RUN ? run.count - start : RUN;
                floats s[HALVES_OF_ROW] = {{0}}, q[HALVES_OF_ROW] = {{0}};

                for (int64_t i = 0; i < rows; i++)
                    for (int h = 0; h < HALVES_OF_ROW; h++) {
                        floats d = load_halves(row + i * TILE_CHANNELS + h * LANES) - center[h];

                        s[h] += d;
                        q[h] += d * d;
                    }
                add_sums(sum, s);
                add_sums(squares, q);
            }
        }
        for (int k = 0; k < TILE_CHANNELS; k++) {
            mean[c + k] = (float)(((const float *)center)[k] + sum[k] / count);
            m2[c + k] = (float)(squares[k] - sum[k] * sum[k] / count);
        }
    }
}

void KERNEL_NAME(tile_normalize)(const uint16_t *x, const struct tile_images *images,
                                 const float *factor, const float *offset, const uint16_t *addend,
                                 bool relu, uint16_t *y)
{
    for (int64_t b = 0; b < tile_block_count(images->samples); b++)
        for (int64_t c = 0; c < images->channels; c += TILE_CHANNELS) {
            struct tile_run run = run_of(images, b, c);
            const uint16_t *in = x + run.first, *other = addend ? addend + run.first : NULL;
            uint16_t *out = y + run.first;
            floats f[HALVES_OF_ROW], o[HALVES_OF_ROW];

            for (int h = 0; h < HALVES_OF_ROW; h++) {
                f[h] = load_floats(factor + c + h * LANES);
                o[h] = load_floats(offset + c + h * LANES);
            }
            for (int64_t i = 0; i < run.count * TILE_CHANNELS; i += TILE_CHANNELS)
                for (int h = 0; h < HALVES_OF_ROW; h++) {
                    floats value = load_halves(in + i + h * LANES) * f[h] + o[h];

                    if (other)
                        value += load_halves(other + i + h * LANES);
                    store_halves(out + i + h * LANES, relu ? rectified(value) : value);
                }
        }
}

/* The gradient with respect to batch norm's result at 16 numbers from i on: see struct
 * tile_norm_gradient. */
static inline __attribute__((always_inline)) floats
gradient_at(const struct tile_norm_gradient *g, int64_t i, floats x, floats factor, floats offset)
{
    floats dy = load_halves(g->dy + i);

    if (g->other)
        dy += load_halves(g->other + i);
    if (g->result)
        dy = where_positive(load_halves(g->result + i), dy);
    else if (g->factor)
        dy = where_positive(x * factor + offset, dy);
    return dy;
}

/* Sums up `rows` rows from number `first` on. Where the gradient is stored, the sums are those of
 * the stored, rounded numbers. */
static inline __attribute__((always_inline)) void
sum_rows(const uint16_t *x, const struct tile_norm_gradient *g, int64_t first, int64_t rows,
         const float *mean, int64_t c, double *total, double *total_x)
{
    for (int h = 0; h < HALVES_OF_ROW; h++) {
        floats center = load_floats(mean + c + h * LANES), s = {0}, q = {0};
        floats factor = g->factor ? load_floats(g->factor + c + h * LANES) : center;
        floats offset = g->factor ? load_floats(g->offset + c + h * LANES) : center;

        for (int64_t n = 0; n < rows; n++) {
            int64_t i = first + n * TILE_CHANNELS + h * LANES;
            floats value = load_halves(x + i), dy = gradient_at(g, i, value, factor, offset);

            if (g->masked) {
                store_halves(g->masked + i, dy);
                dy = load_halves(g->masked + i);
            }
            s += dy;
            q += dy * (value - center);
        }
        for (int k = 0; k < LANES; k++) {
            total[h * LANES + k] += s[k];
            total_x[h * LANES + k] += q[k];
        }
    }
}

void KERNEL_NAME(tile_norm_sums)(const uint16_t *x, const struct tile_norm_gradient *g,
                                 const struct tile_images *images, const float *mean, float *sum_dy,
                                 float *sum_dy_x)
{
    for (int64_t c = 0; c < images->channels; c += TILE_CHANNELS) {
        double total[TILE_CHANNELS] = {0}, total_x[TILE_CHANNELS] = {0};

        for (int64_t b = 0; b < tile_block_count(images->samples); b++) {
            struct tile_run run = run_of(images, b, c);

            for (int64_t start = 0; start < run.count; start += RUN)
                sum_rows(x, g, run.first + start * TILE_CHANNELS,
                         run.count - start < RUN ? run.count - start : RUN, mean, c, total,
                         total_x);
        }
        for (int k = 0; k < TILE_CHANNELS; k++) {
            sum_dy[c + k] = (float)total[k];
            sum_dy_x[c + k] = (float)total_x[k];
        }
    }
}

void KERNEL_NAME(tile_norm_gradient)(const uint16_t *x, const struct tile_norm_gradient *gradient,
                                     const struct tile_images *images, const float *mean,
                                     const float *a, const float *b, const float *e, uint16_t *dx)
{
    struct tile_norm_gradient g = *gradient;

    if (g.masked) /* as the pass of the sums stored it */
        g = (struct tile_norm_gradient){.dy = g.masked};
    for (int64_t k = 0; k < tile_block_count(images->samples); k++)
        for (int64_t c = 0; c < images->channels; c += LANES) {
            struct tile_run run = run_of(images, k, c - c % TILE_CHANNELS);
            floats center = load_floats(mean + c), ac = load_floats(a + c);
            floats bc = load_floats(b + c), ec = load_floats(e + c);
            floats factor = g.factor ? load_floats(g.factor + c) : center;
            floats offset = g.factor ? load_floats(g.offset + c) : center;

            for (int64_t n = 0; n < run.count; n++) {
                int64_t i = run.first + n * TILE_CHANNELS + c % TILE_CHANNELS;
                floats value = load_halves(x + i);
                floats dy = gradient_at(&g, i, value, factor, offset);

                store_halves(dx + i, dy * ac + (value - center) * bc + ec);
            }
        }
}

void KERNEL_NAME(tile_channel_sum)(const uint16_t *x, const struct tile_images *images, float *sum)
{
    for (int64_t c = 0; c < images->channels; c += LANES) {
        double total[LANES] = {0};

        for (int64_t b = 0; b < tile_block_count(images->samples); b++) {
            struct tile_run run = run_of(images, b, c - c % TILE_CHANNELS);

            for (int64_t start = 0; start < run.count; start += RUN) {
                int64_t rows = run.count - start < RUN ? run.count - start : RUN;
                floats s = {0};

                for (int64_t i = start; i < start + rows; i++)
                    s += load_halves(x + run.first + i * TILE_CHANNELS + c % TILE_CHANNELS);
                for (int k = 0; k < LANES; k++)
                    total[k] += s[k];
            }
        }
        for (int k = 0; k < LANES; k++)
            sum[c + k] = (float)total[k];
    }
}

/* ---- sums, ReLU ------------------------------------------------------------------------------ */

void KERNEL_NAME(tile_add)(const uint16_t *a, const uint16_t *b, uint16_t *y, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES)
        store_halves(y + i, load_halves(a + i) + load_halves(b + i));
}

void KERNEL_NAME(tile_relu)(const uint16_t *x, uint16_t *y, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES)
        store_halves(y + i, rectified(load_halves(x + i)));
}

void KERNEL_NAME(tile_relu_backward)(const uint16_t *dy, const uint16_t *y, uint16_t *dx,
                                     int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES)
        store_halves(dx + i, where_positive(load_halves(y + i), load_halves(dy + i)));
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Which rows or columns of x the window of y's position p covers: [first, end). */
struct window {
    int64_t start, first, end;
};

static struct window window_of(int64_t p, int64_t kernel, int64_t stride, int64_t padding,
                               int64_t extent)
{
    int64_t start = p * stride - padding;
    int64_t end = start + kernel < extent ? start + kernel : extent;

    return (struct window){start, start < 0 ? 0 : start, end};
}

/* Computes one pixel of a block, which is `width` numbers: the rows of the samples. */
static void max_pool_pixel(const uint16_t *x, const struct pool_shape *shape, struct window rows,
                           struct window columns, int64_t width, uint16_t *y, uint8_t *arg)
{
    for (int64_t i = 0; i < width; i += LANES) {
        floats best = {0};
        words where = {0};
        bool first = true;

        for (int64_t r = rows.first; r < rows.end; r++)
            for (int64_t c = columns.first; c < columns.end; c++) {
                floats value = load_halves(x + (r * shape->width + c) * width + i);
                words place = (words){0} +
                              (uint32_t)((r - rows.start) * shape->kernel[1] + c - columns.start);
                words better = (words)(value > best) | (words)(value != value);

                better = first ? ~(words){0} : better;
                best = (floats)(((words)value & better) | ((words)best & ~better));
                where = (place & better) | (where & ~better);
                first = false;
            }
        store_halves(y + i, best);
        for (int k = 0; k < LANES && arg; k++)
            arg[i + k] = (uint8_t)where[k];
    }
}

void KERNEL_NAME(tile_max_pool)(const uint16_t *x, const struct pool_shape *shape,
                                const struct tile_images *images, uint16_t *y, uint8_t *arg)
{
    struct tile_images small = *images;

    small.pixels = shape->out_height * shape->out_width;
    for (int64_t b = 0; b < tile_block_count(images->samples); b++)
        for (int64_t c = 0; c < images->channels; c += TILE_CHANNELS) {
            struct tile_run from = run_of(images, b, c), to = run_of(&small, b, c);
            int64_t width = from.count / images->pixels * TILE_CHANNELS, place = to.first;

            for (int64_t r = 0; r < shape->out_height; r++)
                for (int64_t k = 0; k < shape->out_width; k++, place += width)
                    max_pool_pixel(x + from.first, shape,
                                   window_of(r, shape->kernel[0], shape->stride[0],
                                             shape->padding[0], shape->height),
                                   window_of(k, shape->kernel[1], shape->stride[1],
                                             shape->padding[1], shape->width),
                                   width, y + place, arg ? arg + place : NULL);
        }
}

/* Pixel (r, c) of x gets the gradient of every window in which it was the maximum. */
static void max_pool_gradient(const uint16_t *dy, const uint8_t *arg,
                              const struct pool_shape *shape, int64_t r, int64_t c, int64_t width,
                              uint16_t *dx)
{
    for (int64_t i = 0; i < width; i += LANES) {
        floats sum = {0};

        for (int64_t a = 0; a < shape->kernel[0]; a++)
            for (int64_t b = 0; b < shape->kernel[1]; b++) {
                int64_t row = r + shape->padding[0] - a, column = c + shape->padding[1] - b;
                int64_t place =
                    ((row / shape->stride[0]) * shape->out_width + column / shape->stride[1]) *
                        width +
                    i;
                halves narrow = {0};

                if (row < 0 || column < 0 || row % shape->stride[0] || column % shape->stride[1] ||
                    row / shape->stride[0] >= shape->out_height ||
                    column / shape->stride[1] >= shape->out_width)
                    continue;
                for (int k = 0; k < LANES; k++)
                    narrow[k] = arg[place + k] == a * shape->kernel[1] + b ? dy[place + k] : 0;
                sum += (floats)(__builtin_convertvector(narrow, words) << 16);
            }
        store_halves(dx + i, sum);
    }
}

void KERNEL_NAME(tile_max_pool_backward)(const uint16_t *dy, const uint8_t *arg,
                                         const struct pool_shape *shape,
                                         const struct tile_images *images, uint16_t *dx)
{
    struct tile_images small = *images;

    small.pixels = shape->out_height * shape->out_width;
    for (int64_t b = 0; b < tile_block_count(images->samples); b++)
        for (int64_t c = 0; c < images->channels; c += TILE_CHANNELS) {
            struct tile_run to = run_of(images, b, c), from = run_of(&small, b, c);
            int64_t width = to.count / images->pixels * TILE_CHANNELS;

            for (int64_t p = 0; p < images->pixels; p++)
                max_pool_gradient(dy + from.first, arg + from.first, shape, p / shape->width,
                                  p % shape->width, width, dx + to.first + p * width);
        }
}

void KERNEL_NAME(tile_average)(const uint16_t *x, const struct tile_images *images, float *y)
{
    for (int64_t b = 0; b < tile_block_count(images->samples); b++)
        for (int64_t c = 0; c < images->channels; c += LANES) {
            struct tile_run run = run_of(images, b, c - c % TILE_CHANNELS);
            int64_t rows = run.count / images->pixels;
            const uint16_t *in = x + run.first + c % TILE_CHANNELS;
            float *out = y + tile_block_first(images->samples, b) * images->channels + c;

            for (int64_t r = 0; r < rows; r++) {
                floats sum = {0};

                for (int64_t p = 0; p < images->pixels; p++)
                    sum += load_halves(in + (p * rows + r) * TILE_CHANNELS);
                store_floats(out + r * images->channels, sum / (float)images->pixels);
            }
        }
}

void KERNEL_NAME(tile_average_backward)(const float *dy, const struct tile_images *images,
                                        uint16_t *dx)
{
    for (int64_t b = 0; b < tile_block_count(images->samples); b++)
        for (int64_t c = 0; c < images->channels; c += LANES) {
            struct tile_run run = run_of(images, b, c - c % TILE_CHANNELS);
            int64_t rows = run.count / images->pixels;
            uint16_t *out = dx + run.first + c % TILE_CHANNELS;
            const float *in = dy + tile_block_first(images->samples, b) * images->channels + c;

            for (int64_t i = 0; i < run.count; i++)
                store_halves(out + i * TILE_CHANNELS,
                             load_floats(in + i % rows * images->channels) / (float)images->pixels);
        }
}

/* ---- from and to float32 --------------------------------------------------------------------- */

/* The place of channel c, pixel p of sample n, counted from the first sample of block b. */
static int64_t place_of(const struct tile_images *images, struct tile_run run, int64_t n, int64_t c,
                        int64_t p)
{
    return run.first + (p * (run.count / images->pixels) + n) * TILE_CHANNELS + c % TILE_CHANNELS;
}

void KERNEL_NAME(tiles_to_plain)(const uint16_t *x, const struct tile_images *images, float *y)
{
    for (int64_t b = 0; b < tile_block_count(images->samples); b++) {
        int64_t first = tile_block_first(images->samples, b);

        for (int64_t n = first; n < tile_block_first(images->samples, b + 1); n++)
            for (int64_t c = 0; c < images->channels; c++) {
                struct tile_run run = run_of(images, b, c - c % TILE_CHANNELS);

                for (int64_t p = 0; p < images->pixels; p++) {
                    uint32_t bits = (uint32_t)x[place_of(images, run, n - first, c, p)] << 16;

                    memcpy(y + (n * images->channels + c) * images->pixels + p, &bits, sizeof bits);
                }
            }
    }
}

static uint16_t rounded_half(float x)
{
    uint16_t result[LANES];

    store_halves(result, (floats){0} + x);
    return result[0];
}

void KERNEL_NAME(plain_to_tiles)(const float *x, const struct tile_images *images, uint16_t *y)
{
    for (int64_t b = 0; b < tile_block_count(images->samples); b++) {
        int64_t first = tile_block_first(images->samples, b);

        for (int64_t n = first; n < tile_block_first(images->samples, b + 1); n++)
            for (int64_t c = 0; c < images->channels; c++) {
                struct tile_run run = run_of(images, b, c - c % TILE_CHANNELS);

                for (int64_t p = 0; p < images->pixels; p++)
                    y[place_of(images, run, n - first, c, p)] =
                        rounded_half(x[(n * images->channels + c) * images->pixels + p]);
            }
    }
}

/* Lists the numbers of one sample that pixel (r, c) of the result reads, in the order of the
 * weights, followed by zeros. */
static void unfold_pixel(const float *x, const struct tile_gradient *shape, int64_t r, int64_t c,
                         float *row)
{
    for (int64_t i = 0; i < shape->channels; i++)
        for (int64_t a = 0; a < shape->kernel[0]; a++)
            for (int64_t b = 0; b < shape->kernel[1]; b++) {
                int64_t y = r * shape->stride[0] - shape->padding[0] + a * shape->dilation[0];
                int64_t z = c * shape->stride[1] - shape->padding[1] + b * shape->dilation[1];
                bool inside = y >= 0 && y < shape->height && z >= 0 && z < shape->width;

                *row++ = inside ? x[(i * shape->height + y) * shape->width + z] : 0.0f;
            }
}

void KERNEL_NAME(tile_unfold)(const float *x, const struct tile_gradient *shape, int64_t samples,
                              uint16_t *y)
{
    int64_t depth = shape->channels * shape->kernel[0] * shape->kernel[1];
    struct tile_images images = {.samples = samples,
                                 .channels = tile_padded(depth),
                                 .pixels = shape->out_height * shape->out_width};
    int64_t sample = shape->channels * shape->height * shape->width;

    for (int64_t b = 0; b < tile_block_count(samples); b++) {
        int64_t first = tile_block_first(samples, b);
        int64_t rows = tile_block_first(samples, b + 1) - first;

        for (int64_t p = 0; p < images.pixels; p++)
            for (int64_t n = 0; n < rows; n++) {
                float row[TILE_UNFOLDED_MAX] = {0};

                unfold_pixel(x + (first + n) * sample, shape, p / shape->out_width,
                             p % shape->out_width, row);
                for (int64_t c = 0; c < images.channels; c += LANES)
                    store_halves(
                        y + place_of(&images, run_of(&images, b, c - c % TILE_CHANNELS), n, c, p),
                        load_floats(row + c));
            }
    }
}
