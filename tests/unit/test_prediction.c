/* test_prediction.c: kinds of operators, the table of their measured rates, and what is predicted
 * from it and from the ceilings. The figures are made up: nothing is measured here. */
#include "engine/train/calibration.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct error error;

static void add(struct operator_rates *rates, enum tensor_type type, const char *kind, double calls,
                double work, double seconds)
{
    struct operator_rate entry = {
        .compute_type = type, .calls = calls, .work = calls * work, .seconds = calls * seconds};

    strcpy(entry.kind, kind);
    assert_int_equal(operator_rates_add(rates, &entry, &error), 0);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void build(struct graph *graph)
{
    static const struct conv_attributes three = {
        .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1};
    struct conv_attributes depthwise = three;
    struct optimizer_config adam = {.kind = OPTIMIZER_ADAM};
    int32_t x, y;

    depthwise.groups = 16;
    depthwise.stride[0] = depthwise.stride[1] = 1;
    graph_init(graph, 4, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 8, 8}, 3);
    x = graph_conv2d(graph, x, "stem", 16, &three, false);
    x = graph_batch_norm(graph, x, "norm", 1e-5f, 0.1f);
    x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
    y = graph_conv2d(graph, x, "depthwise", 16, &depthwise, false);
    x = graph_add(graph, x, y, "sum");
    x = graph_flatten(graph, x, "flatten");
    graph_cross_entropy(graph, graph_linear(graph, x, "head", 10, true));
    if (graph_differentiate(graph, &error) || graph_add_optimizer(graph, &adam, &error) ||
        graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

static void test_kinds(void **state)
{
    static const struct {
        enum graph_op op;
        const char *kind;
    } expected[] = {
        {OP_CONV2D, "conv2d stem 3x3/2"},
        {OP_BATCH_NORM, "batch_norm"},
        {OP_ACTIVATION, "activation relu batch_norm"},
        {OP_CONV2D, "conv2d depthwise 3x3/1"},
        {OP_ADD, "add activation conv2d"},
        {OP_RESHAPE, "reshape add"},
        {OP_LINEAR, "linear"},
    };
    struct graph graph;
    char kind[OPERATOR_KIND_MAX];

    (void)state;
    build(&graph);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        operator_kind(&graph, &graph.nodes[i], kind);
        assert_int_equal(graph.nodes[i].op, expected[i].op);
        assert_string_equal(kind, expected[i].kind);
    }
    operator_kind(&graph, &graph.nodes[graph.node_count - 1], kind);
    assert_string_equal(kind, "optimizer adam");
    /* operations of products, bytes of the rest, and a reshape may have to copy */
    assert_true(operator_work(&graph, &graph.nodes[6]) == 4 * 10 * (2 * 16 * 4 * 4 + 1));
    assert_true(operator_work(&graph, &graph.nodes[4]) == 3 * 4 * 4 * 16 * 4 * 4);
    assert_true(operator_work(&graph, &graph.nodes[5]) == 2 * 4 * 4 * 16 * 4 * 4);
    graph_release(&graph);
}

static void test_rates(void **state)
{
    struct operator_rates rates = {0};

    (void)state;
    add(&rates, TENSOR_FLOAT32, "linear", 1, 1000, 1e-6);
    add(&rates, TENSOR_FLOAT32, "linear", 3, 100000, 4e-6);
    add(&rates, TENSOR_FLOAT32, "linear", 1, 100001, 8e-6); /* of the same size: their mean */
    add(&rates, TENSOR_FLOAT32, "conv2d", 1, 1000, 2e-6);
    add(&rates, TENSOR_BFLOAT16, "conv2d", 1, 1000, 3e-6);
    add(&rates, TENSOR_FLOAT32, "conv2d 3x3/1", 1, 1000, 5e-6);
    assert_int_equal(rates.count, 5);
    assert_true(near(operator_rates_seconds(&rates, TENSOR_FLOAT32, "linear", 1000), 1e-6));
    assert_true(near(operator_rates_seconds(&rates, TENSOR_FLOAT32, "linear", 400001.0 / 4), 5e-6));
    /* between them a power of the work: the geometric mean in the middle; beyond by the work */
    assert_true(
        near(operator_rates_seconds(&rates, TENSOR_FLOAT32, "linear", sqrt(1000 * 400001.0 / 4)),
             sqrt(5e-12)));
    assert_true(near(operator_rates_seconds(&rates, TENSOR_FLOAT32, "linear", 500), 0.5e-6));
    assert_true(near(operator_rates_seconds(&rates, TENSOR_FLOAT32, "linear", 400001), 20e-6));
    /* the nearest kind that is known, in the type, then in float32 */
    assert_true(near(operator_rates_seconds(&rates, TENSOR_FLOAT32, "conv2d 3x3/1", 1000), 5e-6));
    assert_true(near(operator_rates_seconds(&rates, TENSOR_FLOAT32, "conv2d 5x5/1", 1000), 2e-6));
    assert_true(near(operator_rates_seconds(&rates, TENSOR_BFLOAT16, "conv2d 3x3/1", 1000), 3e-6));
    assert_true(near(operator_rates_seconds(&rates, TENSOR_BFLOAT16, "linear", 1000), 1e-6));
    assert_true(operator_rates_seconds(&rates, TENSOR_FLOAT32, "add", 1000) < 0);
    operator_rates_release(&rates);
}

static void test_ceilings(void **state)
{
    const struct calibration calibration = {.flops_per_second = {1e9, 4e9},
                                            .bandwidths = {{1000, 4e9}, {100000, 2e9}}};

    (void)state;
    assert_true(calibration_bandwidth(&calibration, 1) == 4e9);
    assert_true(near(calibration_bandwidth(&calibration, 10000), 3e9));
    assert_true(calibration_bandwidth(&calibration, 1e9) == 2e9);
    assert_true(calibration_flops(&calibration, TENSOR_BFLOAT16) == 4e9);
    assert_true(calibration_flops(&calibration, TENSOR_FLOAT16) == 1e9);
}

/* Without rates every node takes what bounds it and a kernel's cost; a rate takes their place. */
static void test_prediction(void **state)
{
    struct calibration calibration = {
        .flops_per_second = {1e9}, .bandwidths = {{1, 1e9}}, .kernel_seconds = 1e-6};
    struct graph graph;
    double seconds = 0, linear = 0;

    (void)state;
    build(&graph);
    for (int32_t i = 0; i < graph.node_count; i++) {
        struct cost cost = graph_node_cost(&graph, &graph.nodes[i]);
        double own = cost.kernels ? 1e-6 + fmax(cost.flops, cost.bytes) * 1e-9 : 0;

        seconds += graph.nodes[i].phase == GRAPH_FORWARD ? own : 0;
        linear += graph.nodes[i].op == OP_LINEAR ? own : 0;
    }
    assert_true(near(calibration_predict(&calibration, &graph, PROGRAM_FORWARD), seconds));
    add(&calibration.rates, TENSOR_FLOAT32, "linear", 1, operator_work(&graph, &graph.nodes[6]),
        0.25);
    assert_true(
        near(calibration_predict(&calibration, &graph, PROGRAM_FORWARD), seconds - linear + 0.25));
    /* half as much again beside the operators */
    add(&calibration.rates, TENSOR_FLOAT32, operator_kind_beside, 1, 2, 1);
    assert_true(near(calibration_predict(&calibration, &graph, PROGRAM_FORWARD),
                     1.5 * (seconds - linear + 0.25)));
    calibration_release(&calibration);
    graph_release(&graph);
}

/* What a simulated device takes: arithmetic and memory by factors of their own, with rates and
 * without, and a start for each kernel in place of what stood beside the operators. */
static void test_scale(void **state)
{
    struct calibration real = {
        .flops_per_second = {1e9}, .bandwidths = {{1, 1e9}}, .kernel_seconds = 1e-6};
    struct calibration scaled;
    struct graph graph;
    double seconds = 0;

    (void)state;
    build(&graph);
    add(&real.rates, TENSOR_FLOAT32, "linear", 1, operator_work(&graph, &graph.nodes[6]), 0.25);
    add(&real.rates, TENSOR_FLOAT32, "batch_norm", 1, operator_work(&graph, &graph.nodes[1]), 0.5);
    add(&real.rates, TENSOR_FLOAT32, operator_kind_beside, 1, 2, 1);
    assert_int_equal(calibration_scale(&real, 10, 5, 2e-5, &scaled, &error), 0);
    for (int32_t i = 0; i < graph.node_count; i++) {
        const struct graph_node *node = &graph.nodes[i];
        struct cost cost = graph_node_cost(&graph, node);
        double own = node->op == OP_LINEAR ? 0.025
                     : node->op == OP_BATCH_NORM
                         ? 0.1
                         : 1e-7 + fmax(cost.flops / 10, cost.bytes / 5) * 1e-9;

        if (cost.kernels && node->phase == GRAPH_FORWARD)
            seconds += own + 2e-5;
    }
    assert_true(near(calibration_predict(&scaled, &graph, PROGRAM_FORWARD), seconds));
    calibration_release(&scaled);
    calibration_release(&real);
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_rates), cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_prediction), cmocka_unit_test(test_scale)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
