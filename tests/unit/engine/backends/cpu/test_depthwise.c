/* test_depthwise.c: every level of the kernels for depthwise convolutions that this machine
 * supports, compared with loops in double precision: each layout, strips of every width, images
 * smaller than the kernel, and strides that skip pixels. */
#include "base/philox.h"
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct kernels *k;

static const struct {
    int64_t channels, block;
    struct pool_shape shape;
} cases[] = {
    {93, 93, {7, 6, 7, 6, {3, 3}, {1, 1}, {1, 1}}}, /* strips of 64, 16, 8 and 1 */
    {93, 93, {2, 2, 2, 2, {5, 5}, {1, 1}, {2, 2}}}, /* most of the window is outside */
    {93, 93, {1, 1, 1, 1, {5, 5}, {1, 1}, {2, 2}}}, /* a single tap */
    {16, 16, {9, 8, 5, 4, {5, 5}, {2, 2}, {2, 2}}}, /* one block is all channels */
    {32, 16, {8, 9, 4, 3, {3, 5}, {2, 3}, {1, 1}}}, /* blocks of 16 */
    {24, 8, {8, 8, 2, 2, {3, 3}, {4, 4}, {0, 0}}},  /* pixels that no window reaches */
    {3, 1, {6, 5, 6, 5, {3, 3}, {1, 1}, {1, 1}}},   /* plain */
    {40, 40, {8, 8, 1, 1, {3, 3}, {8, 8}, {1, 1}}}, /* pixels far behind the last window */
    {12, 12, {4, 4, 5, 5, {4, 4}, {1, 1}, {2, 2}}}, /* an even kernel: larger than x */
};

enum { SAMPLES = 3 };

static float *spread(int64_t count, uint64_t seed)
{
    float *values = malloc((size_t)count * sizeof(float));

    for (int64_t i = 0; i < count; i++)
        values[i] = 2 * philox_uniform(philox_draw(seed, 1, (uint64_t)i).word[0]) - 1;
    return values;
}

static int64_t place(int64_t piece_count, int64_t piece, int64_t pixels, int64_t pixel,
                     int64_t block, int64_t n, int64_t c)
{
    return ((n * piece_count + piece) * pixels + pixel) * block + c;
}

/* Computes the results that the three kernels must have for x, dy and the weights. */
static void expected_results(const struct image_layout *l, const struct pool_shape *s,
                             const float *x, const float *weight, const float *dy, double *y,
                             double *dx, double *dweight)
{
    int64_t pieces = l->channels / l->block, out = s->out_height * s->out_width;

    for (int64_t i = 0; i < SAMPLES * pieces * out * s->kernel[0] * s->kernel[1]; i++) {
        int64_t kw = i % s->kernel[1], kh = i / s->kernel[1] % s->kernel[0];
        int64_t pixel = i / (s->kernel[0] * s->kernel[1]) % out;
        int64_t piece = i / (s->kernel[0] * s->kernel[1]) / out % pieces;
        int64_t n = i / (s->kernel[0] * s->kernel[1]) / out / pieces;
        int64_t h = pixel / s->out_width * s->stride[0] - s->padding[0] + kh;
        int64_t w = pixel % s->out_width * s->stride[1] - s->padding[1] + kw;

        if (h < 0 || h >= s->height || w < 0 || w >= s->width)
            continue;
        for (int64_t c = 0; c < l->block; c++) {
            int64_t at_x = place(pieces, piece, l->pixels, h * s->width + w, l->block, n, c);
            int64_t at_y = place(pieces, piece, out, pixel, l->block, n, c);
            int64_t at_w = place(pieces, piece, s->kernel[0] * s->kernel[1], kh * s->kernel[1] + kw,
                                 l->block, 0, c);

            y[at_y] += (double)x[at_x] * weight[at_w];
            dx[at_x] += (double)dy[at_y] * weight[at_w];
            dweight[at_w] += (double)dy[at_y] * x[at_x];
        }
    }
}

static void expect_all(const char *what, size_t number, const float *values, const double *expected,
                       int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(values[i] - expected[i]) <= 3e-6 * (1 + fabs(expected[i]))))
            fail_msg("kernels %s, case %zu: %s[%lld] is %.9g instead of %.9g", k->level, number,
                     what, (long long)i, values[i], expected[i]);
}

static void check_case(size_t number)
{
    const struct pool_shape *s = &cases[number].shape;
    struct image_layout l = {SAMPLES, cases[number].channels, s->height * s->width,
                             cases[number].block};
    int64_t in = SAMPLES * l.channels * l.pixels;
    int64_t out = SAMPLES * l.channels * s->out_height * s->out_width;
    int64_t weights = l.channels * s->kernel[0] * s->kernel[1];
    float *x = spread(in, 1), *weight = spread(weights, 2), *dy = spread(out, 3);
    float *bias = spread(l.channels, 4),
          *got = malloc((size_t)(in + out + weights) * sizeof(float));
    float *dbias = malloc((size_t)l.channels * sizeof(float));
    double *y = calloc((size_t)out, sizeof(double)), *dx = calloc((size_t)in, sizeof(double));
    double *dweight = calloc((size_t)weights, sizeof(double));
    double *sum = calloc((size_t)l.channels, sizeof(double));

    expected_results(&l, s, x, weight, dy, y, dx, dweight);
    k->depthwise_forward(x, weight, NULL, false, s, &l, got);
    expect_all("y", number, got, y, out);
    for (int64_t i = 0; i < out; i++) {
        int64_t channel =
            i / (s->out_height * s->out_width * l.block) % (l.channels / l.block) * l.block +
            i % l.block;

        y[i] = fmax(y[i] + bias[channel], 0);
        sum[channel] += dy[i];
    }
    k->depthwise_forward(x, weight, bias, true, s, &l, got);
    expect_all("max(y + bias, 0)", number, got, y, out);
    k->depthwise_backward_data(dy, weight, s, &l, got);
    expect_all("dx", number, got, dx, in);
    k->depthwise_backward_weights(x, dy, s, &l, got, dbias);
    expect_all("dweight", number, got, dweight, weights);
    expect_all("dbias", number, dbias, sum, l.channels);
    free(x);
    free(weight);
    free(dy);
    free(bias);
    free(got);
    free(dbias);
    free(y);
    free(dx);
    free(dweight);
    free(sum);
}

static void test_cases(void **state)
{
    (void)state;
    for (int level = 0; (k = kernels_available()[level]); level++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            check_case(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
