/* test_digits.c: products of float32 numbers by integers of three digits: the kernels against sums
 * in double precision, and graphs against the same graphs without them. Needs a processor with
 * AMX. */
#include "base/alignment.h"
#include "base/philox.h"
#include "engine/backends/cpu/digit_weights.h"
#include "engine/backends/cpu/instructions.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The unit roundoff of float32. */
static const double ROUNDOFF = 0x1p-24;

static const struct kernels *kernels_with_amx(void)
{
    if (cpu_int8_instructions(kernels_available()[0]) == INT8_AMX)
        return kernels_available()[0];
    print_message("SKIPPED: this processor has no AMX\n");
    return NULL;
}

static void draw(float *values, int64_t count, uint64_t seed, float range)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = range * (2 * philox_uniform(philox_draw(seed, 7, (uint64_t)i).word[0]) - 1);
}

static float *allocate(int64_t count)
{
    return aligned_alloc(64, align_up((size_t)count * sizeof(float), 64));
}

/* ---- kernels --------------------------------------------------------------------------------- */

struct product {
    int64_t rows, depth, out;
    float *x, *values, *bias, *y, *scale;
    uint8_t *bytes, *packed; /* packed: rows, or bytes */
    struct digit_weights weights;
};

static void product_make(struct product *p, int64_t rows, int64_t depth, int64_t out, uint64_t seed)
{
    int64_t padded = (rows + BYTES_ROWS - 1) / BYTES_ROWS * BYTES_ROWS;
    struct error error;

    *p = (struct product){.rows = rows,
                          .depth = depth,
                          .out = out,
                          .x = allocate(rows * depth),
                          .values = allocate(out * depth),
                          .bias = allocate(out),
                          .y = allocate(rows * out),
                          .scale = allocate(rows),
                          .bytes = malloc((size_t)(rows * depth)),
                          .packed = aligned_alloc(64, digits_rows_bytes(padded, depth, DIGITS))};
    draw(p->x, rows * depth, seed, 3.0f);
    draw(p->values, out * depth, seed + 1, 0.5f);
    draw(p->bias, out, seed + 2, 1.0f);
    for (int64_t i = 0; i < rows * depth; i++)
        p->bytes[i] = (uint8_t)philox_draw(seed, 8, (uint64_t)i).word[0];
    assert_int_equal(digit_weights_create(out, depth, &p->weights, &error), 0);
}

static void product_release(struct product *p)
{
    void *all[] = {p->x, p->values, p->bias, p->y, p->scale, p->bytes, p->packed};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    digit_weights_release(&p->weights);
}

static struct digits_linear task_of(const struct product *p)
{
    return (struct digits_linear){.steps = digits_steps(p->depth),
                                  .out = p->out,
                                  .x = p->packed,
                                  .weights = p->weights.digits,
                                  .scale = p->weights.scale,
                                  .bias = p->bias,
                                  .y = p->y,
                                  .y_row = p->out};
}

/* Packs rows and weights and multiplies them. false: they are left to others. */
static bool multiply(const struct kernels *kernels, struct product *p)
{
    struct digits_linear task = task_of(p);

    task.x_scale = p->scale;
    if (!digit_weights_write(&p->weights, p->values) ||
        !kernels->digits_pack_rows(p->x, p->weights.balance, p->rows, p->depth, (int8_t *)p->packed,
                                   p->scale))
        return false;
    kernels->digits_linear(&task, p->rows);
    return true;
}

/* The largest error of a result, in ROUNDOFF times the sum of its products' sizes. A sum of n
 * float32 products may be off by n of these (Higham 2002, Accuracy and Stability of Numerical
 * Algorithms, 3.1). Here it is less than 1, and more as soon as a product of digits is missing. */
static double product_check(const struct product *p, const float *mean, const float *factor)
{
    double worst = 0;

    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t o = 0; o < p->out; o++) {
            double sum = p->bias[o], size = fabs((double)p->bias[o]), error;

            for (int64_t k = 0; k < p->depth; k++) {
                double x = factor ? ((double)p->bytes[r * p->depth + k] - mean[k]) * factor[k]
                                  : p->x[r * p->depth + k];

                sum += x * p->values[o * p->depth + k];
                size += fabs(x * p->values[o * p->depth + k]);
            }
            error = fabs(p->y[r * p->out + o] - sum) / (ROUNDOFF * size);
            worst = error > worst ? error : worst;
        }
    return worst;
}

static const int64_t shapes[][3] = {{1, 1, 1},      {16, 64, 16},  {17, 65, 17},  {32, 128, 40},
                                    {48, 784, 100}, {7, 333, 250}, {130, 192, 33}};

static void products_are_as_exact_as_float32(void **state)
{
    const struct kernels *kernels = kernels_with_amx();

    (void)state;
    for (size_t i = 0; kernels && i < sizeof shapes / sizeof shapes[0]; i++) {
        struct product p;

        product_make(&p, shapes[i][0], shapes[i][1], shapes[i][2], i);
        assert_true(multiply(kernels, &p));
        assert_true(product_check(&p, NULL, NULL) < 1);
        product_release(&p);
    }
}

static void bytes_are_as_exact_as_float32(void **state)
{
    const struct kernels *kernels = kernels_with_amx();

    (void)state;
    for (size_t i = 0; kernels && i < sizeof shapes / sizeof shapes[0]; i++) {
        struct digits_linear task;
        struct product p;
        float *mean, *factor;

        product_make(&p, shapes[i][0], shapes[i][1], shapes[i][2], i);
        mean = allocate(p.depth);
        factor = allocate(p.depth);
        for (int64_t k = 0; k < p.depth; k++) {
            mean[k] = 33.3f + (float)(k % 3);
            factor[k] = (1 + 0.1f * (float)(k % 3)) / 78.5f;
        }
        task = task_of(&p);
        task.offset = p.weights.offset;
        digit_weights_write_for_bytes(&p.weights, p.values, mean, factor, NULL);
        kernels->digits_pack_bytes(p.bytes, p.rows, p.depth, p.packed);
        kernels->bytes_linear(&task, p.rows);
        assert_true(product_check(&p, mean, factor) < 1);
        task.relu = true;
        kernels->bytes_linear(&task, p.rows);
        for (int64_t y = 0; y < p.rows * p.out; y++)
            assert_true(p.y[y] >= 0);
        free(mean);
        free(factor);
        product_release(&p);
    }
}

/* All bytes 255 and all weights the same: no sum overflows, up to the largest depth. */
static void the_largest_sums_fit(void **state)
{
    const struct kernels *kernels = kernels_with_amx();
    const int64_t depth = DIGITS_DEPTH_MOST;
    struct digits_linear task;
    struct product p;
    float *constants;

    (void)state;
    if (!kernels)
        return;
    product_make(&p, 3, depth, 2, 1);
    constants = allocate(depth);
    memset(p.bytes, 255, (size_t)(p.rows * depth));
    for (int64_t k = 0; k < depth; k++) {
        constants[k] = 1;
        p.values[k] = -1;
        p.values[depth + k] = 1;
        for (int64_t r = 0; r < p.rows; r++)
            p.x[r * depth + k] = -1;
    }
    memset(p.bias, 0, 2 * sizeof *p.bias);
    task = task_of(&p);
    task.offset = p.weights.offset;
    digit_weights_write_for_bytes(&p.weights, p.values, constants, constants, NULL);
    kernels->digits_pack_bytes(p.bytes, p.rows, depth, p.packed);
    kernels->bytes_linear(&task, p.rows);
    assert_true(fabs(p.y[0] / (-254.0 * (double)depth) - 1) < 1e-6);
    assert_true(fabs(p.y[1] / (254.0 * (double)depth) - 1) < 1e-6);
    assert_true(multiply(kernels, &p));
    assert_true(fabs(p.y[0] / (double)depth - 1) < 1e-6);
    assert_true(fabs(p.y[1] / (double)depth + 1) < 1e-6);
    free(constants);
    product_release(&p);
}

/* Of rows whose numbers differ too much, or are not finite, none is taken. */
static void strange_rows_are_left_to_others(void **state)
{
    static const float strange[] = {NAN, INFINITY, -INFINITY, 1000, 1e30f};
    const struct kernels *kernels = kernels_with_amx();

    (void)state;
    for (size_t i = 0; kernels && i < sizeof strange / sizeof strange[0]; i++) {
        struct product p;

        product_make(&p, 20, 300, 3, i);
        assert_true(digit_weights_write(&p.weights, p.values));
        p.x[19 * 300 + 77] = strange[i];
        p.values[300 + 77] = strange[i];
        assert_false(kernels->digits_pack_rows(p.x, p.weights.balance, p.rows, p.depth,
                                               (int8_t *)p.packed, p.scale));
        assert_true(kernels->digits_pack_rows(p.x, p.weights.balance, p.rows - 1, p.depth,
                                              (int8_t *)p.packed, p.scale));
        assert_false(digit_weights_write(&p.weights, p.values));
        product_release(&p);
    }
}

/* Features of other units, with weights to match: a table that is not standardised. */
static void features_of_other_units_are_as_exact(void **state)
{
    static const struct {
        int64_t depth, large; /* features, and those that are a million times the others */
    } cases[] = {{130, 1}, {200, 3}, {256, 128}, {500, 2}, {784, 300}};
    const struct kernels *kernels = kernels_with_amx();

    (void)state;
    for (size_t i = 0; kernels && i < sizeof cases / sizeof cases[0]; i++) {
        struct product p;

        product_make(&p, 20, cases[i].depth, 33, i);
        for (int64_t k = 0; k < cases[i].large; k++) {
            for (int64_t r = 0; r < p.rows; r++)
                p.x[r * p.depth + k] *= 1e6f;
            for (int64_t o = 0; o < p.out; o++)
                p.values[o * p.depth + k] *= 1e-6f;
        }
        assert_true(multiply(kernels, &p));
        assert_true(product_check(&p, NULL, NULL) < 1);
        product_release(&p);
    }
}

/* A large weight of a feature that is 0 costs the others of its row nothing. */
static void large_weights_that_meet_zeros_cost_nothing(void **state)
{
    const struct kernels *kernels = kernels_with_amx();

    (void)state;
    for (float large = 1; kernels && large < 1e9f; large *= 8) {
        struct product p;

        product_make(&p, 20, 200, 33, 1);
        p.values[7 * p.depth + 11] = large;
        for (int64_t r = 0; r < p.rows; r++)
            p.x[r * p.depth + 11] = 0;
        assert_true(!multiply(kernels, &p) || product_check(&p, NULL, NULL) < 1);
        product_release(&p);
    }
}

/* Squares of small numbers leave float32's range, and yet such rows are exact or left to others. */
static void small_rows_are_as_exact(void **state)
{
    const struct kernels *kernels = kernels_with_amx();

    (void)state;
    for (float size = 1; kernels && size > 1e-36f; size /= 10) {
        struct product p;

        product_make(&p, 1, 300, 5, 1);
        memset(p.bias, 0, 5 * sizeof *p.bias);
        for (int64_t k = 0; k < p.depth; k++)
            p.x[k] *= size * (k ? 1e-3f : 1);
        for (int64_t o = 0; o < p.out; o++)
            p.values[o * p.depth] = 0;
        assert_true(!multiply(kernels, &p) || product_check(&p, NULL, NULL) < 1);
        product_release(&p);
    }
}

/* Rows of zeros, and those with one other number, are exact. */
static void sparse_rows_are_exact(void **state)
{
    const struct kernels *kernels = kernels_with_amx();
    struct product p;

    (void)state;
    if (!kernels)
        return;
    product_make(&p, 2, 300, 5, 1);
    memset(p.x, 0, 600 * sizeof *p.x);
    p.x[300 + 299] = -2.5f;
    assert_true(multiply(kernels, &p));
    assert_memory_equal(p.y, p.bias, 5 * sizeof *p.y);
    assert_true(product_check(&p, NULL, NULL) < 2);
    product_release(&p);
}

/* Weights that are not finite make the results of their row infinite or no numbers, and no others:
 * what comes behind must notice. A second matrix, for the last row, changes nothing. */
static void bytes_with_strange_weights_are_not_finite(void **state)
{
    const struct kernels *kernels = kernels_with_amx();
    float constants[100];
    struct digit_weights rest;
    struct digits_linear task;
    struct product p;
    struct error error;

    (void)state;
    if (!kernels)
        return;
    for (int k = 0; k < 100; k++)
        constants[k] = 1;
    product_make(&p, 4, 100, 20, 1);
    p.values[7 * 100 + 3] = -INFINITY;
    p.values[9 * 100 + 3] = NAN;
    p.values[19 * 100 + 3] = 1e6f;
    for (int64_t r = 0; r < p.rows; r++)
        p.bytes[r * 100 + 3] = r % 2 ? 0 : 2;
    assert_int_equal(digit_weights_create(20, 100, &rest, &error), 0);
    task = task_of(&p);
    task.offset = p.weights.offset;
    assert_false(digit_weights_write_for_bytes(&p.weights, p.values, constants, constants, NULL));
    digit_weights_write_for_bytes(&rest, p.values, constants, constants, &p.weights);
    kernels->digits_pack_bytes(p.bytes, p.rows, p.depth, p.packed);
    kernels->bytes_linear(&task, p.rows);
    task.weights = rest.digits;
    task.scale = rest.scale;
    task.offset = rest.offset;
    task.bias = NULL;
    task.adds = true;
    kernels->bytes_linear(&task, p.rows);
    for (int64_t i = 0; i < p.rows * p.out; i++) {
        assert_int_equal(isnan(p.y[i]) != 0, i % p.out == 9);
        assert_int_equal(isinf(p.y[i]) != 0, i % p.out == 7);
        assert_true(i % p.out != 7 || (p.y[i] > 0) == (i / p.out % 2 == 1));
    }
    digit_weights_release(&rest);
    product_release(&p);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

enum { CHANNELS = 3, SIDE = 9, FEATURES = CHANNELS * SIDE * SIDE, BATCH = 70, OUTPUTS = 10 };

static const float means[CHANNELS] = {120, 110.5f, 90}, factors[CHANNELS] = {0.02f, 0.03f, 0.025f};
static const struct byte_normalisation constants = {
    .mean = means, .factor = factors, .groups = CHANNELS};

/* Three layers, the first of which reads images. */
static void build(struct graph *graph, bool bytes, bool constant_weights, enum tensor_type type)
{
    struct error error;
    int32_t x, layer;

    graph_init(graph, BATCH, false);
    graph->constant_weights = constant_weights;
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){CHANNELS, SIDE, SIDE}, 3);
    x = graph_flatten(graph, x, "flatten");
    x = graph_linear(graph, x, "first", 150, true);
    x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
    x = graph_linear(graph, x, "second", 160, true);
    x = graph_activation(graph, x, "gelu", ACTIVATION_GELU);
    graph_linear(graph, x, "head", OUTPUTS, false);
    layer = graph_find_bytes_layer(graph, &constants);
    assert_int_equal(layer, 1);
    if (bytes)
        graph_read_bytes(graph, layer, &constants);
    assert_int_equal(graph_lower_precision(graph, type, &error), 0);
    assert_int_equal(graph_finish(graph, &error), 0);
}

/* The outputs for such bytes; of weights that are multiplied by `scale` after a first run. */
static void run_model(bool bytes, bool constant_weights, enum tensor_type type, int threads,
                      const uint8_t *samples, float scale, float *outputs)
{
    static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};
    struct test_session_options options = {.threads = threads, .emulate_precision = true};
    struct test_session session;
    float *x = allocate(BATCH * FEATURES), *weights = allocate(150 * FEATURES);
    struct graph graph;
    int32_t first;

    build(&graph, bytes, constant_weights, type);
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 3);
    if (bytes)
        memcpy(x, samples, BATCH * FEATURES);
    for (int64_t i = 0; !bytes && i < BATCH * FEATURES; i++) {
        int64_t channel = i / (SIDE * SIDE) % CHANNELS;

        x[i] = ((float)samples[i] - means[channel]) * factors[channel];
    }
    test_session_input(&session, graph.input, x);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    first = graph_find_tensor(&graph, "first.weight");
    test_session_read(&session, first, weights);
    for (int64_t i = 0; i < 150 * FEATURES; i++)
        weights[i] *= scale;
    test_session_write(&session, first, weights);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    test_session_read(&session, graph.output, outputs);
    test_session_close(&session);
    graph_release(&graph);
    free(weights);
    free(x);
}

static void graphs_give_the_same(void **state)
{
    const struct kernels *kernels = kernels_with_amx();
    uint8_t samples[BATCH * FEATURES];

    (void)state;
    for (int64_t i = 0; i < BATCH * FEATURES; i++)
        samples[i] = (uint8_t)philox_draw(5, 6, (uint64_t)i).word[0];
    for (int way = 1; kernels && way < 4; way++) {
        bool bytes = way & 1, constant_weights = way & 2;
        float expected[BATCH * OUTPUTS], one[BATCH * OUTPUTS], two[BATCH * OUTPUTS];

        run_model(false, false, TENSOR_FLOAT32, 1, samples, 0.5f, expected);
        run_model(bytes, constant_weights, TENSOR_FLOAT32, 1, samples, 0.5f, one);
        run_model(bytes, constant_weights, TENSOR_FLOAT32, 2, samples, 0.5f, two);
        for (int i = 0; i < BATCH * OUTPUTS; i++)
            assert_true(fabsf(one[i] - expected[i]) < 1e-6f && fabsf(two[i] - one[i]) < 1e-6f);
    }
}

/* A graph that rounds its weights in each run multiplies by what it has rounded. */
static void rounded_weights_are_those_of_the_run(void **state)
{
    const struct kernels *kernels = kernels_with_amx();
    uint8_t samples[BATCH * FEATURES];
    float expected[BATCH * OUTPUTS], found[BATCH * OUTPUTS];

    (void)state;
    for (int64_t i = 0; i < BATCH * FEATURES; i++)
        samples[i] = (uint8_t)philox_draw(5, 6, (uint64_t)i).word[0];
    if (!kernels)
        return;
    run_model(false, false, TENSOR_FLOAT16, 1, samples, 0.5f, expected);
    run_model(false, true, TENSOR_FLOAT16, 1, samples, 0.5f, found);
    for (int i = 0; i < BATCH * OUTPUTS; i++)
        assert_true(fabsf(found[i] - expected[i]) < 1e-6f);
}

/* One layer that reads bytes. The weight of feature 11 and output 7 is `large`. */
static void run_layer(bool relu, float large, const uint8_t *samples, const float *weights,
                      float *outputs)
{
    static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};
    static const float mean = 0, factor = 1 / 255.0f;
    static const struct byte_normalisation plain = {&mean, &factor, 1, false};
    struct test_session session;
    float *x = allocate(BATCH * FEATURES), *own = allocate(OUTPUTS * FEATURES);
    struct graph graph;
    struct error error;
    int32_t layer;

    graph_init(&graph, BATCH, false);
    layer = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){FEATURES}, 1);
    layer = graph_linear(&graph, layer, "first", OUTPUTS, false);
    if (relu)
        graph_activation(&graph, layer, "relu", ACTIVATION_RELU);
    graph_read_bytes(&graph, graph_find_bytes_layer(&graph, &plain), &plain);
    assert_int_equal(graph_finish(&graph, &error), 0);
    test_session_open(&session, &graph, &(struct test_session_options){.threads = 2});
    memcpy(own, weights, OUTPUTS * FEATURES * sizeof *own);
    own[7 * FEATURES + 11] = large;
    test_session_write(&session, graph_find_tensor(&graph, "first.weight"), own);
    memcpy(x, samples, BATCH * FEATURES);
    test_session_input(&session, graph.input, x);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    test_session_read(&session, graph.output, outputs);
    test_session_close(&session);
    graph_release(&graph);
    free(own);
    free(x);
}

/* A large weight of a pixel that is always 0 costs the others of its row nothing, and one that is
 * not finite makes the row's results no numbers, and no others. */
static void large_weights_of_bytes_cost_nothing(void **state)
{
    static const float large[] = {1, 100, 1e8f, INFINITY, NAN};
    uint8_t samples[BATCH * FEATURES];
    float *weights = allocate(OUTPUTS * FEATURES);

    (void)state;
    draw(weights, OUTPUTS * FEATURES, 9, 0.5f);
    for (int64_t i = 0; i < BATCH * FEATURES; i++)
        samples[i] = i % FEATURES == 11 ? 0 : (uint8_t)philox_draw(5, 6, (uint64_t)i).word[0];
    for (int i = 0; kernels_with_amx() && i < 2 * 5; i++) {
        float outputs[BATCH * OUTPUTS];
        bool relu = i & 1;

        run_layer(relu, large[i / 2], samples, weights, outputs);
        for (int y = 0; y < BATCH * OUTPUTS; y++) {
            double sum = 0;

            for (int64_t k = 0; k < FEATURES; k++)
                sum += samples[y / OUTPUTS * FEATURES + k] / 255.0 *
                       (k == 11 ? 0 : weights[y % OUTPUTS * FEATURES + k]);
            if (y % OUTPUTS == 7 && !isfinite(large[i / 2]))
                assert_true(isnan(outputs[y]));
            else
                assert_true(fabs(outputs[y] - (relu && sum < 0 ? 0 : sum)) < 4e-6);
        }
    }
    free(weights);
}

/* ---- which graphs read bytes ----------------------------------------------------------------- */

static int32_t find_layer(bool twice, bool image, const struct byte_normalisation *bytes)
{
    struct graph graph;
    int32_t x, first, found;

    graph_init(&graph, 4, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){CHANNELS, SIDE, SIDE}, 3);
    if (image)
        x = graph_activation(&graph, x, "relu", ACTIVATION_RELU);
    x = graph_flatten(&graph, x, "flatten");
    first = graph_linear(&graph, x, "first", 20, true);
    if (twice)
        first = graph_add(&graph, graph_linear(&graph, x, "other", 20, true), first, "sum");
    found = graph_find_bytes_layer(&graph, bytes);
    graph_release(&graph);
    return found;
}

static void only_a_single_reader_takes_bytes(void **state)
{
    static const float uneven[CHANNELS] = {1, 1, 5}, zero[CHANNELS] = {1, 0, 1};
    static const float no_number[CHANNELS] = {1, NAN, 1};
    static const float beyond[][CHANNELS] = {{0, -1, 0}, {0, 0, 300}, {NAN, 0, 0}};
    struct byte_normalisation other = constants;

    (void)state;
    assert_int_equal(find_layer(false, false, &constants), 1);
    assert_int_equal(find_layer(true, false, &constants), -1);
    assert_int_equal(find_layer(false, true, &constants), -1);
    other.factor = uneven;
    assert_int_equal(find_layer(false, false, &other), -1);
    other.factor = zero;
    assert_int_equal(find_layer(false, false, &other), -1);
    other.factor = no_number;
    assert_int_equal(find_layer(false, false, &other), -1);
    other.factor = factors;
    for (int i = 0; i < 3; i++) {
        other.mean = beyond[i];
        assert_int_equal(find_layer(false, false, &other), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_as_exact_as_float32),
        cmocka_unit_test(bytes_are_as_exact_as_float32),
        cmocka_unit_test(the_largest_sums_fit),
        cmocka_unit_test(strange_rows_are_left_to_others),
        cmocka_unit_test(features_of_other_units_are_as_exact),
        cmocka_unit_test(large_weights_that_meet_zeros_cost_nothing),
        cmocka_unit_test(small_rows_are_as_exact),
        cmocka_unit_test(sparse_rows_are_exact),
        cmocka_unit_test(bytes_with_strange_weights_are_not_finite),
        cmocka_unit_test(graphs_give_the_same),
        cmocka_unit_test(rounded_weights_are_those_of_the_run),
        cmocka_unit_test(large_weights_of_bytes_cost_nothing),
        cmocka_unit_test(only_a_single_reader_takes_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
