/* test_frozen.c: what frozen parameters leave out of a graph, and learning rates by depth. */
#include "engine/graph/forward.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const *lent;
static int lent_count;

/* Two convolutions with batch norms, then the head. */
static void build(struct graph *graph)
{
    const struct conv_attributes conv = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1};
    int32_t x;

    graph_init(graph, 2, true);
    graph->frozen = lent;
    graph->frozen_count = lent_count;
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){1, 8, 8}, 3);
    x = graph_conv2d(graph, x, "stem", 4, &conv, false);
    x = graph_batch_norm(graph, x, "norm", 1e-5f, 0.1f);
    x = graph_conv2d(graph, x, "blocks.0.conv", 4, &conv, false);
    x = graph_batch_norm(graph, x, "blocks.0.norm", 1e-5f, 0.1f);
    x = graph_conv2d(graph, x, "blocks.1", 4, &conv, true);
    x = graph_batch_norm(graph, x, "blocks.2", 1e-5f, 0.1f);
    x = graph_layer_norm(graph, graph_flatten(graph, x, "f"), "last", 1e-5f, true);
    graph_cross_entropy(graph, graph_linear(graph, x, "head", 3, true));
}

static int count(const struct graph *graph, enum graph_op op)
{
    int found = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        found += graph->nodes[i].op == op;
    return found;
}

static void test_left_out(void **state)
{
    static const char *const all_but_head[] = {"stem", "norm.*", "blocks", "last"},
                             *const first[] = {"stem"}, *const norm[] = {"blocks.0.norm"};
    static const struct {
        const char *const *frozen;
        int count, by_weights, by_data, norms, frozen_norms;
    } cases[] = {{NULL, 0, 3, 2, 3, 0},
                 {all_but_head, 4, 0, 0, 0, 0},
                 {first, 1, 2, 2, 3, 0}, /* norm learns, so the gradient reaches it */
                 {norm, 1, 3, 2, 2, 1}};
    struct error error = {0};
    struct graph graph;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lent = cases[i].frozen;
        lent_count = cases[i].count;
        build(&graph);
        assert_int_equal(graph_check_frozen(&graph, &error), 0);
        assert_int_equal(graph_differentiate(&graph, &error), 0);
        assert_int_equal(count(&graph, OP_CONV2D_BACKWARD_WEIGHTS), cases[i].by_weights);
        assert_int_equal(count(&graph, OP_CONV2D_BACKWARD_DATA), cases[i].by_data);
        assert_int_equal(count(&graph, OP_BATCH_NORM_BACKWARD), cases[i].norms);
        assert_int_equal(count(&graph, OP_BATCH_NORM_FROZEN_BACKWARD), cases[i].frozen_norms);
        assert_int_equal(graph_add_optimizer(&graph, &(struct optimizer_config){0}, &error), 0);
        assert_int_equal(graph_finish(&graph, &error), 0);
        graph_release(&graph);
    }
}

static void test_refused(void **state)
{
    static const char *const unknown[] = {"stem", "layer9"}, *const all[] = {"*"};
    struct error error = {0};
    struct graph graph;

    (void)state;
    lent = unknown;
    lent_count = 2;
    build(&graph);
    assert_int_equal(graph_check_frozen(&graph, &error), -EINVAL);
    assert_non_null(strstr(error.text, "train.frozen \"layer9\" matches no parameter"));
    graph_release(&graph);
    lent = all;
    lent_count = 1;
    build(&graph);
    assert_int_equal(graph_check_frozen(&graph, &error), -EINVAL);
    assert_non_null(strstr(error.text, "nothing is left to train"));
    graph_release(&graph);
}

static void test_patterns(void **state)
{
    (void)state;
    assert_true(graph_name_matches("layer1", "layer1.0.conv1.weight"));
    assert_true(graph_name_matches("layer[12]", "layer2.0.conv1.weight"));
    assert_true(graph_name_matches("*.bias", "a.b.bias"));
    assert_false(graph_name_matches("layer1", "layer10.weight"));
    assert_false(graph_name_matches("conv", "blocks.conv.weight"));
}

/* A frozen norm is repeated from its running statistics, not from moments that it did not find. */
static void test_recomputed(void **state)
{
    static const char *const norm[] = {"blocks.0.norm"};
    const struct recompute_config config = {.kind = RECOMPUTE_SEGMENTS, .segments = 2};
    struct error error = {0};
    struct graph graph;

    (void)state;
    lent = norm;
    lent_count = 1;
    build(&graph);
    assert_int_equal(graph_differentiate(&graph, &error), 0);
    assert_int_equal(graph_recompute(&graph, &config, &error), 0);
    assert_int_equal(graph_add_optimizer(&graph, &(struct optimizer_config){0}, &error), 0);
    assert_int_equal(graph_finish(&graph, &error), 0);
    for (int32_t i = 0; i < graph.node_count; i++)
        if (graph.nodes[i].op == OP_BATCH_NORM_APPLY)
            assert_true(strcmp(graph.nodes[i].name, "blocks.0.norm") != 0);
    graph_release(&graph);
}

static double rate_of(const struct graph *graph, const char *parameter)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_OPTIMIZER &&
            strcmp(graph->tensors[graph->nodes[i].input[0]].name, parameter) == 0)
            return graph->groups[graph->nodes[i].attributes.optimizer_group].learning_rate_scale;
    return NAN;
}

/* The stem with its norm, two blocks, and the head: blocks.2 and last are norms, and belong to
 * blocks.1. */
static void test_layer_decay(void **state)
{
    static const char *const biases[] = {"*.bias"};
    const struct optimizer_group groups[] = {
        {.patterns = biases, .pattern_count = 1, .learning_rate_scale = 10},
        {.learning_rate_scale = 1}};
    struct error error = {0};
    struct graph graph;

    (void)state;
    lent_count = 0;
    build(&graph);
    assert_int_equal(graph_differentiate(&graph, &error), 0);
    assert_int_equal(graph_add_optimizer_groups(&graph, groups, 2, &error), 0);
    assert_int_equal(graph_decay_layers(&graph, 0.5, &error), 0);
    assert_true(rate_of(&graph, "stem.weight") == 0.125);
    assert_true(rate_of(&graph, "norm.weight") == 0.125);
    assert_true(rate_of(&graph, "norm.bias") == 1.25);
    assert_true(rate_of(&graph, "blocks.0.conv.weight") == 0.25);
    assert_true(rate_of(&graph, "blocks.0.norm.weight") == 0.25);
    assert_true(rate_of(&graph, "blocks.1.weight") == 0.5);
    assert_true(rate_of(&graph, "blocks.2.weight") == 0.5);
    assert_true(rate_of(&graph, "last.weight") == 0.5);
    assert_true(rate_of(&graph, "head.weight") == 1);
    assert_true(rate_of(&graph, "head.bias") == 10);
    assert_int_equal(graph.group_count, 8);
    graph_release(&graph);

    graph_init(&graph, 2, true);
    graph_mse(&graph, graph_linear(&graph, graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){4}, 1),
                                   "fc", 4, true));
    assert_int_equal(graph_differentiate(&graph, &error), 0);
    assert_int_equal(graph_add_optimizer(&graph, &(struct optimizer_config){0}, &error), 0);
    assert_int_equal(graph_decay_layers(&graph, 0.5, &error), -EINVAL);
    assert_non_null(strstr(error.text, "one depth"));
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_recomputed),
        cmocka_unit_test(test_layer_decay)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
