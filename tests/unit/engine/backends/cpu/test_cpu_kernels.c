/* test_cpu_kernels.c: every level of the CPU backend's kernels that this machine supports, compared
 * with loops in double precision. (test_cpu_operators covers optimizers and pooling.) */
#include "base/philox.h"
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 4099 }; /* a multiple of no vector's length */

static const struct kernels *k;

static float *spread(int64_t count, float low, float high)
{
    float *values = malloc((size_t)count * sizeof(float));

    for (int64_t i = 0; i < count; i++)
        values[i] = low + (high - low) * philox_uniform(philox_draw(1, 1, (uint64_t)i).word[0]);
    return values;
}

static void expect_near(double value, double expected, double scale, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * scale))
        fail_msg("kernels %s: %.9g instead of %.9g", k->level, value, expected);
}

static double activate(enum activation_kind kind, double x)
{
    switch (kind) {
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_GELU:
        return x * 0.5 * erfc(-x * M_SQRT1_2);
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case ACTIVATION_HARDSWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_HARDSIGMOID:
        return fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_RELU6:
        return fmin(fmax(x, 0), 6);
    case ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_MISH:
        return x * tanh(log1p(exp(x)));
    case ACTIVATION_SOFTPLUS:
        return log1p(exp(x));
    }
    return NAN;
}

/* Whether the derivative jumps within h of x. */
static bool has_kink(enum activation_kind kind, double x, double h)
{
    bool hard = kind == ACTIVATION_HARDSWISH || kind == ACTIVATION_HARDSIGMOID;

    return (kind == ACTIVATION_RELU && fabs(x) <= h) || (hard && fabs(fabs(x) - 3) <= h) ||
           (kind == ACTIVATION_RELU6 && fabs(fabs(x - 3) - 3) <= h);
}

/* Forward over [-20, 20] and near 0, relative to the value (GELU: to at least 0.5, because in its
 * far tail 1 + erf is the difference of nearly equal numbers, as in PyTorch). Backward against a
 * central difference. */
static void test_activations(void **state)
{
    (void)state;
    for (int kind = ACTIVATION_RELU; kind <= ACTIVATION_SOFTPLUS; kind++)
        for (int range = 0; range < 2; range++) {
            float *x = spread(COUNT, range ? -0.01f : -20, range ? 0.01f : 20);
            float *y = malloc(COUNT * sizeof(float)), *dx = malloc(COUNT * sizeof(float));
            bool saves_x = kind == ACTIVATION_SILU || kind == ACTIVATION_GELU ||
                           kind == ACTIVATION_HARDSWISH || kind >= ACTIVATION_GELU_TANH;

            k->activation_forward((enum activation_kind)kind, x, y, COUNT);
            for (int i = 0; i < COUNT; i++) {
                double expected = activate((enum activation_kind)kind, x[i]);
                bool gelu = kind == ACTIVATION_GELU || kind == ACTIVATION_GELU_TANH;
                double floor = gelu && range == 0 ? 0.5 : 1e-30;
                expect_near(y[i], expected, fmax(fabs(expected), floor), 2e-6);
            }
            for (int i = 0; i < COUNT; i++)
                dx[i] = 3; /* dy, in place */
            k->activation_backward((enum activation_kind)kind, dx, saves_x ? x : y, dx, COUNT);
            for (int i = 0; i < COUNT; i++) {
                double h = 1e-5, xi = x[i];
                double slope = (activate((enum activation_kind)kind, xi + h) -
                                activate((enum activation_kind)kind, xi - h)) /
                               (2 * h);
                if (!has_kink((enum activation_kind)kind, xi, h))
                    expect_near(dx[i], 3 * slope, 1, 4e-6);
            }
            free(x);
            free(y);
            free(dx);
        }
}

static void test_special_values(void **state)
{
    float x[5] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f}, y[5];

    (void)state;
    for (int kind = ACTIVATION_RELU; kind <= ACTIVATION_SOFTPLUS; kind++) {
        bool bounded =
            kind == ACTIVATION_TANH || kind == ACTIVATION_SIGMOID || kind == ACTIVATION_HARDSIGMOID;

        k->activation_forward((enum activation_kind)kind, x, y, 5);
        assert_true(isnan(y[0]));
        assert_false(isnan(y[3]));
        assert_true(y[3] == (kind == ACTIVATION_RELU6 ? 6.0f : bounded ? 1.0f : 1e30f));
        assert_true(y[4] == (kind == ACTIVATION_TANH ? -1.0f : 0.0f));
    }
}

static void test_sums(void **state)
{
    enum { ROWS = 37, COLUMNS = 71, STRIDE = 75, PARTS = 7 };
    float *x = spread(ROWS * STRIDE, -1, 2), sum[COLUMNS], y[COLUMNS];

    (void)state;
    for (int c = 0; c < COLUMNS; c++)
        sum[c] = 5;
    k->column_sum(x, ROWS, COLUMNS, STRIDE, sum, true);
    for (int c = 0; c < COLUMNS; c++) {
        double expected = 5;
        for (int r = 0; r < ROWS; r++)
            expected += x[r * STRIDE + c];
        expect_near(sum[c], expected, fabs(expected), 1e-6);
    }
    for (int parts = 1; parts <= PARTS; parts++) {
        k->partials_sum(x, parts, STRIDE, y, COLUMNS, false);
        for (int c = 0; c < COLUMNS; c++) {
            double expected = 0;
            for (int p = 0; p < parts; p++)
                expected += x[p * STRIDE + c];
            expect_near(y[c], expected, 2 * parts, 1e-7);
        }
    }
    double squares = 0;
    for (int i = 0; i < COUNT / 2; i++)
        squares += (double)x[i] * x[i];
    expect_near(k->squares_sum(x, COUNT / 2), squares, squares, 1e-12);
    free(x);
}

static void test_cross_entropy(void **state)
{
    enum { ROWS = 29 };
    static const int classes[] = {2, 3, 10, 97};

    (void)state;
    for (size_t s = 0; s < sizeof classes / sizeof classes[0]; s++) {
        int n = classes[s];
        float *x = spread(ROWS * n, -30, 30), *d = malloc((size_t)(ROWS * n) * sizeof(float));
        float log_sum_exp[ROWS];
        int32_t label[ROWS];
        double loss, expected = 0;
        int64_t correct = 0, expected_correct = 0;

        for (int r = 0; r < ROWS; r++)
            label[r] = r % n;
        x[n] = x[n + 1] = 40; /* a tie: the first one counts, and the label of row 1 is 1 */
        loss = k->cross_entropy_forward(x, label, log_sum_exp, ROWS, n, &correct, NULL);
        k->cross_entropy_backward(x, label, log_sum_exp, d, ROWS, n, 0.5f);
        for (int r = 0; r < ROWS; r++) {
            double sum = 0;
            int best = 0;
            for (int c = 0; c < n; c++) {
                sum += exp(x[r * n + c]);
                best = x[r * n + c] > x[r * n + best] ? c : best;
            }
            expected += log(sum) - x[r * n + label[r]];
            expected_correct += best == label[r];
            for (int c = 0; c < n; c++)
                expect_near(d[r * n + c], 0.5 * (exp(x[r * n + c]) / sum - (c == label[r])), 1,
                            2e-6);
        }
        expect_near(loss, expected, expected, 1e-6);
        assert_int_equal(correct, expected_correct);
        label[3] = n;
        assert_true(
            isnan(k->cross_entropy_forward(x, label, log_sum_exp, ROWS, n, &correct, NULL)));
        label[3] = -1;
        assert_true(
            isnan(k->cross_entropy_forward(x, label, log_sum_exp, ROWS, n, &correct, NULL)));
        int64_t counted = 0;
        double some = k->cross_entropy_forward(x, label, log_sum_exp, ROWS, n, &correct, &counted);

        label[3] = 3 % n;
        loss = k->cross_entropy_forward(x + 3 * n, label + 3, log_sum_exp, 1, n, &correct, NULL);
        expect_near(some, expected - loss, expected, 1e-6);
        assert_int_equal(counted, ROWS - 1);
        label[3] = -1;
        k->cross_entropy_backward(x, label, log_sum_exp, d, ROWS, n, 0.5f);
        for (int c = 0; c < n; c++)
            assert_true(d[3 * n + c] == 0);
        free(x);
        free(d);
    }
}

/* Probabilities of 0 and 1 are labels; of equal probabilities the first one counts. */
static void test_soft_cross_entropy(void **state)
{
    enum { ROWS = 29, CLASSES = 13 };
    float *x = spread(ROWS * CLASSES, -30, 30), probability[ROWS * CLASSES] = {0};
    float hard_sum[ROWS], soft_sum[ROWS], hard[ROWS * CLASSES], soft[ROWS * CLASSES];
    int32_t label[ROWS];
    int64_t hard_correct = 0, soft_correct = 0;
    double loss;

    (void)state;
    for (int r = 0; r < ROWS; r++) {
        label[r] = r % CLASSES;
        probability[r * CLASSES + label[r]] = 1;
    }
    loss = k->cross_entropy_forward(x, label, hard_sum, ROWS, CLASSES, &hard_correct, NULL);
    expect_near(
        k->soft_cross_entropy_forward(x, probability, soft_sum, ROWS, CLASSES, &soft_correct), loss,
        loss, 1e-6);
    assert_int_equal(soft_correct, hard_correct);
    assert_memory_equal(soft_sum, hard_sum, sizeof soft_sum);
    k->cross_entropy_backward(x, label, hard_sum, hard, ROWS, CLASSES, 0.5f);
    k->soft_cross_entropy_backward(x, probability, soft_sum, soft, ROWS, CLASSES, 0.5f);
    for (int i = 0; i < ROWS * CLASSES; i++)
        expect_near(soft[i], hard[i], 1, 1e-6);

    float logits[2][2] = {{2, 1}, {1, 2}}, even[2][2] = {{0.5f, 0.5f}, {0.5f, 0.5f}};

    soft_correct = 0;
    loss = k->soft_cross_entropy_forward(logits[0], even[0], soft_sum, 2, 2, &soft_correct);
    assert_int_equal(soft_correct, 1);
    logits[1][0] = NAN;
    assert_true(
        isnan(k->soft_cross_entropy_forward(logits[0], even[0], soft_sum, 2, 2, &soft_correct)));
    free(x);
}

static int64_t place(const struct image_layout *l, int64_t n, int64_t c, int64_t p)
{
    return ((n * (l->channels / l->block) + c / l->block) * l->pixels + p) * l->block +
           c % l->block;
}

/* Values around 1000 with a deviation of 1: with a one-pass sum of squares the variance would be
 * lost. */
static void test_batch_norm(void **state)
{
    static const struct image_layout layouts[] = {
        {5, 3, 49, 1},   {5, 16, 49, 8},  {4, 32, 9, 16},   {33, 21, 1, 21},
        {33, 40, 1, 40}, {5, 24, 49, 24}, {3, 300, 25, 300}};

    (void)state;
    for (size_t s = 0; s < sizeof layouts / sizeof layouts[0]; s++) {
        const struct image_layout *l = &layouts[s];
        int64_t count = l->samples * l->channels * l->pixels, n = l->samples * l->pixels;
        float *x = spread(count, 1000, 1001), *dy = spread(count, -1, 1);
        float *mean = calloc((size_t)l->channels * 4, sizeof(float));
        float *m2 = mean + l->channels, *sum_dy = m2 + l->channels,
              *sum_dy_x = sum_dy + l->channels;

        k->batch_norm_moments(x, l, mean, m2);
        const struct batch_norm_gradient gradient = {.dy = dy};

        k->batch_norm_backward_sums(x, &gradient, l, mean, sum_dy, sum_dy_x);
        for (int64_t c = 0; c < l->channels; c++) {
            double m = 0, v = 0, g = 0, h = 0;
            for (int64_t i = 0; i < n; i++)
                m += x[place(l, i / l->pixels, c, i % l->pixels)];
            m /= (double)n;
            for (int64_t i = 0; i < n; i++) {
                int64_t at = place(l, i / l->pixels, c, i % l->pixels);
                v += (x[at] - m) * (x[at] - m);
                g += dy[at];
                h += dy[at] * ((double)x[at] - mean[c]);
            }
            expect_near(mean[c], m, m, 1e-7);
            expect_near(m2[c], v, v, 1e-5);
            expect_near(sum_dy[c], g, sqrt((double)n), 1e-6);
            expect_near(sum_dy_x[c], h, sqrt((double)n), 1e-6);
        }
        k->batch_norm_apply(x, l, sum_dy, mean, NULL, ACTIVATION_RELU, dy);
        k->batch_norm_backward_apply(x, &gradient, l, mean, sum_dy, m2, sum_dy_x, x);
        free(x);
        free(dy);
        free(mean);
    }
}

static double activation_at(int kind, double x)
{
    return kind == ACTIVATION_RELU   ? fmax(x, 0)
           : kind == ACTIVATION_SILU ? x / (1 + exp(-x))
                                     : x * fmin(fmax(x + 3, 0), 6) / 6;
}

static double slope_at(int kind, double x)
{
    const double s = 1 / (1 + exp(-x));

    return kind == ACTIVATION_RELU   ? x > 0
           : kind == ACTIVATION_SILU ? s * (1 + x * (1 - s))
           : x <= -3                 ? 0
           : x >= 3                  ? 1
                                     : x / 3 + 0.5;
}

/* Batch norm with an activation, or with a sum and ReLU behind it, forward and backward: compares
 * y, the sums, the stored gradient and dx. With a sum, the gradient comes in two parts. */
static void check_fused_batch_norm(const struct image_layout *l, int kind, bool sum)
{
    int64_t count = l->samples * l->channels * l->pixels, channels = l->channels;
    float *x = spread(count, -2, 3), *dy = spread(count, -1, 1), *other = spread(count, -3, 2);
    float *y = malloc((size_t)count * sizeof(float)), *rows = spread(5 * channels, 0.5f, 1.5f);
    float *factor = rows, *offset = rows + channels, *mean = rows + 2 * channels;
    struct batch_norm_gradient g = {.dy = dy, .activation = kind};
    double *d = calloc((size_t)count, sizeof(double));

    k->batch_norm_apply(x, l, factor, offset, sum ? other : NULL, kind, y);
    if (sum) {
        g.other = other;
        g.result = y;
        g.masked = dy;
    } else {
        g.factor = factor;
        g.offset = offset;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i / (l->pixels * l->block) % (channels / l->block) * l->block + i % l->block;
        double z = (double)x[i] * factor[c] + offset[c] + (sum ? other[i] : 0);

        expect_near(y[i], activation_at(kind, z), 5, 1e-6);
        d[i] = (dy[i] + (double)(sum ? other[i] : 0)) * (sum ? y[i] > 0 : slope_at(kind, z));
    }
    k->batch_norm_backward_sums(x, &g, l, mean, rows + 3 * channels, rows + 4 * channels);
    for (int64_t c = 0; c < channels; c++) {
        double sum_dy = 0, sum_dy_x = 0;

        for (int64_t i = 0; i < l->samples * l->pixels; i++) {
            int64_t at = place(l, i / l->pixels, c, i % l->pixels);
            sum_dy += d[at];
            sum_dy_x += d[at] * ((double)x[at] - mean[c]);
        }
        expect_near(rows[3 * channels + c], sum_dy, sqrt((double)count), 1e-6);
        expect_near(rows[4 * channels + c], sum_dy_x, sqrt((double)count), 3e-6);
    }
    for (int64_t i = 0; sum && i < count; i++)
        expect_near(dy[i], d[i], 4, 1e-6);
    k->batch_norm_backward_apply(x, &g, l, mean, factor, offset, mean, dy);
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i / (l->pixels * l->block) % (channels / l->block) * l->block + i % l->block;

        expect_near(dy[i], d[i] * factor[c] + ((double)x[i] - mean[c]) * offset[c] + mean[c], 5,
                    1e-6);
    }
    free(x);
    free(dy);
    free(other);
    free(y);
    free(rows);
    free(d);
}

static void test_fused_batch_norm(void **state)
{
    static const struct image_layout layouts[] = {
        {5, 3, 49, 1}, {5, 16, 49, 8}, {4, 32, 9, 16}, {3, 40, 9, 40}, {33, 21, 1, 21}};
    static const int kinds[] = {ACTIVATION_RELU, ACTIVATION_SILU, ACTIVATION_HARDSWISH};

    (void)state;
    for (size_t s = 0; s < sizeof layouts / sizeof layouts[0]; s++) {
        for (size_t i = 0; i < 3; i++)
            check_fused_batch_norm(&layouts[s], kinds[i], false);
        check_fused_batch_norm(&layouts[s], ACTIVATION_RELU, true);
    }
}

/* The first rows are far from all others, and from the mean, so sums around them lose digits. */
static void test_far_moments(void **state)
{
    enum { ROWS = 1 << 15, CHANNELS = 17, FAR_ROWS = 32 };
    const struct image_layout l = {ROWS, CHANNELS, 1, CHANNELS};
    float *x = spread(ROWS * CHANNELS, 0, 1), mean[CHANNELS], m2[CHANNELS];

    (void)state;
    for (int i = 0; i < FAR_ROWS * CHANNELS; i++)
        x[i] += 1000;
    k->batch_norm_moments(x, &l, mean, m2);
    for (int c = 0; c < CHANNELS; c++) {
        double m = 0, v = 0;

        for (int r = 0; r < ROWS; r++)
            m += x[r * CHANNELS + c] / (double)ROWS;
        for (int r = 0; r < ROWS; r++)
            v += (x[r * CHANNELS + c] - m) * (x[r * CHANNELS + c] - m);
        expect_near(mean[c], m, m, 1e-7);
        expect_near(m2[c], v, v, 2e-7);
    }
    free(x);
}

/* The blocked form draws the same mask as the plain one, element by element in PyTorch's order.
 * Both are those of philox_draw(). */
static void test_dropout(void **state)
{
    static const struct image_layout l = {3, 16, 51, 8};
    const struct dropout_mask mask = {.seed = 99, .stream = 4, .batch = 7, .probability = 0.3f};
    enum { N = 3 * 16 * 51, FIRST_SAMPLE = 5, FIRST = FIRST_SAMPLE * 16 * 51 };
    float *x = spread(N, 1, 2), *y = malloc(N * sizeof(float)), *blocks = malloc(N * sizeof(float));
    float *back = malloc(N * sizeof(float));
    int kept = 0;

    (void)state;
    k->dropout(&mask, x, y, FIRST, N);
    for (int64_t i = 0; i < N; i++) {
        uint64_t element = (uint64_t)(FIRST + i);
        struct philox draw =
            philox_draw(99, philox_stream(PHILOX_DROPOUT, 4), ((uint64_t)7 << 32) + element / 4);
        bool keep = philox_uniform(draw.word[element % 4]) >= 0.3f;
        expect_near(y[i], keep ? x[i] / 0.7 : 0, 2, 1e-6);
        kept += keep;
    }
    assert_true(kept > N * 0.65 && kept < N * 0.75);
    k->plain_to_blocks(x, blocks, &l);
    for (int64_t i = 0; i < N; i++)
        assert_true(blocks[place(&l, i / (16 * 51), i / 51 % 16, i % 51)] == x[i]);
    k->dropout_blocked(&mask, blocks, blocks, &l, FIRST_SAMPLE);
    k->blocks_to_plain(blocks, back, &l);
    assert_memory_equal(back, y, N * sizeof(float));
    k->dropout(&mask, x, x, FIRST, 3); /* a short piece, in place */
    assert_memory_equal(x, y, 3 * sizeof(float));
    free(x);
    free(y);
    free(blocks);
    free(back);
}

static void test_embedding(void **state)
{
    static const int32_t index[] = {3, 0, 3, 5, -1};
    float *weight = spread(5 * 7, -1, 1), y[5 * 7], gradient[5 * 7] = {0};

    (void)state;
    k->embedding_forward(index, weight, y, 5, 7, 5);
    assert_memory_equal(y, weight + 21, 7 * sizeof(float));
    assert_memory_equal(y + 7, weight, 7 * sizeof(float));
    assert_true(isnan(y[21]) && isnan(y[28])); /* indices 5 and -1 are out of range */
    k->embedding_backward(index, weight, gradient, 4, 7, 1, 5);
    for (int c = 0; c < 7; c++) {
        assert_true(gradient[c] == 0); /* row 0 belongs to another part */
        expect_near(gradient[21 + c], (double)weight[c] + weight[14 + c], 1, 1e-6);
    }
    free(weight);
}

static void test_matrix_parts(void **state)
{
    enum { ROWS = 37, COLUMNS = 21, FROM_ROW = 40, TO_ROW = 25 };
    float *from = spread(ROWS * FROM_ROW, -1, 1);
    float to[ROWS * TO_ROW], transposed[COLUMNS * ROWS];

    (void)state;
    for (int i = 0; i < ROWS * TO_ROW; i++)
        to[i] = 2;
    k->matrix_copy(from, FROM_ROW, ROWS, COLUMNS, to, TO_ROW, false);
    k->matrix_copy(from, FROM_ROW, ROWS, COLUMNS, to, TO_ROW, true);
    k->matrix_transpose(from, FROM_ROW, ROWS, COLUMNS, transposed);
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            assert_true(to[r * TO_ROW + c] == 2 * from[r * FROM_ROW + c]);
            assert_true(transposed[c * ROWS + r] == from[r * FROM_ROW + c]);
        }
        for (int c = COLUMNS; c < TO_ROW; c++)
            assert_true(to[r * TO_ROW + c] == 2);
    }
    free(from);
}

static void test_transposed_halves(void **state)
{
    enum { ROWS = 75, COLUMNS = 37, FROM_ROW = 40 };
    uint16_t from[ROWS * FROM_ROW], transposed[COLUMNS * ROWS];

    (void)state;
    for (int i = 0; i < ROWS * FROM_ROW; i++)
        from[i] = (uint16_t)(i * 21 + 1);
    k->matrix_transpose_bfloat16(from, FROM_ROW, ROWS, COLUMNS, transposed);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            assert_int_equal(transposed[c * ROWS + r], from[r * FROM_ROW + c]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_soft_cross_entropy),
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_far_moments),
        cmocka_unit_test(test_fused_batch_norm),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_matrix_parts),
        cmocka_unit_test(test_transposed_halves),
    };
    int failed = 0;

    for (int level = 0; (k = kernels_available()[level]); level++) {
        print_message("kernels of level %s\n", k->level);
        failed |= cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
