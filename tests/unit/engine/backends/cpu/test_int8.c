/* test_int8.c: layers whose weights are integers of 8 bits: the kernels on every instruction set
 * against plain sums, and whole graphs against the same graphs in float32. */
#include "base/philox.h"
#include "engine/backends/cpu/instructions.h"
#include "engine/graph/forward.h"
#include "engine/train/quantization.h"
#include "tests/support/quantized_weights.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void draw(float *values, int64_t count, uint64_t seed, float range)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = range * (2 * philox_uniform(philox_draw(seed, 7, (uint64_t)i).word[0]) - 1);
}

/* ---- kernels --------------------------------------------------------------------------------- */

struct product {
    int64_t rows, depth, out;
    float *x, *weights, *bias, *y, *scale, *row_scale;
    int8_t *quantized, *packed, *unpacked;
    uint8_t *values;
    int32_t *zero;
};

static void product_make(struct product *p, int64_t rows, int64_t depth, int64_t out)
{
    struct int8_packing packing = int8_packing_of(out, depth, 0);
    struct error error;

    *p = (struct product){
        .rows = rows,
        .depth = depth,
        .out = out,
        .x = malloc((size_t)(rows * depth) * sizeof(float)),
        .weights = malloc((size_t)(out * depth) * sizeof(float)),
        .bias = malloc((size_t)out * sizeof(float)),
        .y = malloc((size_t)(rows * out) * sizeof(float)),
        .scale = malloc((size_t)out * sizeof(float)),
        .row_scale = malloc((size_t)rows * sizeof(float)),
        .quantized = malloc((size_t)(out * depth)),
        .packed = aligned_alloc(64, align_up(int8_packing_bytes(&packing), 64)),
        .unpacked = malloc((size_t)(out * depth)),
        .values = malloc((size_t)rows * int8_row_bytes(depth)),
        .zero = malloc((size_t)rows * sizeof(int32_t)),
    };
    draw(p->x, rows * depth, 1, 3.0f);
    draw(p->weights, out * depth, 2, 0.5f);
    draw(p->bias, out, 3, 1.0f);
    assert_int_equal(quantization_quantize(p->weights, out, depth, p->quantized, p->scale, &error),
                     0);
}

static void product_release(struct product *p)
{
    void *all[] = {p->x,    p->weights, p->bias,      p->y,      p->scale,   p->row_scale,
                   p->zero, p->values,  p->quantized, p->packed, p->unpacked};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void product_run(struct product *p, const struct kernels *kernels,
                        enum int8_instructions instructions)
{
    struct int8_linear task = {.packing = int8_packing_of(p->out, p->depth, 0),
                               .x = {.values = p->values,
                                     .row = (int64_t)int8_row_bytes(p->depth),
                                     .scale = p->row_scale,
                                     .zero = p->zero},
                               .weights = p->packed,
                               .scale = p->scale,
                               .bias = p->bias,
                               .y = p->y,
                               .y_row = p->out,
                               .y_vector = INT8_LANES,
                               .instructions = instructions};

    task.y_group = task.packing.vectors * INT8_LANES;
    kernels->int8_pack(&task.packing, p->quantized, p->packed);
    kernels->int8_unpack(&task.packing, p->packed, p->unpacked);
    assert_memory_equal(p->unpacked, p->quantized, (size_t)(p->out * p->depth));
    kernels->int8_quantize_rows(p->x, p->depth, p->rows, p->depth, &task.x);
    kernels->int8_linear(&task, p->rows, 0, task.packing.groups);
}

/* The rows hold their numbers to half a step, and the product is the exact sum. */
static void product_check(const struct product *p)
{
    for (int64_t r = 0; r < p->rows; r++) {
        const uint8_t *values = p->values + (size_t)r * int8_row_bytes(p->depth);

        for (int64_t k = 0; k < p->depth; k++)
            assert_true(fabsf(p->row_scale[r] * (float)(values[k] - p->zero[r]) -
                              p->x[r * p->depth + k]) <= 0.5001f * p->row_scale[r]);
        for (int64_t o = 0; o < p->out; o++) {
            int64_t sum = 0;
            double expected;

            for (int64_t k = 0; k < p->depth; k++)
                sum += (values[k] - p->zero[r]) * p->quantized[o * p->depth + k];
            expected = (double)sum * p->row_scale[r] * p->scale[o] + p->bias[o];
            assert_true(fabs(p->y[r * p->out + o] - expected) <= 1e-6 * (fabs(expected) + 1));
        }
    }
}

static void products_are_exact(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {2, 3, 10},     {7, 4, 16},  {13, 17, 50},
                                        {6, 64, 64},  {5, 130, 100},  {48, 33, 7}, {3, 515, 129},
                                        {50, 64, 48}, {23, 200, 130}, {16, 68, 16}};

    (void)state;
    for (int level = 0; kernels_available()[level]; level++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (int how = 0; how <= (int)cpu_int8_instructions(kernels_available()[level]);
                 how++) {
                struct product p;

                product_make(&p, shapes[i][0], shapes[i][1], shapes[i][2]);
                product_run(&p, kernels_available()[level], (enum int8_instructions)how);
                product_check(&p);
                product_release(&p);
            }
}

/* The products of a recurrent layer's state: [rows][vector][INT8_LANES] of each group. */
static void multiply_state(const struct kernels *kernels, enum int8_instructions instructions,
                           int64_t rows, int64_t hidden, int gates, float *sums)
{
    const struct int8_packing packing = int8_packing_of(gates * hidden, hidden, gates);
    const int64_t count = packing.groups * gates * INT8_LANES,
                  row = (int64_t)align_up((size_t)hidden, 64);
    int8_t *weights = malloc((size_t)(gates * hidden * hidden));
    int8_t *packed = aligned_alloc(64, align_up(int8_packing_bytes(&packing), 64));
    float *scale = aligned_alloc(64, align_up((size_t)count * sizeof *scale, 64));
    uint8_t *before = calloc((size_t)rows, (size_t)row);
    struct amx_tiles tiles = {0};

    for (int64_t i = 0; i < gates * hidden * hidden; i++)
        weights[i] = (int8_t)(philox_draw(1, 2, (uint64_t)i).word[0] % 255 - 127);
    for (int64_t i = 0; i < rows * row; i++)
        before[i] = i % row < hidden ? (uint8_t)philox_draw(3, 4, (uint64_t)i).word[0] : 0;
    for (int64_t i = 0; i < count; i++)
        scale[i] = 1.0f;
    kernels->int8_pack(&packing, weights, packed);
    for (int64_t group = 0; group < packing.groups; group++)
        for (int64_t first = 0, part; first < rows; first += part) {
            part = rows - first < AMX_ROWS ? rows - first : AMX_ROWS;
            kernels->int8_multiply_state(&(struct int8_state){.packing = packing,
                                                              .weights = packed,
                                                              .scale = scale,
                                                              .before = before,
                                                              .row = row,
                                                              .instructions = instructions},
                                         first, part, group,
                                         sums + (group * rows + first) * gates * INT8_LANES,
                                         gates * INT8_LANES, &tiles);
        }
    kernels->amx_end_tiles(&tiles);
    free(weights);
    free(packed);
    free(scale);
    free(before);
}

/* Whatever multiplies a state's integers, the sums are the same. */
static void states_have_the_same_products(void **state)
{
    static const int64_t shapes[][3] = {{5, 37, 4},   {16, 128, 4}, {23, 133, 3},
                                        {64, 256, 4}, {40, 200, 3}, {7, 130, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t rows = shapes[i][0], hidden = shapes[i][1], gates = shapes[i][2];
        const size_t bytes =
            (size_t)(rows * gates) * align_up((size_t)hidden, INT8_LANES) * sizeof(float);
        float *expected = malloc(bytes), *sums = malloc(bytes);

        multiply_state(kernels_available()[0], INT8_WORDS, rows, hidden, (int)gates, expected);
        for (int level = 0; kernels_available()[level]; level++)
            for (int how = 0; how <= (int)cpu_int8_instructions(kernels_available()[level]);
                 how++) {
                multiply_state(kernels_available()[level], (enum int8_instructions)how, rows,
                               hidden, (int)gates, sums);
                assert_memory_equal(sums, expected, bytes);
            }
        free(expected);
        free(sums);
    }
}

/* The largest products of an unsigned and a signed number do not overflow on their way. */
static void extreme_numbers_do_not_saturate(void **state)
{
    (void)state;
    for (int level = 0; kernels_available()[level]; level++)
        for (int how = 0; how <= (int)cpu_int8_instructions(kernels_available()[level]); how++) {
            struct product p;

            product_make(&p, 9, 128, 16);
            for (int64_t i = 0; i < p.rows * p.depth; i++)
                p.x[i] = 1.0f; /* 255 */
            memset(p.quantized, -127, (size_t)(p.out * p.depth));
            product_run(&p, kernels_available()[level], (enum int8_instructions)how);
            product_check(&p);
            product_release(&p);
        }
}

static void what_is_not_finite_stays_so(void **state)
{
    static const float strange[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (int level = 0; kernels_available()[level]; level++)
        for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
            struct product p;

            product_make(&p, 3, 37, 5);
            p.x[37 + 20] = strange[i];
            product_run(&p, kernels_available()[level],
                        cpu_int8_instructions(kernels_available()[level]));
            for (int64_t o = 0; o < p.out; o++) {
                assert_true(isfinite(p.y[o]) && isfinite(p.y[2 * p.out + o]));
                assert_true(!isfinite(p.y[p.out + o]));
            }
            product_release(&p);
        }
}

static void weights_that_are_not_finite_are_refused(void **state)
{
    float weights[4] = {1, NAN, 0, 2}, zeros[4] = {0, 0, 1e-45f, 0}, scale[2];
    int8_t quantized[4];
    struct error error;

    (void)state;
    assert_int_equal(quantization_quantize(weights, 2, 2, quantized, scale, &error), -EINVAL);
    assert_non_null(strstr(error.text, "finite"));
    assert_int_equal(quantization_quantize(zeros, 2, 2, quantized, scale, &error), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(quantized[i], 0);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

enum { STEPS = 9, FEATURES = 11, OUTPUTS = 5, BATCH = 21 };

struct model {
    const char *name;
    enum recurrent_cell cell;
    bool recurrent, reverse;
    int64_t hidden;
};

static const struct model models[] = {{.name = "mlp", .hidden = 70},
                                      {"lstm", RECURRENT_LSTM, true, false, 37},
                                      {"gru", RECURRENT_GRU, true, false, 32},
                                      {"reversed", RECURRENT_LSTM, true, true, 16}};

static void build(struct graph *graph, const struct model *model, int64_t batch, bool quantized)
{
    struct error error = {0};
    int32_t x;

    graph_init(graph, batch, false);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){STEPS, FEATURES}, 2);
    if (model->recurrent) {
        x = graph_recurrent(graph, x, -1, "cell",
                            &(struct recurrent_layer){.cell = model->cell,
                                                      .hidden = model->hidden,
                                                      .reverse = model->reverse});
    } else {
        x = graph_linear(graph, x, "first", model->hidden, true);
        x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
        x = graph_linear(graph, x, "second", model->hidden, false);
        x = graph_activation(graph, x, "tanh", ACTIVATION_TANH);
    }
    x = graph_flatten(graph, x, "flatten");
    graph_linear(graph, x, "head", OUTPUTS, true);
    if (quantized)
        assert_int_equal(graph_quantize(graph, "dynamic", &error), 0);
    assert_int_equal(graph_finish(graph, &error), 0);
}

/* The outputs of the first `batch` samples. */
static void run_model(const struct model *model, int64_t batch, bool quantized,
                      const struct test_session_options *options, float *outputs)
{
    static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};
    size_t count = (size_t)batch * STEPS * FEATURES;
    float *x = aligned_alloc(64, align_up(count * sizeof *x, 64));
    struct graph graph, plain;
    struct test_session session;

    draw(x, (int64_t)count, 5, 2.0f);
    build(&plain, model, batch, false);
    build(&graph, model, batch, quantized);
    test_session_open(&session, &graph, options);
    quantized_weights_write(&session, &plain);
    test_session_input(&session, graph.input, x);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    test_session_read(&session, graph.output, outputs);
    test_session_close(&session);
    graph_release(&graph);
    graph_release(&plain);
    free(x);
}

/* Quantized results are within a hundredth of the largest float32 one. */
static void models_stay_close_to_float32(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
        for (int level = 0; kernels_available()[level]; level++) {
            struct test_session_options options = {.threads = 1, .kernels = level};
            float expected[BATCH * OUTPUTS], outputs[BATCH * OUTPUTS], most = 0, worst = 0;

            run_model(&models[m], BATCH, false, &options, expected);
            run_model(&models[m], BATCH, true, &options, outputs);
            for (int i = 0; i < BATCH * OUTPUTS; i++) {
                most = fmaxf(most, fabsf(expected[i]));
                worst = fmaxf(worst, fabsf(outputs[i] - expected[i]));
            }
            if (!(worst <= 0.01f * most) || worst == 0)
                fail_msg("%s: off by %g of %g", models[m].name, (double)worst, (double)most);
        }
}

/* Neither threads nor tasks nor the other samples of a batch change a bit of a result. */
static void division_and_neighbours_change_no_bit(void **state)
{
    static const struct test_session_options ways[] = {
        {.threads = 1, .tasks = 8}, {.threads = 2, .tasks = 2}, {.threads = 3, .tasks = 8}};

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        float expected[BATCH * OUTPUTS], outputs[BATCH * OUTPUTS];

        run_model(&models[m], BATCH, true, &(struct test_session_options){.threads = 1, .tasks = 1},
                  expected);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            run_model(&models[m], BATCH, true, &ways[w], outputs);
            assert_memory_equal(outputs, expected, sizeof expected);
            run_model(&models[m], 2, true, &ways[w], outputs);
            assert_memory_equal(outputs, expected, 2 * OUTPUTS * sizeof(float));
        }
    }
}

static void what_cannot_be_quantized_is_refused(void **state)
{
    struct error error = {0};
    struct graph graph;
    int32_t x;

    (void)state;
    graph_init(&graph, 2, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){3, 8, 8}, 3);
    graph_max_pool2d(&graph, x, "pool",
                     &(struct conv_attributes){
                         .stride = {2, 2}, .dilation = {1, 1}, .kernel = {2, 2}, .groups = 1});
    assert_int_equal(graph_quantize(&graph, "dynamic", &error), -EINVAL);
    assert_non_null(strstr(error.text, "no linear or recurrent layer"));
    graph_release(&graph);
    graph_init(&graph, 2, true);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){8}, 1);
    graph_linear(&graph, x, "layer", 4, true);
    assert_int_equal(graph_quantize(&graph, "dynamic", &error), -EINVAL);
    assert_non_null(strstr(error.text, "evaluation"));
    graph_release(&graph);
}

/* A weight that an embedding reads too stays float32, and so does the layer. */
static void tied_weights_stay_float32(void **state)
{
    struct error error = {0};
    struct graph graph;
    int32_t x;

    (void)state;
    graph_init(&graph, 2, false);
    x = graph_input(&graph, TENSOR_INT32, (int64_t[]){6}, 1);
    x = graph_embedding(&graph, x, "embedding", 10, 8);
    x = graph_linear(&graph, x, "own", 8, true);
    graph_linear_shared(&graph, x, "tied", graph_find_tensor(&graph, "embedding.weight"), -1);
    assert_int_equal(graph_quantize(&graph, "dynamic", &error), 0);
    assert_int_equal(graph.tensors[graph_find_tensor(&graph, "embedding.weight")].type,
                     TENSOR_FLOAT32);
    assert_int_equal(graph.tensors[graph_find_tensor(&graph, "own.weight")].type, TENSOR_INT8);
    assert_int_equal(graph.nodes[graph.node_count - 1].op, OP_LINEAR);
    graph_release(&graph);
}

/* A sum of 66,312 products can exceed 32 bits. */
static void sums_that_may_overflow_stay_float32(void **state)
{
    struct error error = {0};
    struct graph graph;
    int32_t x;

    (void)state;
    graph_init(&graph, 2, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){66312}, 1);
    x = graph_linear(&graph, x, "long", 66311, true);
    graph_linear(&graph, x, "less", 1, true);
    assert_int_equal(graph_quantize(&graph, "dynamic", &error), 0);
    assert_int_equal(graph.tensors[graph_find_tensor(&graph, "long.weight")].type, TENSOR_FLOAT32);
    assert_int_equal(graph.tensors[graph_find_tensor(&graph, "less.weight")].type, TENSOR_INT8);
    graph_release(&graph);
    graph_init(&graph, 2, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){7369, 3, 3}, 3);
    graph_conv2d(&graph, x, "long", 1,
                 &(struct conv_attributes){
                     .stride = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1},
                 true);
    assert_int_equal(graph_observe(&graph, &error), -EINVAL);
    graph_release(&graph);
}

/* A model of one's own may call a parameter as the factors of a weight would be called. */
static void parameters_keep_their_names(void **state)
{
    static const struct graph_shape rows = {.rank = 1, .extent = {8}};
    const struct broadcast_attributes how = {
        .kind = BROADCAST_MULTIPLY, .outer = 1, .middle = 8, .inner = 1};
    struct error error = {0};
    struct graph graph;
    int32_t x, own;

    (void)state;
    graph_init(&graph, 2, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){8}, 1);
    x = graph_linear(&graph, x, "a", 8, true);
    own = graph_parameter(&graph, "a.weight_scale", &rows, (struct initializer){0});
    x = graph_broadcast(&graph, x, own, &how, "times");
    graph_linear(&graph, x, "b", 4, true);
    assert_int_equal(graph_quantize(&graph, "dynamic", &error), 0);
    assert_int_equal(graph.tensors[graph_find_tensor(&graph, "a.weight")].type, TENSOR_FLOAT32);
    assert_int_equal(graph.tensors[graph_find_tensor(&graph, "b.weight")].type, TENSOR_INT8);
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_exact),
        cmocka_unit_test(states_have_the_same_products),
        cmocka_unit_test(extreme_numbers_do_not_saturate),
        cmocka_unit_test(what_is_not_finite_stays_so),
        cmocka_unit_test(weights_that_are_not_finite_are_refused),
        cmocka_unit_test(models_stay_close_to_float32),
        cmocka_unit_test(division_and_neighbours_change_no_bit),
        cmocka_unit_test(what_cannot_be_quantized_is_refused),
        cmocka_unit_test(tied_weights_stay_float32),
        cmocka_unit_test(sums_that_may_overflow_stay_float32),
        cmocka_unit_test(parameters_keep_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
