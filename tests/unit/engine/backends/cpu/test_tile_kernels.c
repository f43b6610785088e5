/* test_tile_kernels.c: convolutions of images in tiles of bfloat16 (kernels/tiles.h) and their
 * gradients, compared with sums in float64, for every level of the kernels that this machine
 * supports, with AMX if it has that. */
#include "engine/backends/cpu/program.h"
#include "tests/support/tiles.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint16_t half_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float float_of(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One block of samples through a layer whose kernel is square. */
struct layer {
    int64_t rows, channels, height, width, out_channels;
    int64_t kernel, stride, padding, dilation;
};

static const struct layer layers[] = {
    {16, 32, 5, 7, 64, 3, 1, 1, 1}, {5, 64, 7, 6, 32, 3, 2, 1, 1},   {16, 64, 6, 6, 64, 1, 2, 0, 1},
    {1, 32, 9, 8, 32, 5, 2, 2, 1},  {7, 32, 8, 9, 32, 3, 1, 2, 2},   {16, 96, 4, 4, 32, 1, 1, 0, 1},
    {15, 32, 3, 3, 64, 3, 3, 1, 1}, {16, 32, 40, 40, 32, 3, 1, 1, 1}};

struct layer_data {
    int64_t out_height, out_width, taps;
    int64_t x_count, y_count, w_count;
    uint16_t *x, *dy;
    float *w;                    /* [tap][out][in] */
    double *y, *dx, *dw;         /* y and dx have the layouts of x and dy */
    int32_t *forward, *backward; /* maps of rows, then of columns */
};

static int64_t place(int64_t pixels, int64_t rows, int64_t c, int64_t pixel, int64_t n)
{
    return ((c / TILE_CHANNELS * pixels + pixel) * rows + n) * TILE_CHANNELS + c % TILE_CHANNELS;
}

/* The pixel of x that tap (i, k) of pixel `pixel` of y reads, or -1. */
static int64_t source_pixel(const struct layer *l, const struct layer_data *d, int64_t pixel,
                            int64_t tap)
{
    int64_t r = pixel / d->out_width * l->stride - l->padding + tap / l->kernel * l->dilation;
    int64_t c = pixel % d->out_width * l->stride - l->padding + tap % l->kernel * l->dilation;

    return r < 0 || c < 0 || r >= l->height || c >= l->width ? -1 : r * l->width + c;
}

static void expect_layer(const struct layer *l, struct layer_data *d)
{
    int64_t pixels = d->out_height * d->out_width;

    for (int64_t n = 0; n < l->rows; n++)
        for (int64_t pixel = 0; pixel < pixels; pixel++)
            for (int64_t tap = 0; tap < d->taps; tap++) {
                int64_t source = source_pixel(l, d, pixel, tap);

                for (int64_t o = 0; source >= 0 && o < l->out_channels; o++) {
                    int64_t y = place(pixels, l->rows, o, pixel, n);
                    double dy = float_of(d->dy[y]);

                    for (int64_t i = 0; i < l->channels; i++) {
                        int64_t x = place(l->height * l->width, l->rows, i, source, n);
                        int64_t w = (tap * l->out_channels + o) * l->channels + i;

                        d->y[y] += (double)float_of(d->x[x]) * d->w[w];
                        d->dx[x] += dy * d->w[w];
                        d->dw[w] += dy * float_of(d->x[x]);
                    }
                }
            }
}

static void fill_map(const struct layer *l, bool backward, int64_t extent, int64_t source_extent,
                     int32_t *map)
{
    for (int64_t p = 0; p < extent; p++)
        for (int64_t k = 0; k < l->kernel; k++) {
            int64_t from = p * l->stride - l->padding + k * l->dilation;

            if (backward) {
                from = p + l->padding - k * l->dilation;
                from = from % l->stride ? -1 : from / l->stride;
            }
            *map++ = from < 0 || from >= source_extent ? -1 : (int32_t)from;
        }
}

static struct layer_data make_layer(const struct layer *l)
{
    struct layer_data d = {.taps = l->kernel * l->kernel};
    int64_t reach = (l->kernel - 1) * l->dilation + 1;

    d.out_height = (l->height + 2 * l->padding - reach) / l->stride + 1;
    d.out_width = (l->width + 2 * l->padding - reach) / l->stride + 1;
    d.x_count = l->rows * l->channels * l->height * l->width;
    d.y_count = l->rows * l->out_channels * d.out_height * d.out_width;
    d.w_count = d.taps * l->channels * l->out_channels;
    d.x = tiles_allocate((size_t)d.x_count * 2);
    d.dy = tiles_allocate((size_t)d.y_count * 2);
    d.w = tiles_allocate((size_t)d.w_count * 4);
    d.y = tiles_allocate((size_t)d.y_count * 8);
    d.dx = tiles_allocate((size_t)d.x_count * 8);
    d.dw = tiles_allocate((size_t)d.w_count * 8);
    for (int64_t i = 0; i < d.x_count; i++)
        d.x[i] = half_of(tiles_draw());
    for (int64_t i = 0; i < d.y_count; i++)
        d.dy[i] = half_of(tiles_draw());
    for (int64_t i = 0; i < d.w_count; i++)
        d.w[i] = tiles_draw();
    d.forward = tiles_allocate((size_t)((d.out_height + d.out_width) * l->kernel) * 4);
    d.backward = tiles_allocate((size_t)((l->height + l->width) * l->kernel) * 4);
    fill_map(l, false, d.out_height, l->height, d.forward);
    fill_map(l, false, d.out_width, l->width, d.forward + d.out_height * l->kernel);
    fill_map(l, true, l->height, d.out_height, d.backward);
    fill_map(l, true, l->width, d.out_width, d.backward + l->height * l->kernel);
    expect_layer(l, &d);
    return d;
}

static void free_layer(struct layer_data *d)
{
    free(d->x);
    free(d->dy);
    free(d->w);
    free(d->y);
    free(d->dx);
    free(d->dw);
    free(d->forward);
    free(d->backward);
}

static uint16_t *pack(const struct kernels *kernels, const struct layer *l,
                      const struct layer_data *d, bool backward)
{
    int64_t from = backward ? l->out_channels : l->channels;
    int64_t to = backward ? l->channels : l->out_channels;
    uint16_t *packed = tiles_allocate((size_t)d->w_count * 2), *unit = packed;

    for (int64_t t = 0; t < to; t += TILE_CHANNELS)
        for (int64_t tap = 0; tap < d->taps; tap++)
            for (int64_t f = 0; f < from; f += TILE_CHANNELS, unit += 2 * TILE_ELEMENTS) {
                int64_t o = backward ? f : t, i = backward ? t : f;

                kernels->tile_pack_weights(d->w + (tap * l->out_channels + o) * l->channels + i,
                                           l->channels, TILE_CHANNELS, backward, unit);
            }
    return packed;
}

/* Compares `what` with the sums: relative to the largest value, within half a unit of bfloat16's
 * last place and a little more. */
static void expect_images(const struct kernels *kernels, const struct layer *l, const char *what,
                          const double *expected, const uint16_t *found, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(expected[i] - float_of(found[i])) <= 0x1.02p-8 * fabs(expected[i]) + 1e-4))
            fail_msg("%s, %s of layer %d: %g at %lld, not %g", kernels->level, what,
                     (int)(l - layers), (double)float_of(found[i]), (long long)i, expected[i]);
}

static void check_convolution(const struct kernels *kernels, const struct layer *l,
                              const struct layer_data *d, bool amx)
{
    struct tile_convolution forward = {.height = l->height,
                                       .width = l->width,
                                       .channels = l->channels,
                                       .out_height = d->out_height,
                                       .out_width = d->out_width,
                                       .out_channels = l->out_channels,
                                       .kernel = {l->kernel, l->kernel},
                                       .row_map = d->forward,
                                       .column_map = d->forward + d->out_height * l->kernel,
                                       .column_step = 1,
                                       .amx = amx};
    struct tile_convolution backward = {.height = d->out_height,
                                        .width = d->out_width,
                                        .channels = l->out_channels,
                                        .out_height = l->height,
                                        .out_width = l->width,
                                        .out_channels = l->channels,
                                        .kernel = {l->kernel, l->kernel},
                                        .row_map = d->backward,
                                        .column_map = d->backward + l->height * l->kernel,
                                        .column_step = l->stride,
                                        .amx = amx};
    uint16_t *packed = pack(kernels, l, d, false), *transposed = pack(kernels, l, d, true);
    uint16_t *y = tiles_allocate((size_t)d->y_count * 2),
             *dx = tiles_allocate((size_t)d->x_count * 2);
    void *scratch = tiles_allocate((size_t)kernels->tile_convolve_scratch(&forward));
    void *other = tiles_allocate((size_t)kernels->tile_convolve_scratch(&backward));

    kernels->tile_convolve(&forward, d->x, packed, NULL, l->rows, scratch, y);
    expect_images(kernels, l, "y", d->y, y, d->y_count);
    kernels->tile_convolve(&backward, d->dy, transposed, NULL, l->rows, other, dx);
    expect_images(kernels, l, "dx", d->dx, dx, d->x_count);
    free(packed);
    free(transposed);
    free(y);
    free(dx);
    free(scratch);
    free(other);
}

static void check_gradient(const struct kernels *kernels, const struct layer *l,
                           const struct layer_data *d, bool amx)
{
    struct tile_gradient gradient = {.height = l->height,
                                     .width = l->width,
                                     .channels = l->channels,
                                     .out_height = d->out_height,
                                     .out_width = d->out_width,
                                     .out_channels = l->out_channels,
                                     .kernel = {l->kernel, l->kernel},
                                     .stride = {l->stride, l->stride},
                                     .padding = {l->padding, l->padding},
                                     .dilation = {l->dilation, l->dilation},
                                     .amx = amx};
    float *dw = tiles_allocate((size_t)d->w_count * 4);
    void *scratch = tiles_allocate((size_t)kernels->tile_gradient_scratch(&gradient));

    for (int times = 1; times <= 2; times++) { /* the second time added to the first */
        kernels->tile_convolve_weights(&gradient, d->x, d->dy, l->rows, times > 1, scratch, dw);
        for (int64_t i = 0; i < d->w_count; i++)
            if (!(fabs(times * d->dw[i] - dw[i]) <= 1e-5 * (double)(d->y_count / l->out_channels)))
                fail_msg("%s, dw of layer %d: %g at %lld, not %g", kernels->level,
                         (int)(l - layers), (double)dw[i], (long long)i, times * d->dw[i]);
    }
    free(dw);
    free(scratch);
}

static void test_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        struct layer_data data = make_layer(&layers[i]);

        for (int k = 0; kernels_available()[k]; k++)
            for (int amx = 0; amx <= (k == 0 && tiles_have_amx()); amx++) {
                check_convolution(kernels_available()[k], &layers[i], &data, amx);
                check_gradient(kernels_available()[k], &layers[i], &data, amx);
            }
        free_layer(&data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
