/* test_selective_scan.c: the scan and the causal convolution, forward and all gradients, against
 * plain sequential loops in float64 that follow the formulas
 * (engine/graph/operators/selective_scan.c, causal_conv1d.c), on every instruction set. A number
 * may be off by 1e-5 of the largest of its array, or of 1. */
#include "base/philox.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/graph/forward.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 1e-5;

struct shape {
    int64_t length, channels, states;
    bool gate, reverse;
};

/* The arrays of a scan, in the order of struct scan_task. */
enum array {
    U,
    DELTA,
    Z,
    B,
    C,
    A,
    D,
    DY,
    INPUTS,
    Y = INPUTS,
    DU,
    DDELTA,
    DZ,
    DB,
    DC,
    DA,
    DD,
    ARRAYS
};
static const char *const names[] = {"u", "delta", "z",      "B",  "C",  "A",  "D",  "dy",
                                    "y", "du",    "ddelta", "dz", "dB", "dC", "dA", "dD"};

static int64_t elements(const struct shape *shape, int array)
{
    switch (array) {
    case B:
    case C:
    case DB:
    case DC:
        return shape->length * shape->states;
    case A:
    case DA:
        return shape->channels * shape->states;
    case D:
    case DD:
        return shape->channels;
    default:
        return shape->length * shape->channels;
    }
}

static float *allocate(int64_t count)
{
    float *values = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);

    assert_non_null(values);
    memset(values, 0, (size_t)count * sizeof(float));
    return values;
}

/* From -1 to 1. */
static float draw(int array, int64_t index)
{
    struct philox bits =
        philox_draw((uint64_t)array, philox_stream(PHILOX_TEST, 7), (uint64_t)index);

    return 2.0f * philox_uniform(bits.word[0]) - 1.0f;
}

/* A is negative, and some steps are long: delta reaches 3. */
static void fill(const struct shape *shape, int array, float *values)
{
    for (int64_t i = 0; i < elements(shape, array); i++) {
        values[i] = draw(array, i);
        if (array == A)
            values[i] = -0.1f - 4.0f * fabsf(values[i]);
        if (array == DELTA)
            values[i] *= 3.0f;
    }
}

/* h[t] and the results in float64; h has room for length + 1 steps of [state][channel], of which
 * the first is zero. `time` is the step as it lies in memory. */
static double scan_reference_step(const struct shape *s, float *const in[], const double *before,
                                  double *after, int64_t time, int64_t c)
{
    double step = log1p(exp((double)in[DELTA][time * s->channels + c]));
    double u = in[U][time * s->channels + c], sum = (double)in[D][c] * u;

    for (int64_t n = 0; n < s->states; n++) {
        int64_t at = n * s->channels + c;

        after[at] = exp(step * (double)in[A][at]) * before[at] +
                    step * u * (double)in[B][time * s->states + n];
        sum += (double)in[C][time * s->states + n] * after[at];
    }
    return sum;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void scan_reference_back(const struct shape *s, float *const in[], double *out[],
                                const double *before, const double *after, double sum, double *g,
                                int64_t time, int64_t c)
{
    const int64_t at = time * s->channels + c;
    double delta = in[DELTA][at], step = log1p(exp(delta)), u = in[U][at];
    double dy = in[DY][at], dstep = 0, du;

    if (s->gate) {
        double z = in[Z][at], sz = sigmoid(z);

        out[DZ][at] = dy * sum * sz * (1 + z * (1 - sz));
        dy *= z * sz;
    }
    du = dy * (double)in[D][c];
    out[DD][c] += dy * u;
    for (int64_t n = 0; n < s->states; n++) {
        const int64_t state = n * s->channels + c, coefficient = time * s->states + n;
        double a = in[A][state], b = in[B][coefficient], decay = exp(step * a);
        double dh = g[state] + dy * (double)in[C][coefficient];

        out[DC][coefficient] += dy * after[state];
        out[DB][coefficient] += dh * step * u;
        du += dh * step * b;
        dstep += dh * (u * b + decay * a * before[state]);
        out[DA][state] += dh * decay * step * before[state];
        g[state] = dh * decay;
    }
    out[DU][at] = du;
    out[DDELTA][at] = dstep * sigmoid(delta);
}

static void scan_reference(const struct shape *s, float *const in[], double *out[])
{
    const int64_t size = s->channels * s->states;
    double *h = calloc((size_t)((s->length + 1) * size), sizeof *h);
    double *g = calloc((size_t)size, sizeof *g);
    double *sums = calloc((size_t)(s->length * s->channels), sizeof *sums);

    assert_non_null(h);
    assert_non_null(g);
    assert_non_null(sums);
    for (int64_t t = 0; t < s->length; t++)
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t time = s->reverse ? s->length - 1 - t : t, at = time * s->channels + c;
            double z = in[Z][at];

            sums[at] = scan_reference_step(s, in, h + t * size, h + (t + 1) * size, time, c);
            out[Y][at] = sums[at] * (s->gate ? z * sigmoid(z) : 1);
        }
    for (int64_t t = s->length; t-- > 0;)
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t time = s->reverse ? s->length - 1 - t : t;

            scan_reference_back(s, in, out, h + t * size, h + (t + 1) * size,
                                sums[time * s->channels + c], g, time, c);
        }
    free(h);
    free(g);
    free(sums);
}

static void compare(const char *name, const char *level, const float *values,
                    const double *expected, int64_t count)
{
    double largest = 1;

    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)values[i] - expected[i]) <= tolerance * largest))
            fail_msg("%s, %s[%lld]: %.9g instead of %.9g", level, name, (long long)i,
                     (double)values[i], expected[i]);
}

static struct scan_task scan_task_of(const struct shape *shape, float *const *a, float *kept,
                                     float *scratch)
{
    return (struct scan_task){.length = shape->length,
                              .channels = shape->channels,
                              .row = shape->channels,
                              .states = shape->states,
                              .reverse = shape->reverse,
                              .u = a[U],
                              .delta = a[DELTA],
                              .z = shape->gate ? a[Z] : NULL,
                              .b = a[B],
                              .c = a[C],
                              .a = a[A],
                              .d = a[D],
                              .kept = kept,
                              .y = a[Y],
                              .dy = a[DY],
                              .du = a[DU],
                              .ddelta = a[DDELTA],
                              .dz = shape->gate ? a[DZ] : NULL,
                              .db = a[DB],
                              .dc = a[DC],
                              .da = a[DA],
                              .dd = a[DD],
                              .scratch = scratch};
}

static void check_scan(const struct kernels *kernels, const struct shape *shape)
{
    int64_t chunks = (shape->length + SCAN_CHUNK - 1) / SCAN_CHUNK;
    float *arrays[ARRAYS], *kept = allocate(chunks * shape->states * shape->channels);
    float *scratch = allocate(scan_scratch_floats(shape->states, shape->channels));
    double *expected[ARRAYS];
    struct scan_task task;

    for (int i = 0; i < ARRAYS; i++) {
        arrays[i] = allocate(elements(shape, i));
        expected[i] = calloc((size_t)elements(shape, i), sizeof(double));
        assert_non_null(expected[i]);
        if (i < INPUTS)
            fill(shape, i, arrays[i]);
    }
    scan_reference(shape, arrays, expected);
    task = scan_task_of(shape, arrays, kept, scratch);
    kernels->selective_scan(&task);
    kernels->selective_scan_backward(&task);
    for (int i = Y; i < ARRAYS; i++)
        if (shape->gate || i != DZ)
            compare(names[i], kernels->level, arrays[i], expected[i], elements(shape, i));
    for (int i = 0; i < ARRAYS; i++) {
        free(arrays[i]);
        free(expected[i]);
    }
    free(kept);
    free(scratch);
}

static void test_scan(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 1, false, false},    {5, 3, 2, true, false},     {31, 16, 16, true, true},
        {32, 8, 8, false, true},    {33, 17, 9, true, false},   {100, 40, 16, true, true},
        {257, 32, 16, true, false}, {70, 64, 24, false, false},
    };

    (void)state;
    for (int level = 0; kernels_available()[level]; level++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            check_scan(kernels_available()[level], &shapes[i]);
}

/* ---- causal convolution ---------------------------------------------------------------------- */

struct conv_shape {
    int64_t length, channels;
    int kernel;
    bool silu, reverse;
};

/* The result of step t in the order of the walk, without its activation. */
static double convolve(const struct conv_shape *s, const float *x, const float *weight,
                       const float *bias, int64_t t, int64_t c)
{
    double sum = bias[c];

    for (int k = 0; k < s->kernel; k++) {
        int64_t from = t - (s->kernel - 1) + k;
        int64_t time = s->reverse ? s->length - 1 - from : from;

        if (from >= 0)
            sum += (double)weight[c * s->kernel + k] * (double)x[time * s->channels + c];
    }
    return sum;
}

static void check_convolution(const struct kernels *kernels, const struct conv_shape *s)
{
    const int64_t count = s->length * s->channels, weights = s->channels * s->kernel;
    float *x = allocate(count), *y = allocate(count), *dy = allocate(count), *dx = allocate(count);
    float *weight = allocate(weights), *dweight = allocate(weights);
    float *bias = allocate(s->channels), *dbias = allocate(s->channels);
    double *ey = calloc((size_t)count, sizeof *ey), *edx = calloc((size_t)count, sizeof *edx);
    double *edw = calloc((size_t)weights, sizeof *edw);
    double *edb = calloc((size_t)s->channels, sizeof *edb);
    struct causal_conv_task task = {s->length, s->channels, s->channels, s->kernel, s->reverse,
                                    s->silu,   x,           weight,      bias,      y,
                                    dy,        dx,          dweight,     dbias};

    for (int64_t i = 0; i < count; i++) {
        x[i] = draw(0, i);
        dy[i] = draw(1, i);
    }
    for (int64_t i = 0; i < weights; i++)
        weight[i] = draw(2, i);
    for (int64_t i = 0; i < s->channels; i++)
        bias[i] = draw(3, i);
    for (int64_t t = 0; t < s->length; t++)
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t at = (s->reverse ? s->length - 1 - t : t) * s->channels + c;
            double sum = convolve(s, x, weight, bias, t, c), p = sigmoid(sum);
            double d = (double)dy[at] * (s->silu ? p * (1 + sum * (1 - p)) : 1);

            ey[at] = s->silu ? sum * p : sum;
            edb[c] += d;
            for (int k = 0; k < s->kernel; k++) {
                int64_t from = t - (s->kernel - 1) + k;
                int64_t place = (s->reverse ? s->length - 1 - from : from) * s->channels + c;

                if (from < 0)
                    continue;
                edx[place] += d * (double)weight[c * s->kernel + k];
                edw[c * s->kernel + k] += d * (double)x[place];
            }
        }
    kernels->causal_conv(&task);
    kernels->causal_conv_backward(&task);
    compare("y", kernels->level, y, ey, count);
    compare("dx", kernels->level, dx, edx, count);
    compare("dweight", kernels->level, dweight, edw, weights);
    compare("dbias", kernels->level, dbias, edb, s->channels);
    for (size_t i = 0; i < 8; i++)
        free((float *[]){x, y, dy, dx, weight, dweight, bias, dbias}[i]);
    for (size_t i = 0; i < 4; i++)
        free((double *[]){ey, edx, edw, edb}[i]);
}

static void test_convolution(void **state)
{
    static const struct conv_shape shapes[] = {
        {1, 1, 4, true, false},    {3, 5, 4, false, true},   {64, 16, 4, true, true},
        {65, 16, 4, true, false},  {200, 24, 3, true, true}, {61, 33, 16, false, false},
        {2, 16, 16, true, false},  {13, 36, 4, true, false}, {70, 100, 4, true, true},
        {130, 16, 1, true, false},
    };

    (void)state;
    for (int level = 0; kernels_available()[level]; level++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            check_convolution(kernels_available()[level], &shapes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_convolution),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
