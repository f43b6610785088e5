/* test_prediction.c: how calls of operators are compared, the table of their measured rates, and
 * predictions from it and from the ceilings. The figures are made up: this test measures
 * nothing. */
#include "engine/graph/cost.h"
#include "engine/graph/forward.h"
#include "engine/train/calibration.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct error error;

static void add(struct operator_rates *rates, const char *kind, double samples, double columns,
                double work, double seconds)
{
    struct operator_rate entry = {.call = {.extents = {samples, 1, 1, columns}, .work = work},
                                  .seconds = seconds};

    strcpy(entry.call.kind, kind);
    assert_int_equal(operator_rates_add(rates, &entry, &error), 0);
}

static double ask(const struct operator_rates *rates, const char *kind, double samples,
                  double columns, double work)
{
    struct operator_call call = {.extents = {samples, 1, 1, columns}, .work = work};

    strcpy(call.kind, kind);
    return operator_rates_seconds(rates, &call);
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

/* The parts of two tasks, which one lane runs. */
static void test_calls(void **state)
{
    static const struct {
        const char *kind;
        double extents[OPERATOR_EXTENTS], work;
    } expected[] = {
        {"conv2d own 3x3/2", {2, 16, 27, 16}, 2 * 2.0 * 16 * 16 * 27},
        {"batch_norm own", {2, 16, 1, 16}, (4 * 256 * 2 + 6 * 16) * 4 / 2.0},
        {"activation relu own", {2, 16, 1, 16}, 4 * 256 * 2 * 4 / 2.0},
        {"conv2d own groups 3x3/1", {2, 16, 9, 16}, 2 * 2.0 * 16 * 16 * 9},
        {"add own", {2, 16, 1, 16}, 4 * 256 * 3 * 4 / 2.0},
        {"reshape own", {2, 1, 1, 256}, 4 * 256 * 2 * 4 / 2.0},
        {"linear own", {2, 1, 256, 10}, 4 * 10 * (2 * 256 + 1) / 2.0},
    };
    struct node_description description = {.method = "own", .tasks = 2, .lanes = 1};
    struct operator_call call;
    struct graph graph;
    double repetitions;

    (void)state;
    build(&graph);
    for (int i = 0; i < (int)(sizeof expected / sizeof *expected); i++) {
        operator_call_describe(&graph, i, &description, &call, &repetitions);
        assert_string_equal(call.kind, expected[i].kind);
        for (int k = 0; k < OPERATOR_EXTENTS; k++)
            assert_true(call.extents[k] == expected[i].extents[k]);
        assert_true(repetitions == 2);
        if (i != 1)
            assert_true(near(call.work, expected[i].work));
    }
    operator_call_describe(&graph, graph.node_count - 1, &description, &call, &repetitions);
    assert_string_equal(call.kind, "optimizer adam own");
    description.absorbed = true;
    operator_call_describe(&graph, 2, &description, &call, &repetitions);
    assert_true(repetitions == 0);
    graph_release(&graph);
}

static void test_rates(void **state)
{
    struct operator_rates rates = {0};
    double between;

    (void)state;
    add(&rates, "linear product", 16, 64, 1000, 1e-6);
    add(&rates, "linear product", 16, 65, 1000, 9e-6); /* nearly the same call: it is left out */
    assert_int_equal(rates.count, 1);
    /* with one call only, the time is proportional to the work, whatever the extents are */
    assert_true(near(ask(&rates, "linear product", 16, 64, 1000), 1e-6));
    assert_true(near(ask(&rates, "linear other", 999, 7, 3000), 3e-6));
    /* between two calls at the same distance the mean of the rates' logarithms; beyond them a
     * slope */
    add(&rates, "linear product", 16, 256, 4000, 16e-6);
    between = ask(&rates, "linear product", 16, 128, 2000);
    assert_true(near(between, sqrt(1e-9 * 4e-9) * 2000));
    assert_true(ask(&rates, "linear product", 16, 512, 8000) / 8000 > between / 2000);
    /* a call with the same method counts for more than one with nearer extents */
    add(&rates, "conv2d winograd 3x3/1", 16, 64, 1000, 1e-6);
    add(&rates, "conv2d gemm 3x3/1", 16, 128, 1000, 100e-6);
    assert_true(ask(&rates, "conv2d winograd 3x3/1", 16, 128, 1000) < 2e-6);
    assert_true(ask(&rates, "conv2d gemm 5x5/1", 16, 64, 1000) > 50e-6);
    assert_true(ask(&rates, "add", 16, 64, 1000) < 0);
    assert_true(ask(&rates, "add", 16, 64, 0) == 0);
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

/* Without rates, a node takes the time of the ceiling that bounds it, and that of a kernel. A rate
 * replaces both. */
static void test_prediction(void **state)
{
    struct calibration calibration = {.flops_per_second = {1e9},
                                      .bandwidths = {{1, 1e9}},
                                      .kernel_seconds = 1e-6,
                                      .launch_seconds = 1e-5};
    struct node_description description = {.method = "product", .tasks = 4, .lanes = 2};
    struct graph graph;
    struct cost cost;

    (void)state;
    build(&graph);
    cost = graph_node_cost(&graph, &graph.nodes[6]);
    assert_true(near(calibration_node_seconds(&calibration, &graph, 6, &description),
                     1.1e-5 + fmax(cost.flops, cost.bytes) * 1e-9));
    add(&calibration.rates, "linear product", 1, 10, cost.flops / 4, 0.25);
    assert_true(
        near(calibration_node_seconds(&calibration, &graph, 6, &description), 1e-5 + 0.25 * 2));
    description.absorbed = true;
    assert_true(near(calibration_node_seconds(&calibration, &graph, 6, &description), 1e-5));
    calibration_release(&calibration);
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls), cmocka_unit_test(test_rates),
                                       cmocka_unit_test(test_ceilings),
                                       cmocka_unit_test(test_prediction)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
