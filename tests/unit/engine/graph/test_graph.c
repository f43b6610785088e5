/* test_graph.c: shapes, names, errors and initial values of the graph's forward operators, and
 * their cost. */
#include "engine/graph/cost.h"
#include "engine/graph/forward.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct conv_attributes window(int kernel, int stride, int padding)
{
    return (struct conv_attributes){.kernel = {kernel, kernel},
                                    .stride = {stride, stride},
                                    .padding = {padding, padding},
                                    .dilation = {1, 1},
                                    .groups = 1};
}

static void expect_shape(const struct graph *graph, int32_t tensor, const char *expected)
{
    char text[128];

    if (graph->error.code)
        fail_msg("%s", graph->error.text);
    assert_true(tensor >= 0);
    assert_string_equal(graph_shape_format(&graph->tensors[tensor].shape, text, sizeof text),
                        expected);
}

static void expect_failure(struct graph *graph, int32_t result, const char *sentence)
{
    struct error error = {0};

    assert_int_equal(result, -EINVAL);
    assert_int_equal(graph_finish(graph, &error), -EINVAL);
    assert_string_equal(error.text, sentence);
    graph_release(graph);
}

static int32_t start(struct graph *graph, int64_t batch, int rank, const int64_t *shape)
{
    graph_init(graph, batch, true);
    return graph_input(graph, TENSOR_FLOAT32, shape, rank);
}

/* Shapes follow the documentation of torch.nn.Conv2d and of the pools: floor((H + 2 padding -
 * dilation (kernel - 1) - 1) / stride) + 1. */
static void test_shapes(void **state)
{
    struct conv_attributes a = window(3, 2, 1);
    struct graph graph;
    int32_t x, y;

    (void)state;
    x = start(&graph, 4, 3, (int64_t[]){6, 32, 17});
    expect_shape(&graph, x, "4x6x32x17");
    y = graph_conv2d(&graph, x, "0", 8, &a, true);
    expect_shape(&graph, y, "4x8x16x9");
    expect_shape(&graph, graph_find_tensor(&graph, "0.weight"), "8x6x3x3");
    expect_shape(&graph, graph_find_tensor(&graph, "0.bias"), "8");
    a = (struct conv_attributes){
        .kernel = {3, 2}, .stride = {1, 1}, .dilation = {2, 3}, .groups = 2};
    y = graph_conv2d(&graph, y, "1", 10, &a, false);
    expect_shape(&graph, y, "4x10x12x6");
    expect_shape(&graph, graph_find_tensor(&graph, "1.weight"), "10x4x3x2");
    assert_int_equal(graph_find_tensor(&graph, "1.bias"), -1);
    a = window(3, 2, 1);
    y = graph_max_pool2d(&graph, y, "2", &a);
    expect_shape(&graph, y, "4x10x6x3");
    expect_shape(&graph, graph.nodes[graph.node_count - 1].output[1], "4x10x6x3");
    a = window(2, 2, 0);
    y = graph_average_pool2d(&graph, y, "3", &a);
    expect_shape(&graph, y, "4x10x3x1");
    y = graph_batch_norm(&graph, y, "4", 1e-5f, 0.1f);
    expect_shape(&graph, y, "4x10x3x1");
    expect_shape(&graph, graph_find_tensor(&graph, "4.running_var"), "10");
    y = graph_flatten(&graph, y, "5");
    expect_shape(&graph, y, "4x30");
    assert_int_equal(graph_flatten(&graph, y, "6"), y);
    y = graph_dropout(&graph, y, "7", 0.5f);
    y = graph_linear(&graph, y, "8", 7, true);
    expect_shape(&graph, y, "4x7");
    expect_shape(&graph, graph_find_tensor(&graph, "8.weight"), "7x30");
    assert_int_equal(graph.output, y);
    graph_cross_entropy(&graph, y);
    expect_shape(&graph, graph.target, "4");
    assert_int_equal(graph.output, y);
    assert_int_equal(graph_finish(&graph, NULL), 0);
    graph_release(&graph);
}

static void test_sequence(void **state)
{
    struct graph graph;
    int32_t y;

    (void)state;
    graph_init(&graph, 2, true);
    y = graph_input(&graph, TENSOR_INT32, (int64_t[]){5}, 1);
    y = graph_embedding(&graph, y, "0", 11, 6);
    expect_shape(&graph, y, "2x5x6");
    y = graph_linear(&graph, y, "1", 4, true);
    expect_shape(&graph, y, "2x5x4");
    expect_shape(&graph, graph_find_tensor(&graph, "1.weight"), "4x6");
    graph_mse(&graph, graph_flatten(&graph, y, "2"));
    expect_shape(&graph, graph.target, "2x20");
    graph_release(&graph);
}

/* Evaluation leaves out these nodes. */
static void test_evaluation(void **state)
{
    struct conv_attributes a = window(2, 2, 0);
    struct graph graph;
    int32_t x, y;

    (void)state;
    graph_init(&graph, 1, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){3, 4, 4}, 3);
    assert_int_equal(graph_dropout(&graph, x, "0", 0.5f), x);
    y = graph_batch_norm(&graph, x, "1", 1e-5f, 0.1f);
    assert_int_equal(graph.nodes[0].output_count, 1);
    graph_max_pool2d(&graph, y, "2", &a);
    assert_int_equal(graph.nodes[1].output_count, 1);
    assert_int_equal(graph_finish(&graph, NULL), 0);
    graph_release(&graph);
}

static void test_messages(void **state)
{
    static const int64_t image[] = {3, 8, 8}, vector[] = {20};
    struct conv_attributes a;
    struct graph graph;
    int32_t x;

    (void)state;
    x = start(&graph, 128, 1, vector);
    a = window(3, 1, 1);
    expect_failure(&graph, graph_conv2d(&graph, x, "0", 8, &a, true),
                   "layer 0 (conv2d): expects images [batch, channels, height, width], but the "
                   "input is 128x20");
    x = start(&graph, 128, 3, image);
    expect_failure(&graph, graph_linear(&graph, x, "3", 10, true),
                   "layer 3 (linear): expects [batch, features], but the input is 128x3x8x8; put a "
                   "flatten layer before it");
    x = start(&graph, 128, 3, image);
    a = window(9, 1, 0);
    expect_failure(&graph, graph_conv2d(&graph, x, "1", 8, &a, true),
                   "layer 1 (conv2d): a window of 9x9 does not fit into the input 128x3x8x8 with "
                   "padding 0x0");
    x = start(&graph, 128, 3, image);
    a = window(3, 1, 1);
    a.groups = 2;
    expect_failure(&graph, graph_conv2d(&graph, x, "1", 8, &a, true),
                   "layer 1 (conv2d): 2 groups do not divide the 3 channels of the input 128x3x8x8 "
                   "and the 8 channels of the result");
    x = start(&graph, 128, 3, image);
    a = window(2, 0, 0);
    expect_failure(&graph, graph_max_pool2d(&graph, x, "1", &a),
                   "layer 1 (max_pool2d): kernel 2, stride 0, dilation 1 must be at least 1, "
                   "padding 0 at least 0");
    x = start(&graph, 128, 3, image);
    a = window(3, 1, 2);
    expect_failure(&graph, graph_average_pool2d(&graph, x, "1", &a),
                   "layer 1 (average_pool2d): padding 2x2 exceeds half of the kernel 3x3");
    x = start(&graph, 128, 1, vector);
    expect_failure(&graph, graph_add(&graph, x, graph_linear(&graph, x, "0", 16, true), "1"),
                   "layer 1 (add): the shapes 128x20 and 128x16 differ");
    x = start(&graph, 1, 1, vector);
    expect_failure(&graph, graph_batch_norm(&graph, x, "1", 1e-5f, 0.1f),
                   "layer 1 (batch_norm): training needs more than one value per channel, but the "
                   "input is 1x20; use a larger batch");
    x = start(&graph, 128, 1, vector);
    expect_failure(&graph, graph_embedding(&graph, x, "0", 10, 4),
                   "layer 0 (embedding): expects whole numbers (indices), but the input 128x20 "
                   "holds float32 values");
    x = start(&graph, 128, 1, vector);
    expect_failure(&graph, graph_dropout(&graph, x, "0", 1.0f),
                   "layer 0 (dropout): the probability 1 lies outside of 0 (included) to 1 "
                   "(excluded)");
    x = start(&graph, 128, 3, image);
    expect_failure(&graph, graph_channel_scale(&graph, x, x, "0"),
                   "layer 0 (channel_scale): the scale 128x3x8x8 does not have one number for each "
                   "channel of 128x3x8x8");
    x = start(&graph, 128, 3, image);
    expect_failure(&graph, graph_layer_norm(&graph, x, "0", 1e-5f, true),
                   "layer 0 (layer_norm): expects [batch, features] or [batch, length, features], "
                   "but the input is 128x3x8x8");
    x = start(&graph, 128, 1, vector);
    expect_failure(
        &graph,
        graph_add_rms_norm(&graph, graph_linear(&graph, x, "0", 7, true), x, "1", 1e-5f, NULL),
        "layer 1 (add_rms_norm): the shapes 128x7 and 128x20 differ");
    x = start(&graph, 128, 3, image);
    expect_failure(&graph,
                   graph_set_initializer(&graph, x, (struct initializer){.kind = INITIALIZER_ONES}),
                   "the graph has no parameter 0");
    x = start(&graph, 128, 3, image);
    expect_failure(&graph, graph_cross_entropy(&graph, x),
                   "the loss (cross_entropy) expects [batch, classes], but the last layer gives "
                   "128x3x8x8; put a flatten layer before it");
    x = start(&graph, 128, 1, vector);
    expect_failure(&graph, graph_linear(&graph, x, "0", INT64_MAX / 2, true),
                   "the tensor '0.weight' would have the impossible shape 4611686018427387903x20");
    graph_init(&graph, 0, true);
    expect_failure(&graph, graph_input(&graph, TENSOR_FLOAT32, vector, 1),
                   "the batch size is 0, it must be at least 1");
}

/* Images lie in memory in an order that the device chooses, a parameter as one row. */
static void test_broadcast_of_images(void **state)
{
    const struct broadcast_attributes how = {BROADCAST_ADD, 1, 128, 1};
    const struct graph_shape shape = {.rank = 1, .extent = {128}};
    struct graph graph;
    int32_t x, parameter;

    (void)state;
    x = start(&graph, 2, 3, (int64_t[]){8, 4, 4});
    parameter =
        graph_parameter(&graph, "p", &shape, (struct initializer){.kind = INITIALIZER_ONES});
    expect_shape(&graph, graph_broadcast(&graph, x, x, &how, "0"), "2x8x4x4");
    x = graph_flatten(&graph, x, "1");
    expect_shape(&graph, graph_broadcast(&graph, x, parameter, &how, "2"), "2x128");
    graph_release(&graph);
    x = start(&graph, 2, 3, (int64_t[]){8, 4, 4});
    parameter =
        graph_parameter(&graph, "p", &shape, (struct initializer){.kind = INITIALIZER_ONES});
    expect_failure(&graph, graph_broadcast(&graph, x, parameter, &how, "0"),
                   "layer 0 (broadcast): the shapes 2x8x4x4 and 128 do not fit each other");
}

/* The first failure stays. Later calls neither crash nor replace it. */
static void test_sticky_error(void **state)
{
    struct conv_attributes a = window(3, 1, 0);
    struct graph graph;
    int32_t x;

    (void)state;
    x = start(&graph, 2, 1, (int64_t[]){5});
    x = graph_conv2d(&graph, x, "0", 4, &a, true);
    x = graph_max_pool2d(&graph, x, "1", &a);
    x = graph_linear(&graph, graph_flatten(&graph, x, "2"), "3", 0, true);
    graph_cross_entropy(&graph, graph_add(&graph, x, x, "4"));
    assert_int_equal(graph_differentiate(&graph, NULL), -EINVAL);
    expect_failure(&graph, x,
                   "layer 0 (conv2d): expects images [batch, channels, height, width], but the "
                   "input is 2x5");
}

static void test_invariants(void **state)
{
    struct graph graph;
    struct error error = {0};
    int32_t x;

    (void)state;
    x = start(&graph, 2, 1, (int64_t[]){5});
    x = graph_linear(&graph, x, "0", 5, true);
    graph_linear(&graph, x, "0", 5, true);
    assert_int_equal(graph_finish(&graph, &error), -EINVAL);
    assert_string_equal(error.text, "two tensors are named '0.bias'");
    graph_release(&graph);

    x = start(&graph, 2, 1, (int64_t[]){5});
    x = graph_activation(&graph, x, "0", ACTIVATION_RELU);
    x = graph_activation(&graph, x, "1", ACTIVATION_RELU);
    graph.nodes[0].input[0] = x;
    assert_int_equal(graph_finish(&graph, &error), -EINVAL);
    assert_string_equal(error.text, "input 0 of layer 0 (activation) is used before it is made");
    graph_release(&graph);
}

struct moments {
    double mean, deviation, lowest, highest;
};

static struct moments draw_moments(const struct graph *graph, const char *name, uint64_t seed)
{
    int32_t id = graph_find_tensor(graph, name);
    int64_t count = graph_shape_elements(&graph->tensors[id].shape);
    float *values = malloc((size_t)count * sizeof *values);
    struct moments m = {.lowest = INFINITY, .highest = -INFINITY};
    double squares = 0;

    graph_initial_values(graph, id, seed, values);
    for (int64_t i = 0; i < count; i++) {
        m.mean += (double)values[i] / (double)count;
        squares += (double)values[i] * (double)values[i] / (double)count;
        m.lowest = fmin(m.lowest, (double)values[i]);
        m.highest = fmax(m.highest, (double)values[i]);
    }
    m.deviation = sqrt(squares - m.mean * m.mean);
    free(values);
    return m;
}

/* The initial values of a state-space model's steps: softplus of them lies log-uniformly between
 * 0.001 and 0.1. */
static void test_initial_steps(void **state)
{
    const double span = log(100.0);
    double mean = 0, squares = 0;
    static float values[4096];
    struct graph graph;

    (void)state;
    graph_linear(&graph, start(&graph, 2, 1, (int64_t[]){3}), "0", 4096, true);
    int32_t bias = graph_find_tensor(&graph, "0.bias");
    graph_set_initializer(&graph, bias, (struct initializer){.kind = INITIALIZER_STEP_LOGITS});
    graph_initial_values(&graph, bias, 3, values);
    for (int i = 0; i < 4096; i++) {
        double place = log(log1p(exp((double)values[i])) / 0.001) / span;

        assert_true(place > -1e-4 && place < 1 + 1e-4);
        mean += place / 4096;
        squares += place * place / 4096;
    }
    assert_true(fabs(mean - 0.5) < 5 * sqrt(1.0 / 12 / 4096));
    assert_true(fabs(squares - mean * mean - 1.0 / 12) < 0.006);
    graph_release(&graph);
}

/* PyTorch's defaults. Tolerances are five standard deviations of the estimate. */
static void test_initial_values(void **state)
{
    struct graph graph, evaluation;
    struct conv_attributes a = window(3, 1, 1);
    struct moments m;
    int32_t x;

    (void)state;
    x = start(&graph, 2, 3, (int64_t[]){7, 8, 8});
    x = graph_conv2d(&graph, x, "0", 160, &a, true);
    x = graph_batch_norm(&graph, x, "1", 1e-5f, 0.1f);
    graph_linear(&graph, graph_flatten(&graph, x, "2"), "3", 3, true);
    m = draw_moments(&graph, "0.weight", 42); /* uniform, fan-in 63: deviation is bound / sqrt 3 */
    assert_true(m.lowest >= -1 / sqrt(63) && m.lowest < -0.99 / sqrt(63));
    assert_true(m.highest < 1 / sqrt(63) && m.highest > 0.99 / sqrt(63));
    assert_true(fabs(m.mean) < 5 / sqrt(63 * 3) / sqrt(160 * 63));
    assert_true(fabs(m.deviation * sqrt(63 * 3) - 1) < 0.03);
    m = draw_moments(&graph, "0.bias", 42);
    assert_true(m.lowest >= -1 / sqrt(63) && m.highest < 1 / sqrt(63) && m.deviation > 0.05);
    m = draw_moments(&graph, "1.weight", 42);
    assert_true(m.lowest == 1 && m.highest == 1);
    m = draw_moments(&graph, "1.running_var", 42);
    assert_true(m.lowest == 1 && m.highest == 1);
    m = draw_moments(&graph, "1.bias", 42);
    assert_true(m.lowest == 0 && m.highest == 0);

    /* the same seed gives all graphs of a model the same values, and another seed others */
    graph_init(&evaluation, 9, false);
    x = graph_input(&evaluation, TENSOR_FLOAT32, (int64_t[]){7, 8, 8}, 3);
    graph_conv2d(&evaluation, x, "0", 160, &a, true);
    assert_true(draw_moments(&graph, "0.weight", 42).mean ==
                draw_moments(&evaluation, "0.weight", 42).mean);
    assert_true(draw_moments(&graph, "0.weight", 42).mean !=
                draw_moments(&graph, "0.weight", 43).mean);
    graph_release(&graph);
    graph_release(&evaluation);

    graph_init(&graph, 2, true);
    x = graph_input(&graph, TENSOR_INT32, (int64_t[]){4}, 1);
    graph_embedding(&graph, x, "0", 1001, 10);
    m = draw_moments(&graph, "0.weight", 7);
    assert_true(fabs(m.mean) < 0.05 && fabs(m.deviation - 1) < 0.04);
    assert_true(m.highest > 3 && m.highest < 6 && m.lowest < -3 && m.lowest > -6);
    graph_release(&graph);
}

/* Linear 20 -> 16 -> 3 by hand. */
static void test_cost(void **state)
{
    struct optimizer_config sgd = {.kind = OPTIMIZER_SGD};
    struct graph_cost cost;
    struct cost total;
    struct graph graph;
    int32_t x;

    (void)state;
    x = start(&graph, 32, 1, (int64_t[]){20});
    x = graph_linear(&graph, x, "0", 16, true);
    x = graph_activation(&graph, x, "1", ACTIVATION_RELU);
    graph_cross_entropy(&graph, graph_linear(&graph, x, "2", 3, true));
    assert_int_equal(graph_differentiate(&graph, NULL), 0);
    assert_int_equal(graph_add_optimizer(&graph, &sgd, NULL), 0);
    graph_cost_measure(&graph, &cost);
    assert_int_equal(cost.parameters, 20 * 16 + 16 + 16 * 3 + 3);
    assert_true(cost.cost[GRAPH_FORWARD][COST_LINEAR].flops ==
                2 * 32 * (20 * 16 + 16 * 3) + 32 * (16 + 3));
    /* both gradients of the second layer, but only that of the weights of the first */
    assert_true(cost.cost[GRAPH_BACKWARD][COST_LINEAR].flops ==
                2 * 32 * (20 * 16 + 2 * 16 * 3) + 32 * (16 + 3));
    assert_true(cost.cost[GRAPH_FORWARD][COST_LINEAR].bytes ==
                4 * (32 * (20 + 16 + 16 + 3) + 20 * 16 + 16 + 16 * 3 + 3));
    assert_true(cost.cost[GRAPH_UPDATE][COST_OPTIMIZER].flops == 2.0 * (double)cost.parameters);
    assert_true(cost.cost[GRAPH_UPDATE][COST_OPTIMIZER].bytes == 12.0 * (double)cost.parameters);
    total = graph_cost_total(&cost, 1 << GRAPH_FORWARD | 1 << GRAPH_BACKWARD | 1 << GRAPH_UPDATE);
    assert_int_equal(total.kernels, graph.node_count);
    assert_int_equal(graph_cost_total(&cost, 1 << GRAPH_FORWARD).kernels, 4);
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_broadcast_of_images),
        cmocka_unit_test(test_sticky_error),
        cmocka_unit_test(test_invariants),
        cmocka_unit_test(test_initial_steps),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
