/* test_memory_plan.c: memory plans of small graphs, whose answers are known. */
#include "engine/graph/forward.h"
#include "engine/graph/memory_plan.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The request of a graph whose tensors have their plain sizes, and of which nothing is fused. */
struct plain_request {
    struct memory_request request;
    size_t *tensor_bytes; /* owned */
};

static void request_make(const struct graph *graph, struct plain_request *plain)
{
    plain->tensor_bytes = calloc((size_t)graph->tensor_count, sizeof(size_t));
    for (int32_t i = 0; i < graph->tensor_count; i++)
        plain->tensor_bytes[i] = (size_t)graph_shape_elements(&graph->tensors[i].shape) *
                                 tensor_type_bytes(graph->tensors[i].type);
    plain->request = (struct memory_request){.graph = graph, .tensor_bytes = plain->tensor_bytes};
}

/* Evaluation of four ReLUs in a row works on one stretch of memory. */
static void test_in_place(void **state)
{
    struct graph graph;
    struct plain_request plain;
    struct memory_plan plan;
    int32_t x, first;

    (void)state;
    graph_init(&graph, 16, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){16}, 1);
    first = x = graph_linear(&graph, x, "0", 16, false);
    for (int i = 0; i < 4; i++)
        x = graph_activation(&graph, x, "r", ACTIVATION_RELU);
    request_make(&graph, &plain);
    assert_int_equal(memory_plan_make(&plain.request, 1, 0, &plan, NULL), 0);
    assert_int_equal(plan.placements[0].tensor_offset[x], plan.placements[0].tensor_offset[first]);
    assert_int_equal(plan.arena_bytes, 3 * 16 * 16 * 4); /* weight, input, result */
    assert_int_equal(plan.class_bytes[MEMORY_WEIGHTS], 16 * 16 * 4);
    assert_int_equal(plan.class_bytes[MEMORY_STAGING], 16 * 16 * 4);
    assert_int_equal(plan.class_bytes[MEMORY_ACTIVATIONS], 16 * 16 * 4);
    assert_true(plan.staging_offset == SIZE_MAX);
    memory_plan_release(&plan);
    free(plain.tensor_bytes);
    graph_release(&graph);
}

/* The gradient by scaled images takes over that of the result, never the images or the scale,
 * though the bytes agree (1x1 images). */
static void test_channel_scale(void **state)
{
    const struct graph_node *node;
    struct graph graph;
    struct plain_request plain;
    struct memory_plan plan;
    const size_t *offset;
    int32_t x, scale;

    (void)state;
    graph_init(&graph, 16, true);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){16, 1, 1}, 3);
    x = graph_batch_norm(&graph, x, "0", 1e-5f, 0.1f);
    scale = graph_activation(&graph, x, "1", ACTIVATION_SIGMOID);
    x = graph_channel_scale(&graph, x, scale, "2");
    graph_mse(&graph,
              graph_flatten(&graph, graph_activation(&graph, x, "3", ACTIVATION_TANH), "4"));
    assert_int_equal(graph_differentiate(&graph, NULL), 0);
    request_make(&graph, &plain);
    assert_int_equal(memory_plan_make(&plain.request, 1, 0, &plan, NULL), 0);
    offset = plan.placements[0].tensor_offset;
    for (int32_t i = 0; i < graph.node_count; i++) {
        node = &graph.nodes[i];
        if (node->op != OP_CHANNEL_SCALE_BACKWARD)
            continue;
        assert_int_equal(offset[node->output[0]], offset[node->input[0]]);
        for (int k = 0; k < 3; k++)
            assert_int_not_equal(offset[node->output[1]], offset[node->input[k]]);
    }
    memory_plan_release(&plan);
    free(plain.tensor_bytes);
    graph_release(&graph);
}

/* Nothing is overwritten that is still needed: samples stay for the next run, the graph's output is
 * read after it, and nodes that run as one read and write at the same time. */
static void test_never_in_place(void **state)
{
    struct graph graph;
    struct plain_request plain;
    struct memory_plan plan;
    int32_t x, a, b, c, d;
    const size_t *offset;

    (void)state;
    graph_init(&graph, 16, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){16}, 1);
    a = graph_activation(&graph, x, "a", ACTIVATION_RELU);
    b = graph_activation(&graph, a, "b", ACTIVATION_RELU);
    c = graph_add(&graph, b, a, "c");
    d = graph_activation(&graph, c, "d", ACTIVATION_RELU);
    graph.output = c;
    request_make(&graph, &plain);
    plain.request.node_step = (int32_t[]){0, 1, 1, 2}; /* b and c as one */
    assert_int_equal(memory_plan_make(&plain.request, 1, 0, &plan, NULL), 0);
    offset = plan.placements[0].tensor_offset;
    assert_int_not_equal(offset[a], offset[x]);
    assert_int_not_equal(offset[b], offset[a]);
    assert_int_not_equal(offset[d], offset[c]);
    memory_plan_release(&plan);
    free(plain.tensor_bytes);
    graph_release(&graph);
}

static void build_linear(struct graph *graph, int64_t features, const char *name)
{
    graph_init(graph, 4, false);
    graph_linear(graph, graph_input(graph, TENSOR_FLOAT32, (int64_t[]){16}, 1), name, features,
                 false);
}

/* Graphs of one session that do not belong together are told apart by a sentence. */
static void test_different_graphs(void **state)
{
    static const struct {
        int64_t features;
        const char *name, *part;
    } cases[] = {{16, "other", "no tensor 'other.weight'"},
                 {32, "0", "1024 bytes in the first and 2048"}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct graph graphs[2];
        struct plain_request plain[2];
        struct memory_plan plan;
        struct error error = {0};

        build_linear(&graphs[0], 16, "0");
        build_linear(&graphs[1], cases[i].features, cases[i].name);
        for (int k = 0; k < 2; k++)
            request_make(&graphs[k], &plain[k]);
        assert_int_equal(
            memory_plan_make((struct memory_request[]){plain[0].request, plain[1].request}, 2, 0,
                             &plan, &error),
            -EINVAL);
        assert_non_null(strstr(error.text, cases[i].part));
        for (int k = 0; k < 2; k++) {
            free(plain[k].tensor_bytes);
            graph_release(&graphs[k]);
        }
    }
}

/* A cast to smaller elements leaves its operand alone, however few there are: 16 of 4 bytes and 16
 * of 2 take one unit of alignment both, but the threads of a cast would write where others still
 * read. */
static void test_cast_to_smaller_elements(void **state)
{
    struct plain_request plain;
    struct memory_plan plan;
    struct error error = {0};
    struct graph graph;
    int32_t x;

    (void)state;
    graph_init(&graph, 4, false);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){8}, 1);
    x = graph_linear(&graph, graph_linear(&graph, x, "0", 4, true), "1", 4, true);
    graph_mse(&graph, x);
    assert_int_equal(graph_lower_precision(&graph, TENSOR_BFLOAT16, &error), 0);
    assert_int_equal(graph_finish(&graph, &error), 0);
    request_make(&graph, &plain);
    assert_int_equal(memory_plan_make(&plain.request, 1, 0, &plan, &error), 0);
    for (int32_t i = 0; i < graph.node_count; i++) {
        const struct graph_node *node = &graph.nodes[i];
        const size_t *offset = plan.placements[0].tensor_offset;

        if (node->op == OP_CAST)
            assert_int_not_equal(offset[node->input[0]], offset[node->output[0]]);
    }
    memory_plan_release(&plan);
    free(plain.tensor_bytes);
    graph_release(&graph);
}

/* A model beyond any memory is refused instead of overflowing. */
static void test_absurd_size(void **state)
{
    struct graph graph;
    struct plain_request plain;
    struct memory_plan plan;
    struct error error = {0};

    (void)state;
    graph_init(&graph, 1, false);
    graph_linear(&graph, graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){1000000000}, 1), "0",
                 100000000, false);
    request_make(&graph, &plain);
    plain.tensor_bytes[0] = SIZE_MAX / 2;
    assert_int_not_equal(memory_plan_make(&plain.request, 1, 0, &plan, &error), 0);
    assert_non_null(strstr(error.text, "more memory than any machine has"));
    free(plain.tensor_bytes);
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_channel_scale),
        cmocka_unit_test(test_never_in_place),
        cmocka_unit_test(test_different_graphs),
        cmocka_unit_test(test_cast_to_smaller_elements),
        cmocka_unit_test(test_absurd_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
