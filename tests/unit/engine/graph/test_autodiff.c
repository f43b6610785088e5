/* test_autodiff.c: the structure of the backward and update parts: which nodes are appended, in
 * which order, with which tensors. (test_cpu_operators and test_gradients compare their
 * numbers.) */
#include "engine/graph/forward.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* "linear activation …": the operators of a phase, in order. */
static const char *list_operators(const struct graph *graph, enum graph_phase phase)
{
    static char text[1024];
    size_t length = 0;

    text[0] = '\0';
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].phase == phase)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s",
                                       length ? " " : "", graph_op_to_string(graph->nodes[i].op));
    return text;
}

static const struct graph_node *find_node(const struct graph *graph, enum graph_op op,
                                          const char *name)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == op && strcmp(graph->nodes[i].name, name) == 0)
            return &graph->nodes[i];
    fail_msg("no %s of layer %s", graph_op_to_string(op), name);
    return NULL;
}

static void differentiate(struct graph *graph)
{
    struct error error = {0};

    if (graph_differentiate(graph, &error) || graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

static int32_t start(struct graph *graph, int64_t features)
{
    graph_init(graph, 8, true);
    return graph_input(graph, TENSOR_FLOAT32, &features, 1);
}

static void test_mlp(void **state)
{
    const struct graph_node *node;
    struct graph graph;
    int32_t x, hidden, active;

    (void)state;
    x = start(&graph, 20);
    hidden = graph_linear(&graph, x, "0", 16, true);
    active = graph_activation(&graph, hidden, "1", ACTIVATION_RELU);
    graph_cross_entropy(&graph, graph_linear(&graph, active, "2", 3, false));
    differentiate(&graph);
    /* weights come before data, and the samples have no gradient */
    assert_string_equal(list_operators(&graph, GRAPH_BACKWARD),
                        "cross_entropy_backward linear_backward_weights linear_backward_data "
                        "activation_backward linear_backward_weights");
    node = find_node(&graph, OP_LINEAR_BACKWARD_WEIGHTS, "2");
    assert_int_equal(node->input[0], active);
    assert_int_equal(node->output_count, 1);
    node = find_node(&graph, OP_LINEAR_BACKWARD_WEIGHTS, "0");
    assert_int_equal(node->input[0], x);
    assert_int_equal(node->output_count, 2);
    assert_int_equal(node->output[0],
                     graph_gradient_of(&graph, graph_find_tensor(&graph, "0.weight")));
    assert_int_equal(node->output[1], graph_find_tensor(&graph, "0.bias.gradient"));
    node = find_node(&graph, OP_ACTIVATION_BACKWARD, "1");
    assert_int_equal(node->input[1], active); /* ReLU saves its result */
    assert_int_equal(graph.input_gradient, -1);
    graph_release(&graph);
}

static void test_saved_tensors(void **state)
{
    static const enum activation_kind kinds[] = {
        ACTIVATION_RELU,        ACTIVATION_SILU,    ACTIVATION_GELU,
        ACTIVATION_TANH,        ACTIVATION_SIGMOID, ACTIVATION_HARDSWISH,
        ACTIVATION_HARDSIGMOID, ACTIVATION_RELU6,   ACTIVATION_MISH};
    static const bool saves_input[] = {false, true, true, false, false, true, false, false, true};

    (void)state;
    for (int i = 0; i < 9; i++) {
        const struct graph_node *node;
        struct graph graph;
        int32_t x, y;

        x = graph_linear(&graph, start(&graph, 4), "0", 4, true);
        y = graph_activation(&graph, x, "1", kinds[i]);
        graph_mse(&graph, y);
        differentiate(&graph);
        node = find_node(&graph, OP_ACTIVATION_BACKWARD, "1");
        assert_int_equal(node->input[1], saves_input[i] ? x : y);
        assert_int_equal(node->attributes.activation, kinds[i]);
        graph_release(&graph);
    }
}

/* The gradient of a tensor that is used three times is the sum of three gradients. */
static void test_shared_tensor(void **state)
{
    const struct graph_node *node;
    struct graph graph;
    int32_t x, a, sum;

    (void)state;
    x = graph_linear(&graph, start(&graph, 4), "0", 4, true);
    a = graph_activation(&graph, x, "1", ACTIVATION_TANH);
    sum = graph_add(&graph, x, graph_add(&graph, a, x, "2"), "3");
    graph_mse(&graph, sum);
    differentiate(&graph);
    assert_string_equal(list_operators(&graph, GRAPH_BACKWARD),
                        "mse_backward add activation_backward add linear_backward_weights");
    /* the gradient of both summands is that of the sum */
    node = find_node(&graph, OP_ACTIVATION_BACKWARD, "1");
    assert_int_equal(node->input[0], find_node(&graph, OP_MSE_BACKWARD, "loss")->output[0]);
    graph_release(&graph);
}

static void test_image_operators(void **state)
{
    struct conv_attributes window = {
        .kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}, .groups = 1};
    const struct graph_node *node, *forward;
    struct graph graph;
    int32_t x;

    (void)state;
    graph_init(&graph, 8, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){3, 16, 16}, 3);
    x = graph_conv2d(&graph, x, "0", 4, &window, false);
    x = graph_batch_norm(&graph, x, "1", 1e-5f, 0.1f);
    x = graph_max_pool2d(&graph, x, "2", &window);
    x = graph_average_pool2d(&graph, x, "3", &window);
    x = graph_dropout(&graph, graph_flatten(&graph, x, "4"), "5", 0.5f);
    graph_mse(&graph, x);
    differentiate(&graph);
    assert_string_equal(list_operators(&graph, GRAPH_BACKWARD),
                        "mse_backward dropout_backward reshape average_pool2d_backward "
                        "max_pool2d_backward batch_norm_backward conv2d_backward_weights "
                        "conv2d_backward_data");
    forward = find_node(&graph, OP_MAX_POOL2D, "2");
    node = find_node(&graph, OP_MAX_POOL2D_BACKWARD, "2");
    assert_int_equal(node->input[1], forward->output[1]);
    assert_int_equal(node->attributes.conv.kernel[1], 2);
    forward = find_node(&graph, OP_BATCH_NORM, "1");
    node = find_node(&graph, OP_BATCH_NORM_BACKWARD, "1");
    assert_int_equal(node->input[0], forward->input[0]);
    assert_int_equal(node->input[3], forward->output[1]);
    assert_int_equal(node->input[4], forward->output[2]);
    assert_int_equal(node->output_count, 3);
    assert_int_equal(find_node(&graph, OP_DROPOUT_BACKWARD, "5")->attributes.dropout.dropout_stream,
                     find_node(&graph, OP_DROPOUT, "5")->attributes.dropout.dropout_stream);
    assert_int_equal(graph.input_gradient,
                     find_node(&graph, OP_CONV2D_BACKWARD_DATA, "0")->output[0]);
    assert_true(graph_shape_equal(&graph.tensors[graph.input].shape,
                                  &graph.tensors[graph.input_gradient].shape));
    graph_release(&graph);
}

/* Squeeze-and-excite: the images' gradient has two terms, their own and that of the scale's
 * pool. */
static void test_channel_scale(void **state)
{
    const struct graph_node *node;
    struct graph graph;
    int32_t x, pooled, scaled;

    (void)state;
    graph_init(&graph, 8, true);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){3, 4, 4}, 3);
    x = graph_batch_norm(&graph, x, "0", 1e-5f, 0.1f);
    pooled = graph_global_average_pool2d(&graph, x, "1");
    scaled = graph_channel_scale(&graph, x, pooled, "2");
    scaled = graph_stochastic_depth(&graph, scaled, "3", 0.5f);
    graph_mse(&graph, graph_flatten(&graph, scaled, "4"));
    differentiate(&graph);
    assert_string_equal(list_operators(&graph, GRAPH_BACKWARD),
                        "mse_backward reshape dropout_backward channel_scale_backward "
                        "average_pool2d_backward add batch_norm_backward");
    node = find_node(&graph, OP_CHANNEL_SCALE_BACKWARD, "2");
    assert_int_equal(node->input[1], x);
    assert_int_equal(node->input[2], pooled);
    assert_true(
        graph_shape_equal(&graph.tensors[node->output[1]].shape, &graph.tensors[pooled].shape));
    assert_true(find_node(&graph, OP_DROPOUT_BACKWARD, "3")->attributes.dropout.rows);
    graph_release(&graph);
}

/* A norm with a residual: later nodes read both the norm and the sum. Both summands get one
 * gradient, which includes the sum's own gradient. */
static void test_add_norm(void **state)
{
    const struct graph_node *node, *second;
    int32_t x, y, sum, inner;
    struct graph graph;

    (void)state;
    graph_init(&graph, 4, true);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){3, 16}, 2);
    x = graph_linear(&graph, x, "0", 16, false);
    y = graph_linear(&graph, graph_layer_norm(&graph, x, "1", 1e-5f, true), "2", 16, false);
    y = graph_add_layer_norm(&graph, y, x, "3", 1e-5f, true, &inner);
    y = graph_add_rms_norm(&graph, graph_linear(&graph, y, "4", 16, false), inner, "5", 1e-5f,
                           &sum);
    y = graph_add(&graph, y, sum, "6");
    graph_mse(&graph, graph_flatten(&graph, y, "7"));
    differentiate(&graph);
    assert_string_equal(list_operators(&graph, GRAPH_BACKWARD),
                        "mse_backward reshape rms_norm_backward linear_backward_weights "
                        "linear_backward_data layer_norm_backward linear_backward_weights "
                        "linear_backward_data layer_norm_backward add linear_backward_weights");
    second = find_node(&graph, OP_RMS_NORM_BACKWARD, "5");
    assert_int_equal(second->input[1], sum);
    assert_int_equal(second->input[4], graph.nodes[second - graph.nodes - 1].output[0]);
    assert_int_equal(second->output_count, 2);
    node = find_node(&graph, OP_LAYER_NORM_BACKWARD, "3");
    assert_int_equal(node->input[4], second->output[0]);
    assert_int_equal(node->output_count, 3);
    node = find_node(&graph, OP_ADD, graph.tensors[x].name);
    assert_int_equal(node->input[0], find_node(&graph, OP_LAYER_NORM_BACKWARD, "3")->output[0]);
    graph_release(&graph);
}

static void test_embedding(void **state)
{
    struct graph graph;
    int32_t x;

    (void)state;
    graph_init(&graph, 8, true);
    x = graph_input(&graph, TENSOR_INT32, (int64_t[]){4}, 1);
    x = graph_embedding(&graph, x, "0", 30, 5);
    graph_cross_entropy(&graph, graph_linear(&graph, graph_flatten(&graph, x, "1"), "2", 30, true));
    differentiate(&graph);
    assert_string_equal(list_operators(&graph, GRAPH_BACKWARD),
                        "cross_entropy_backward linear_backward_weights linear_backward_data "
                        "reshape embedding_backward");
    assert_int_equal(find_node(&graph, OP_EMBEDDING_BACKWARD, "0")->input[0], graph.input);
    graph_release(&graph);
}

static void test_optimizers(void **state)
{
    static const struct {
        struct optimizer_config config;
        const char *states[3];
    } cases[] = {
        {{.kind = OPTIMIZER_SGD}, {NULL, NULL}},
        {{.kind = OPTIMIZER_SGD, .momentum = 0.9}, {"0.weight.momentum", NULL}},
        {{.kind = OPTIMIZER_ADAM}, {"0.weight.first_moment", "0.weight.second_moment"}},
        {{.kind = OPTIMIZER_ADAMW}, {"0.weight.first_moment", "0.weight.second_moment"}},
        {{.kind = OPTIMIZER_RMSPROP}, {"0.weight.second_moment", NULL}},
        {{.kind = OPTIMIZER_RMSPROP, .momentum = 0.9},
         {"0.weight.second_moment", "0.weight.momentum"}},
        {{.kind = OPTIMIZER_LION}, {"0.weight.momentum", NULL}},
        {{.kind = OPTIMIZER_ADAGRAD}, {"0.weight.square_sum", NULL}},
        {{.kind = OPTIMIZER_ADADELTA}, {"0.weight.second_moment", "0.weight.step_moment"}},
        {{.kind = OPTIMIZER_LAMB}, {"0.weight.first_moment", "0.weight.second_moment"}},
        {{.kind = OPTIMIZER_NADAM}, {"0.weight.first_moment", "0.weight.second_moment"}},
        {{.kind = OPTIMIZER_AMSGRAD},
         {"0.weight.first_moment", "0.weight.second_moment", "0.weight.largest_moment"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct graph graph;
        const struct graph_node *node;
        int states = 0;

        graph_mse(&graph, graph_linear(&graph, start(&graph, 4), "0", 4, true));
        differentiate(&graph);
        assert_int_equal(graph_add_optimizer(&graph, &cases[i].config, NULL), 0);
        assert_int_equal(graph_finish(&graph, NULL), 0);
        assert_string_equal(list_operators(&graph, GRAPH_UPDATE), "optimizer optimizer");
        node = find_node(&graph, OP_OPTIMIZER, "0.weight");
        assert_int_equal(node->input[0], graph_find_tensor(&graph, "0.weight"));
        assert_int_equal(node->input[1], graph_find_tensor(&graph, "0.weight.gradient"));
        for (; states < 3 && cases[i].states[states]; states++)
            assert_string_equal(graph.tensors[node->input[2 + states]].name,
                                cases[i].states[states]);
        assert_int_equal(node->input_count, 2 + states);
        assert_int_equal(node->output_count, 0);
        graph_release(&graph);
    }
}

/* The settings by which the parameter of that name is updated. */
static const struct optimizer_group *group_of(const struct graph *graph, const char *name)
{
    return &graph->groups[find_node(graph, OP_OPTIMIZER, name)->attributes.optimizer_group];
}

static void test_optimizer_groups(void **state)
{
    static const char *const first[] = {"0.*"}, *const lists[] = {"9.*", "*.bias"};
    const struct optimizer_group groups[] = {
        {.patterns = first, .pattern_count = 1, .learning_rate_scale = 0.5},
        {.kinds = PARAMETERS_VECTORS, .learning_rate_scale = 1},
        {.config = {.weight_decay = 0.1}, .learning_rate_scale = 1}};
    struct optimizer_group unknown[] = {{.patterns = lists, .pattern_count = 2},
                                        {.learning_rate_scale = 1}};
    struct error error = {0};
    struct graph graph;

    (void)state;
    for (int refused = 0; refused < 3; refused++) {
        int32_t x = graph_linear(&graph, start(&graph, 4), "0", 4, true);

        graph_mse(&graph, graph_linear(&graph, x, "1", 4, true));
        differentiate(&graph);
        if (refused == 0) {
            assert_int_equal(graph_add_optimizer_groups(&graph, groups, 3, &error), 0);
            assert_true(group_of(&graph, "0.bias")->learning_rate_scale == 0.5);
            assert_true(group_of(&graph, "0.weight")->learning_rate_scale == 0.5);
            assert_true(group_of(&graph, "1.bias")->config.weight_decay == 0);
            assert_true(group_of(&graph, "1.weight")->config.weight_decay == 0.1);
        } else if (refused == 1) {
            assert_int_equal(graph_add_optimizer_groups(&graph, unknown, 2, &error), -EINVAL);
            assert_string_equal(error.text,
                                "the optimizer's group \"9.*\" matches no parameter of the model, "
                                "which has 0.weight, 0.bias, 1.weight, 1.bias");
        } else {
            assert_int_equal(graph_add_optimizer_groups(&graph, groups, 2, &error), -EINVAL);
            assert_string_equal(error.text, "no group of parameters takes 1.weight");
        }
        graph_release(&graph);
    }
}

/* Muon updates the hidden layer's weight; the other optimizer updates biases, embedding and
 * output. */
static void test_muon(void **state)
{
    const struct optimizer_group groups[] = {
        {.kinds = PARAMETERS_HIDDEN,
         .learning_rate_scale = 1,
         .config = {.kind = OPTIMIZER_MUON, .iterations = 5}},
        {.learning_rate_scale = 1, .config = {.kind = OPTIMIZER_ADAMW}}};
    struct error error = {0};
    struct graph graph;
    int32_t x;

    (void)state;
    x = graph_linear(&graph, start(&graph, 4), "0", 6, true);
    graph_mse(&graph, graph_linear(&graph, x, "1", 4, true));
    differentiate(&graph);
    assert_int_equal(graph_add_optimizer_groups(&graph, groups, 2, &error), 0);
    assert_int_equal(group_of(&graph, "0.weight")->config.kind, OPTIMIZER_MUON);
    assert_int_equal(group_of(&graph, "0.bias")->config.kind, OPTIMIZER_ADAMW);
    assert_int_equal(group_of(&graph, "1.weight")->config.kind, OPTIMIZER_ADAMW);
    graph_release(&graph);

    graph_mse(&graph, graph_linear(&graph, start(&graph, 4), "0", 4, true));
    differentiate(&graph);
    assert_int_equal(graph_add_optimizer_groups(&graph, groups, 2, &error), -EINVAL);
    assert_string_equal(error.text, "Muon finds no hidden linear layer in this model: take another "
                                    "optimizer");
    graph_release(&graph);
}

static void expect_refusal(struct graph *graph, const char *sentence)
{
    struct error error = {0};

    assert_int_equal(graph_differentiate(graph, &error), -EINVAL);
    assert_string_equal(error.text, sentence);
    graph_release(graph);
}

static void test_refusals(void **state)
{
    struct optimizer_config nesterov = {.kind = OPTIMIZER_SGD, .nesterov = true};
    struct error error = {0};
    struct graph graph;

    (void)state;
    graph_linear(&graph, start(&graph, 4), "0", 4, true);
    expect_refusal(&graph, "the graph has no loss to differentiate");
    graph_mse(&graph, graph_linear(&graph, start(&graph, 4), "0", 4, true));
    graph.training = false;
    expect_refusal(&graph, "a graph for evaluation has no backward part");
    graph_mse(&graph, graph_linear(&graph, start(&graph, 4), "0", 4, true));
    differentiate(&graph);
    expect_refusal(&graph, "the graph is differentiated already");

    graph_mse(&graph, graph_linear(&graph, start(&graph, 4), "0", 4, true));
    differentiate(&graph);
    assert_int_equal(graph_add_optimizer(&graph, &nesterov, &error), -EINVAL);
    assert_string_equal(error.text, "Nesterov momentum needs momentum above 0 and no dampening");
    graph_release(&graph);
    graph_mse(&graph, graph_linear(&graph, start(&graph, 4), "0", 4, true));
    nesterov.nesterov = false;
    assert_int_equal(graph_add_optimizer(&graph, &nesterov, &error), -EINVAL);
    assert_string_equal(error.text, "the graph has no gradients for an optimizer to use");
    graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_saved_tensors),
        cmocka_unit_test(test_shared_tensor),
        cmocka_unit_test(test_image_operators),
        cmocka_unit_test(test_channel_scale),
        cmocka_unit_test(test_add_norm),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_optimizer_groups),
        cmocka_unit_test(test_muon),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
