/* test_squeeze_excite.c: squeeze and excite is found, forward and backward, where one launch can
 * compute it; and not where another node needs a result that the launch does not make in time. */
#include "engine/graph/forward.h"
#include "engine/graph/operator.h"
#include "engine/graph/squeeze_excite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a case changes of the block. */
enum oddity {
    NONE,
    POOLS_ANOTHER,  /* the averages are of another image than that which is scaled */
    POOLS_WINDOWS,  /* the pool is not of all pixels */
    NO_ACTIVATION,  /* there is none between the layers */
    READS_AVERAGES, /* something else reads the averages before the scale */
    READS_LATER,    /* something else reads the factors behind the scale */
    ADDS_LATER      /* so does a sum that a batch norm before the scale may compute */
};

static int32_t product(struct graph *graph, int32_t x, const char *name, int channels)
{
    const struct conv_attributes pixel = {
        .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};

    return graph_conv2d(graph, x, name, channels, &pixel, true);
}

static int32_t factors_of(struct graph *graph, int32_t x, enum oddity oddity, int32_t *averages)
{
    static const struct conv_attributes window = {
        .kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}, .groups = 1};
    int32_t y = oddity == POOLS_WINDOWS ? graph_average_pool2d(graph, x, "windows", &window) : x;

    y = graph_global_average_pool2d(graph, y, "averages");
    *averages = y;
    y = product(graph, y, "reduce", 4);
    if (oddity != NO_ACTIVATION)
        y = graph_activation(graph, y, "activation", ACTIVATION_RELU);
    y = product(graph, y, "expand", 8);
    return graph_activation(graph, y, "gate", ACTIVATION_SIGMOID);
}

static void build(struct graph *graph, enum oddity oddity)
{
    struct error error;
    int32_t input, x, y, averages, factors, other = -1;

    graph_init(graph, 2, true);
    input = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 6, 6}, 3);
    x = product(graph, input, "image", 8);
    factors = factors_of(graph, oddity == POOLS_ANOTHER ? product(graph, input, "other", 8) : x,
                         oddity, &averages);
    if (oddity == READS_AVERAGES)
        factors = graph_add(graph, factors, averages, "more");
    if (oddity == ADDS_LATER)
        other = graph_batch_norm(
            graph, graph_global_average_pool2d(graph, product(graph, input, "other", 8), "small"),
            "norm", 1e-5f, 0.1f);
    y = graph_channel_scale(graph, x, factors, "scale");
    if (oddity == ADDS_LATER)
        y = graph_channel_scale(graph, y, graph_add(graph, other, factors, "sum"), "again");
    if (oddity == READS_LATER)
        y = graph_channel_scale(graph, y, factors, "again");
    graph_cross_entropy(graph,
                        graph_linear(graph, graph_flatten(graph, y, "flatten"), "fc", 10, true));
    assert_int_equal(graph_differentiate(graph, &error), 0);
}

/* The only node of that operator. */
static int32_t node_of(const struct graph *graph, enum graph_op op)
{
    int32_t found = -1;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == op) {
            assert_int_equal(found, -1);
            found = i;
        }
    assert_true(found >= 0);
    return found;
}

/* How many blocks are found. */
static int count_found(const struct graph *graph, bool backward)
{
    struct squeeze_excite_nodes nodes;
    int count = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        count += backward ? graph_find_squeeze_excite_backward(graph, i, &nodes)
                          : graph_find_squeeze_excite(graph, i, &nodes);
    return count;
}

static void test_the_block(void **state)
{
    struct squeeze_excite_nodes forward, backward;
    struct graph graph;

    (void)state;
    build(&graph, NONE);
    assert_true(graph_find_squeeze_excite(&graph, node_of(&graph, OP_CHANNEL_SCALE), &forward));
    assert_int_equal(forward.pool, node_of(&graph, OP_AVERAGE_POOL2D));
    assert_int_equal(forward.sum, -1);
    assert_true(forward.pool < forward.reduce && forward.reduce < forward.activation &&
                forward.activation < forward.expand && forward.expand < forward.gate &&
                forward.gate < forward.scale);
    assert_true(graph_find_squeeze_excite_backward(
        &graph, node_of(&graph, OP_CHANNEL_SCALE_BACKWARD), &backward));
    assert_int_equal(backward.pool, node_of(&graph, OP_AVERAGE_POOL2D_BACKWARD));
    assert_int_equal(backward.sum, node_of(&graph, OP_ADD));
    assert_true(backward.scale < backward.gate && backward.gate < backward.expand &&
                backward.expand < backward.activation && backward.activation < backward.reduce &&
                backward.reduce < backward.pool && backward.pool < backward.sum);
    graph_release(&graph);
}

/* The backward part reads the averages and what is between the layers for the weights' gradients,
 * but not what ReLU makes of its operand's sum. */
static void test_what_is_read(void **state)
{
    struct squeeze_excite_nodes nodes;
    struct graph graph;

    (void)state;
    build(&graph, NONE);
    assert_true(graph_find_squeeze_excite(&graph, node_of(&graph, OP_CHANNEL_SCALE), &nodes));
    assert_true(squeeze_excite_is_read(&graph, &nodes, graph.nodes[nodes.pool].output[0]));
    assert_true(squeeze_excite_is_read(&graph, &nodes, graph.nodes[nodes.activation].output[0]));
    assert_true(squeeze_excite_is_read(&graph, &nodes, graph.nodes[nodes.gate].output[0]));
    assert_false(squeeze_excite_is_read(&graph, &nodes, graph.nodes[nodes.reduce].output[0]));
    assert_false(squeeze_excite_is_read(&graph, &nodes, graph.nodes[nodes.expand].output[0]));
    graph_release(&graph);
}

static void assert_found(enum oddity oddity, int forward, int backward)
{
    struct graph graph;

    build(&graph, oddity);
    assert_int_equal(count_found(&graph, false), forward);
    assert_int_equal(count_found(&graph, true), backward);
    graph_release(&graph);
}

static void test_limits(void **state)
{
    (void)state;
    assert_found(NONE, 1, 1);
    assert_found(POOLS_ANOTHER, 0, 0);
    assert_found(POOLS_WINDOWS, 0, 0);
    assert_found(NO_ACTIVATION, 0, 0);
    assert_found(READS_AVERAGES, 0, 0);
    assert_found(ADDS_LATER, 0, 0);
    assert_found(READS_LATER, 1, 0); /* two gradients of the factors are added up */
}

/* The second operand of some nodes is -1. What stands before the tensors must not be read. */
static void test_operands_that_are_left_out(void **state)
{
    struct graph_tensor *guarded, *tensors;
    struct graph graph;

    (void)state;
    build(&graph, NONE);
    tensors = graph.tensors;
    guarded = calloc((size_t)graph.tensor_count + 1, sizeof *guarded);
    assert_non_null(guarded);
    memcpy(guarded + 1, tensors, (size_t)graph.tensor_count * sizeof *guarded);
    guarded[0].producer = INT32_MAX;
    graph.nodes[node_of(&graph, OP_LINEAR)].input[1] = -1;
    graph.tensors = guarded + 1;
    assert_int_equal(count_found(&graph, false), 1);
    assert_int_equal(count_found(&graph, true), 1);
    graph.tensors = tensors;
    free(guarded);
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_block),
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_operands_that_are_left_out),
    };

    return cmocka_run_group_tests_name("squeeze and excite", tests, NULL, NULL);
}
