/* test_onnx_models.c: what a model of a few nodes is to training: its loss, its parameters, its
 * outputs. */
#include "engine/models/models.h"
#include "tests/support/made_model.h"
#include "tests/support/temporary_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const int64_t image[3] = {1, 4, 4}, eight = 8;

/* A softmax at the end is the loss's, and the predictions'. */
static void a_last_softmax_is_left_to_the_loss(void **state)
{
    static const struct {
        const char *end;
        enum model_loss loss;
        enum graph_op last;
    } cases[] = {{"Softmax", LOSS_CROSS_ENTROPY, OP_LEAKY_RELU},
                 {"Softmax", LOSS_MSE, OP_SOFTMAX},
                 {"Sigmoid", LOSS_BINARY, OP_LEAKY_RELU},
                 {"Sigmoid", LOSS_MSE, OP_ACTIVATION}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct model_config config = {.kind = MODEL_ONNX};
        struct model_data data = {
            .rank = 1, .sample_shape = {8}, .outputs = 8, .loss = cases[k].loss, .no_loss = true};
        struct error error = {0};
        struct graph graph;
        struct made_model made;

        made_begin(&made, 1, &eight);
        made_node(&made, "LeakyRelu", "l", "x", NULL);
        made_node(&made, cases[k].end, "y", "l", NULL);
        made_write(&made);
        assert_int_equal(onnx_open(NULL, temporary_path("model.onnx"), &config.onnx, &error), 0);
        graph_init(&graph, MADE_BATCH, false);
        if (model_build(&config, &data, &graph, &error) || graph_finish(&graph, &error))
            fail_msg("%s", error.text);
        assert_int_equal(graph.nodes[graph.node_count - 1].op, cases[k].last);
        assert_int_equal(graph.output, graph.nodes[graph.node_count - 1].output[0]);
        graph_release(&graph);
        onnx_close(config.onnx);
    }
}

/* Builds the made model, as training has it, for these samples and values to predict. */
static int made_build(const struct made_model *made, int64_t values, struct model_config *config,
                      struct graph *graph, struct error *error)
{
    struct model_data data = {.rank = made->rank, .outputs = values, .loss = LOSS_MSE};

    memcpy(data.sample_shape, made->extent, (size_t)made->rank * sizeof *made->extent);
    made_write(made);
    *config = (struct model_config){.kind = MODEL_ONNX};
    assert_int_equal(onnx_open(NULL, temporary_path("model.onnx"), &config->onnx, error), 0);
    graph_init(graph, MADE_BATCH, true);
    return model_build(config, &data, graph, error);
}

/* Without weights there is nothing to train; numbers of Constant nodes are none. */
static void models_without_weights_are_refused(void **state)
{
    struct model_config config;
    struct error error = {0};
    struct made_model made;
    struct graph graph;

    (void)state;
    made_begin(&made, 1, &eight);
    made_node(&made, "LeakyRelu", "y", "x", NULL);
    assert_int_not_equal(made_build(&made, 8, &config, &graph, &error), 0);
    assert_non_null(strstr(error.text, "no weights that could learn"));
    graph_release(&graph);
    onnx_close(config.onnx);
}

/* A single number is a constant, but not where a layer has its weights. */
static void single_weights_train(void **state)
{
    static const int64_t row[] = {1, 8}, square[] = {1, 1}, one = 1, two = 2;
    static const float weights[8] = {1}, bias = 2, slope = 0.5f, factor = 3, other = 4;
    struct model_config config;
    struct error error = {0};
    struct made_model made;
    struct graph graph;

    (void)state;
    made_begin(&made, 1, &eight);
    made_floats(&made, "w", 2, row, weights, 8);
    made_floats(&made, "b", 1, &one, &bias, 1);
    made_floats(&made, "s", 1, &one, &slope, 1);
    made_floats(&made, "f", 1, &one, &factor, 1);
    made_floats(&made, "p", 1, &one, &other, 1);
    made_integers(&made, "shape", (const int64_t[]){1, 1}, &two);
    made_int(&made, made_node(&made, "Gemm", "g", "x", "w", "b", NULL), "transB", 1);
    made_node(&made, "Reshape", "r", "s", "shape", NULL);
    made_node(&made, "PRelu", "h", "g", "r", NULL);
    made_node(&made, "Mul", "m", "h", "f", NULL);
    made_node(&made, "Add", "a", "m", "p", NULL);
    made_floats(&made, "w1", 2, square, weights, 1);
    made_float(&made, "number", &factor);
    made_node(&made, "MatMul", "q", "a", "w1", NULL);
    made_node(&made, "Add", "y", "q", "number", NULL);
    assert_int_equal(made_build(&made, 1, &config, &graph, &error), 0);
    for (const char *const *name = (const char *const[]){"w", "b", "s", "w1", NULL}; *name;
         name++) {
        int32_t tensor = graph_find_tensor(&graph, *name);

        if (tensor < 0 || graph.tensors[tensor].role != TENSOR_PARAMETER)
            fail_msg("%s does not train", *name);
    }
    for (int32_t i = 0; i < graph.tensor_count; i++)
        assert_true(graph.tensors[i].role != TENSOR_PARAMETER ||
                    strchr("wbs", *graph.tensors[i].name));
    graph_release(&graph);
    onnx_close(config.onnx);
}

/* Values to predict may be an image. */
static void images_are_values_to_predict(void **state)
{
    static const int64_t kernel[] = {1, 1, 3, 3}, pads[] = {1, 1, 1, 1};
    static const float weights[9] = {1};
    struct model_config config;
    struct error error = {0};
    struct made_model made;
    struct graph graph;

    (void)state;
    made_begin(&made, 3, image);
    made_floats(&made, "w", 4, kernel, weights, 9);
    made_ints(&made, made_node(&made, "Conv", "y", "x", "w", NULL), "pads", pads, 4);
    assert_int_equal(made_build(&made, 16, &config, &graph, &error), 0);
    assert_int_equal(graph.tensors[graph.output].shape.rank, 2);
    assert_int_equal(graph.tensors[graph.output].shape.extent[1], 16);
    graph_release(&graph);
    onnx_close(config.onnx);
}

/* The same of several outputs, each of which has a loss. */
static void softmaxes_of_several_outputs_are_left_to_the_losses(void **state)
{
    static const struct loss_head heads[] = {
        {.classes = 8, .labels = 1, .weight = 1},
        {.classes = 8, .labels = 1, .weight = 1, .binary = true},
        {.classes = 8, .labels = 1, .weight = 1}};
    static const char *const ends[] = {"Softmax", "Sigmoid", "Sigmoid"}, *const names[] = {"y", "a",
                                                                                           "b"};
    static const enum graph_op reads[] = {OP_LEAKY_RELU, OP_LEAKY_RELU, OP_ACTIVATION};
    struct model_config config = {.kind = MODEL_ONNX};
    struct model_data data = {.rank = 1,
                              .sample_shape = {8},
                              .outputs = 24,
                              .loss = LOSS_HEADS,
                              .heads = heads,
                              .head_count = 3,
                              .no_loss = true};
    Onnx__ValueInfo more[2], *outputs[3];
    struct error error = {0};
    const struct graph_node *last;
    struct made_model made;
    struct graph graph;

    (void)state;
    made_begin(&made, 1, &eight);
    outputs[0] = made.output[0];
    for (int i = 0; i < 3; i++) {
        char *scores[] = {(char *)"l", (char *)"m", (char *)"n"};

        made_node(&made, "LeakyRelu", scores[i], "x", NULL);
        made_node(&made, ends[i], names[i], scores[i], NULL);
        if (i == 0)
            continue;
        onnx__value_info__init(&more[i - 1]);
        more[i - 1].name = (char *)names[i];
        outputs[i] = &more[i - 1];
    }
    made.graph.n_output = 3;
    made.graph.output = outputs;
    made_write(&made);
    assert_int_equal(onnx_open(NULL, temporary_path("model.onnx"), &config.onnx, &error), 0);
    graph_init(&graph, MADE_BATCH, false);
    if (model_build(&config, &data, &graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    last = &graph.nodes[graph.node_count - 1];
    assert_int_equal(last->op, OP_CONCATENATE);
    assert_int_equal(graph.output, last->output[0]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(graph.nodes[graph.tensors[last->input[i]].producer].op, reads[i]);
    graph_release(&graph);
    onnx_close(config.onnx);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_last_softmax_is_left_to_the_loss),
        cmocka_unit_test(softmaxes_of_several_outputs_are_left_to_the_losses),
        cmocka_unit_test(models_without_weights_are_refused),
        cmocka_unit_test(single_weights_train),
        cmocka_unit_test(images_are_values_to_predict),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
