/* test_fusion.c: the patterns of neighbours that a kernel may compute along with its own node. They
 * are found where a backend has the ability, and nowhere else. */
#include "engine/graph/forward.h"
#include "engine/graph/fusion.h"
#include "engine/graph/image_fusion.h"
#include "engine/graph/operator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* The abilities that a backend of this test has for all its nodes. */
struct backend_says {
    const struct graph *graph;
    struct fusion_abilities product, norm;
    int32_t taken; /* a node that is fused already, or -1 */
    int32_t other; /* a tensor of another type, or -1 */
};

static struct fusion_abilities find_abilities(const void *context, int32_t node)
{
    const struct backend_says *says = context;
    const struct graph_node *n = &says->graph->nodes[node];

    if (graph_node_operator(n)->product == PRODUCT_FORWARD)
        return says->product;
    return graph_node_operator(n)->cost_class == COST_NORMALISATION ? says->norm
                                                                    : (struct fusion_abilities){0};
}

static bool is_free(const void *context, int32_t node)
{
    return node != ((const struct backend_says *)context)->taken;
}

static bool stored_alike(const void *context, int32_t a, int32_t b)
{
    const struct backend_says *says = context;

    return a == b || (a != says->other && b != says->other);
}

static struct fusion *find(const struct backend_says *says)
{
    const struct fusion_rules rules = {says, find_abilities, is_free, stored_alike};
    struct fusion *fusions = calloc((size_t)says->graph->node_count, sizeof *fusions);

    assert_non_null(fusions);
    graph_find_fusions(says->graph, &rules, fusions);
    return fusions;
}

/* Node number `rank` with the operator `op`. */
static int32_t node_of(const struct graph *graph, enum graph_op op, int rank)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == op && rank-- == 0)
            return i;
    fail_msg("no such node");
    return -1;
}

/* conv1 -> bn1 -> relu1 -> conv2 -> bn2 -> add of relu1's result -> relu2 -> loss */
static void build_residual_block(struct graph *graph)
{
    const struct conv_attributes window = {{1, 1}, {1, 1}, {1, 1}, {3, 3}, 1};
    struct error error;
    int32_t x, y;

    graph_init(graph, 2, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 8, 8}, 3);
    x = graph_batch_norm(graph, graph_conv2d(graph, x, "conv1", 8, &window, false), "bn1", 1e-5f,
                         0.1f);
    x = graph_activation(graph, x, "relu1", ACTIVATION_RELU);
    y = graph_batch_norm(graph, graph_conv2d(graph, x, "conv2", 8, &window, false), "bn2", 1e-5f,
                         0.1f);
    y = graph_activation(graph, graph_add(graph, y, x, "add"), "relu2", ACTIVATION_RELU);
    y = graph_flatten(graph, graph_global_average_pool2d(graph, y, "pool"), "flatten");
    graph_cross_entropy(graph, graph_linear(graph, y, "fc", 10, true));
    assert_int_equal(graph_differentiate(graph, &error), 0);
}

static const struct fusion_abilities all = {.activations = FUSION_ANY_ACTIVATION,
                                            .adds = true,
                                            .adds_always = true,
                                            .normalises_addend = true};

static void test_residual_block(void **state)
{
    struct graph graph;
    struct backend_says says = {&graph, {0}, all, -1, -1};
    struct fusion *fusions, *second, *first;

    (void)state;
    build_residual_block(&graph);
    fusions = find(&says);
    first = &fusions[node_of(&graph, OP_BATCH_NORM, 0)];
    assert_int_equal(first->activation, node_of(&graph, OP_ACTIVATION, 0));
    assert_int_equal(first->sum, -1);
    second = &fusions[node_of(&graph, OP_BATCH_NORM, 1)];
    assert_int_equal(second->sum, node_of(&graph, OP_ADD, 0));
    assert_int_equal(second->activation, node_of(&graph, OP_ACTIVATION, 1));
    assert_int_equal(second->addend, graph.nodes[node_of(&graph, OP_ACTIVATION, 0)].output[0]);
    /* the sum behind bn2 is not kept, so its gradient reads ReLU's result */
    second = &fusions[node_of(&graph, OP_BATCH_NORM_BACKWARD, 0)];
    assert_int_equal(second->activation_backward, node_of(&graph, OP_ACTIVATION_BACKWARD, 0));
    assert_int_equal(second->norm, -1);
    assert_int_equal(second->saved, graph.nodes[node_of(&graph, OP_ACTIVATION, 1)].output[0]);
    /* the gradient of bn1 reads x */
    first = &fusions[node_of(&graph, OP_BATCH_NORM_BACKWARD, 1)];
    assert_int_equal(first->activation_backward, node_of(&graph, OP_ACTIVATION_BACKWARD, 1));
    assert_int_equal(first->norm, node_of(&graph, OP_BATCH_NORM, 0));
    assert_int_equal(first->gradient_sum, node_of(&graph, OP_ADD, 1));
    free(fusions);
    graph_release(&graph);
}

/* Nodes stay apart if the backend cannot fuse them, if one is fused already, or if they are stored
 * differently. */
static void test_limits(void **state)
{
    struct graph graph;
    struct backend_says says = {&graph, {0}, {0}, -1, -1};
    struct fusion *fusions;
    int32_t norm, add;

    (void)state;
    build_residual_block(&graph);
    norm = node_of(&graph, OP_BATCH_NORM, 1), add = node_of(&graph, OP_ADD, 0);
    fusions = find(&says);
    for (int32_t i = 0; i < graph.node_count; i++) {
        assert_int_equal(fusions[i].activation, -1);
        assert_int_equal(fusions[i].sum, -1);
        assert_int_equal(fusions[i].activation_backward, -1);
    }
    free(fusions);

    says.norm = all;
    says.norm.adds_always = false;
    fusions = find(&says);
    assert_int_equal(fusions[node_of(&graph, OP_BATCH_NORM_BACKWARD, 1)].gradient_sum, -1);
    free(fusions);

    says.taken = add;
    fusions = find(&says);
    assert_int_equal(fusions[norm].sum, -1);
    free(fusions);

    says.taken = -1;
    says.other = graph.nodes[add].output[0];
    fusions = find(&says);
    assert_int_equal(fusions[norm].sum, -1);
    free(fusions);
    graph_release(&graph);
}

static void test_products(void **state)
{
    struct graph graph;
    struct backend_says says = {
        &graph, {.activations = FUSION_ACTIVATION(ACTIVATION_RELU)}, {0}, -1, -1};
    struct fusion *fusions;
    int32_t x;

    (void)state;
    graph_init(&graph, 2, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){8}, 1);
    x = graph_activation(&graph, graph_linear(&graph, x, "0", 8, true), "1", ACTIVATION_RELU);
    x = graph_activation(&graph, graph_linear(&graph, x, "2", 8, true), "3", ACTIVATION_TANH);
    fusions = find(&says);
    assert_int_equal(fusions[0].activation, 1);
    assert_int_equal(fusions[2].activation, -1);
    free(fusions);
    graph_release(&graph);
}

static bool convolves(const void *context, int32_t node)
{
    (void)context;
    (void)node;
    return false;
}

/* conv -> mean -> expand -> an activation, by which conv's channels are multiplied. */
static void build_gate(struct graph *graph, enum activation_kind kind)
{
    const struct conv_attributes window = {{1, 1}, {0, 0}, {1, 1}, {1, 1}, 1};
    struct error error;
    int32_t x, y;

    graph_init(graph, 2, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 8, 8}, 3);
    x = graph_conv2d(graph, x, "conv", 8, &window, true);
    y = graph_conv2d(graph, graph_global_average_pool2d(graph, x, "mean"), "expand", 8, &window,
                     true);
    y = graph_channel_scale(graph, x, graph_activation(graph, y, "gate", kind), "scale");
    graph_cross_entropy(graph,
                        graph_linear(graph, graph_flatten(graph, y, "flatten"), "fc", 10, true));
    assert_int_equal(graph_differentiate(graph, &error), 0);
}

/* The same, where a batch norm before the scale may add the factors to its result. */
static void build_added_gate(struct graph *graph)
{
    const struct conv_attributes window = {{1, 1}, {0, 0}, {1, 1}, {1, 1}, 1};
    struct error error;
    int32_t x, y, norm;

    graph_init(graph, 2, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 8, 8}, 3);
    x = graph_conv2d(graph, x, "conv", 8, &window, true);
    y = graph_conv2d(graph, graph_global_average_pool2d(graph, x, "mean"), "expand", 8, &window,
                     true);
    norm = graph_batch_norm(graph, y, "norm", 1e-5f, 0.1f);
    y = graph_activation(graph, y, "gate", ACTIVATION_SIGMOID);
    x = graph_channel_scale(graph, x, y, "scale");
    x = graph_channel_scale(graph, x, graph_add(graph, norm, y, "sum"), "again");
    graph_cross_entropy(graph,
                        graph_linear(graph, graph_flatten(graph, x, "flatten"), "fc", 10, true));
    assert_int_equal(graph_differentiate(graph, &error), 0);
}

/* Asserts which activations channel scales take along; -1 for none. */
static void assert_gates(const struct backend_says *says, int32_t forward, int32_t backward)
{
    const struct image_fusion_rules rules = {says, convolves, stored_alike, 0};
    const struct graph *graph = says->graph;
    struct image_fusion *fusions = calloc((size_t)graph->node_count, sizeof *fusions);

    assert_non_null(fusions);
    graph_find_image_fusions(graph, &rules, fusions);
    assert_int_equal(fusions[node_of(graph, OP_CHANNEL_SCALE, 0)].gate, forward);
    assert_int_equal(fusions[node_of(graph, OP_CHANNEL_SCALE_BACKWARD, 0)].gate, backward);
    free(fusions);
}

static void test_gates(void **state)
{
    struct graph graph;
    struct backend_says says = {&graph, {0}, {0}, -1, -1};
    int32_t forward, backward;

    (void)state;
    build_gate(&graph, ACTIVATION_SIGMOID);
    forward = node_of(&graph, OP_ACTIVATION, 0);
    backward = node_of(&graph, OP_ACTIVATION_BACKWARD, 0);
    assert_gates(&says, forward, backward);
    says.other = graph.nodes[backward].output[0];
    assert_gates(&says, forward, -1);
    graph_release(&graph);

    says.other = -1;
    build_gate(&graph, ACTIVATION_RELU); /* it belongs to the product before it */
    assert_gates(&says, -1, node_of(&graph, OP_ACTIVATION_BACKWARD, 0));
    graph_release(&graph);

    build_added_gate(&graph);
    assert_gates(&says, -1, -1);
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_residual_block),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_gates),
    };

    return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
