/* test_layer_lists.c: models that a specification describes as layers or as a graph of nodes have
 * the parameters, names and shapes of the modules of PyTorch that they correspond to. Impossible
 * ones are refused with a sentence. */
#include "engine/graph/forward.h"
#include "engine/models/builders.h"
#include "tests/support/model_parameters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_layers(void **state)
{
    struct model_layer layers[6];
    struct model_config config = {.kind = MODEL_LAYERS, .layers = {layers, 6}};

    (void)state;
    layers[0] = model_layer_default(LAYER_CONV2D);
    layers[0].channels = 8;
    layers[0].window.kernel[0] = layers[0].window.kernel[1] = 5;
    layers[0].bias = false;
    layers[1] = model_layer_default(LAYER_BATCH_NORM);
    layers[2] = model_layer_default(LAYER_GELU);
    layers[3] = model_layer_default(LAYER_AVERAGE_POOL2D);
    layers[4] = model_layer_default(LAYER_FLATTEN);
    layers[5] = model_layer_default(LAYER_LINEAR);
    layers[5].features = 10;
    model_expect(&config, &model_digits,
                 "0.weight[8x1x5x5] 1.weight[8] 1.bias[8] 1.running_mean[8] 1.running_var[8] "
                 "5.weight[10x1152] 5.bias[10]",
                 200 + 16 + 11530);
    layers[5].features = 12;
    model_expect_refusal(
        &config, &model_digits,
        "layer 5 (linear), the last one, gives 12 outputs (32x12), but the data has 10 "
        "classes");
    config.layers.count = 4;
    model_expect_refusal(
        &config, &model_digits,
        "the loss (cross_entropy) expects [batch, classes], but the last layer gives "
        "32x8x12x12; put a flatten layer before it");
    model_expect_refusal(
        &config, &model_vectors,
        "layer 0 (conv2d): expects images [batch, channels, height, width], but the "
        "input is 32x64");
    config.layers.count = 0;
    model_expect_refusal(&config, &model_digits, "the model's list of layers is empty");
    layers[0] = model_layer_default(LAYER_EMBEDDING);
    layers[0].vocabulary = 40;
    layers[0].width = 4;
    config.layers.count = 1;
    model_expect_refusal(
        &config, &model_text,
        "layer 0 (embedding) has a vocabulary of 40, but the data has 65 different "
        "symbols");
    /* then it is that of the data, for which there are too many outputs */
    layers[0].vocabulary = 0;
    layers[1] = model_layer_default(LAYER_FLATTEN);
    layers[2] = model_layer_default(LAYER_LINEAR);
    layers[2].features = 66;
    config.layers.count = 3;
    model_expect_refusal(
        &config, &model_text,
        "layer 2 (linear), the last one, gives 66 outputs (32x66), but the data has 65 "
        "classes");
    config.layers.count = 1;
    layers[0] = model_layer_default(LAYER_FLATTEN);
    model_expect_refusal(
        &config, &model_text,
        "layer 0 (flatten): expects float32 values, but the input 32x8 holds whole "
        "numbers (indices); put an embedding before it");
}

/* Norms over the last dimension: of vectors, and of each symbol of a sequence; not of images. */
static void test_row_norms(void **state)
{
    struct model_layer layers[5];
    struct model_config config = {.kind = MODEL_LAYERS, .layers = {layers, 5}};

    (void)state;
    layers[0] = model_layer_default(LAYER_EMBEDDING);
    layers[0].width = 6;
    layers[1] = model_layer_default(LAYER_LAYER_NORM);
    layers[2] = model_layer_default(LAYER_FLATTEN);
    layers[3] = model_layer_default(LAYER_RMS_NORM);
    layers[4] = model_layer_default(LAYER_LINEAR);
    layers[4].features = 65;
    model_expect(&config, &model_text,
                 "0.weight[65x6] 1.weight[6] 1.bias[6] 3.weight[48] 4.weight[65x48] 4.bias[65]",
                 390 + 12 + 48 + 65 * 48 + 65);
    layers[1].bias = false;
    model_expect(&config, &model_text,
                 "0.weight[65x6] 1.weight[6] 3.weight[48] 4.weight[65x48] 4.bias[65]",
                 390 + 6 + 48 + 65 * 48 + 65);
    config.layers.layers = layers + 1;
    config.layers.count = 1;
    model_expect_refusal(
        &config, &model_digits,
        "layer 0 (layer_norm): expects [batch, features] or [batch, length, features], "
        "but the input is 32x1x28x28");
}

static void test_squeeze_excite(void **state)
{
    struct model_layer layers[4];
    struct model_config config = {.kind = MODEL_LAYERS, .layers = {layers, 4}};

    (void)state;
    layers[0] = model_layer_default(LAYER_CONV2D);
    layers[0].channels = 10;
    layers[1] = model_layer_default(LAYER_SQUEEZE_EXCITE);
    layers[1].squeeze = 3;
    layers[2] = model_layer_default(LAYER_GLOBAL_AVERAGE_POOL2D);
    layers[3] = model_layer_default(LAYER_FLATTEN);
    model_expect(&config, &model_digits,
                 "0.weight[10x1x1x1] 0.bias[10] 1.fc1.weight[3x10x1x1] 1.fc1.bias[3] "
                 "1.fc2.weight[10x3x1x1] 1.fc2.bias[10]",
                 10 + 10 + 30 + 3 + 30 + 10);
}

/* What ConvNeXt has: norms of the channels of each pixel, and a factor of each channel. */
static void test_channels(void **state)
{
    struct model_layer layers[5];
    struct model_config config = {.kind = MODEL_LAYERS, .layers = {layers, 5}};
    struct error error = {0};
    struct graph graph;

    (void)state;
    layers[0] = model_layer_default(LAYER_CONV2D);
    layers[0].channels = 10;
    layers[1] = model_layer_default(LAYER_LAYER_NORM2D);
    layers[2] = model_layer_default(LAYER_LAYER_SCALE);
    layers[3] = model_layer_default(LAYER_GLOBAL_AVERAGE_POOL2D);
    layers[4] = model_layer_default(LAYER_FLATTEN);
    model_expect(&config, &model_digits,
                 "0.weight[10x1x1x1] 0.bias[10] 1.weight[10] 1.bias[10] 2.weight[10x1x1x1]",
                 10 + 10 + 10 + 10 + 10);
    graph_init(&graph, 4, true);
    assert_int_equal(model_build(&config, &model_digits, &graph, &error), 0);
    assert_float_equal(graph.tensors[graph_find_tensor(&graph, "2.weight")].initializer.bound, 1e-6,
                       1e-12);
    graph_release(&graph);
    model_expect_refusal(
        &(struct model_config){.kind = MODEL_LAYERS, .layers = {layers + 1, 1}}, &model_vectors,
        "layer 0 (image_tokens): expects images [batch, channels, height, width], but "
        "the input is 32x64");
}

/* Every layer that a specification may name can be appended to one of these inputs. Its module in
 * Python reads extents from the weights if and only if the layer has weights. */
static void test_every_layer(void **state)
{
    static const struct {
        enum tensor_type type;
        int64_t sample[3];
        int rank;
    } inputs[] = {{TENSOR_FLOAT32, {4, 8, 8}, 3},
                  {TENSOR_FLOAT32, {12}, 1},
                  {TENSOR_FLOAT32, {4, 9}, 2},
                  {TENSOR_INT32, {5}, 1}};
    const struct model_layer relu = model_layer_default(LAYER_RELU);
    const struct model_layer_list inner = {&relu, 1, NULL, 0};
    const struct model_data data = {.vocabulary = 3};
    const char *name;

    (void)state;
    for (int kind = 0; (name = model_layer_kind_to_string((enum model_layer_kind)kind)); kind++) {
        struct model_layer layer = model_layer_default((enum model_layer_kind)kind);
        const char *module = model_layer_python(layer.kind)->module;
        bool built = false, weights = false;

        const struct model_layer_list list = {&layer, 1, NULL, 0};

        layer.features = layer.channels = layer.vocabulary = layer.width = layer.squeeze = 3;
        layer.size[0] = layer.size[1] = 3;
        if (layer.kind == LAYER_RESIDUAL || layer.kind == LAYER_BRANCHES) {
            layer.lists = &inner;
            layer.list_count = 1;
        }
        for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && !built; i++) {
            struct error error = {0};
            struct graph graph;
            int32_t x;

            graph_init(&graph, 2, true);
            x = graph_input(&graph, inputs[i].type, inputs[i].sample, inputs[i].rank);
            built =
                layer_list_build(&list, "", &data, &graph, x, &x, &error) == 0 && !graph.error.code;
            for (int32_t t = 0; t < graph.tensor_count; t++)
                weights |= graph.tensors[t].role == TENSOR_PARAMETER;
            graph_release(&graph);
        }
        if (!built)
            fail_msg("no input suits the layer %s", name);
        if (!module || (strstr(module, "outputs}") != NULL) != weights)
            fail_msg("the layer %s has the module %s", name, module ? module : "(none)");
    }
}

static struct model_layer linear(int64_t features)
{
    struct model_layer layer = model_layer_default(LAYER_LINEAR);

    layer.features = features;
    return layer;
}

/* A node with its name and what it reads (NULL: the one before). */
static struct model_layer node(struct model_layer layer, const char *name,
                               const char *const *inputs, int count)
{
    layer.name = name;
    layer.inputs = inputs;
    layer.input_count = count;
    return layer;
}

/* Names of parameters are those of the exported classes Residual and Branches. */
static void test_nested_lists(void **state)
{
    struct model_layer inner[] = {linear(64), model_layer_default(LAYER_RELU), linear(20)};
    struct model_layer projection[] = {linear(20)};
    struct model_layer_list residual[] = {{inner, 3, NULL, 0}, {projection, 1, NULL, 0}};
    struct model_layer branch = linear(6);
    struct model_layer_list branches[] = {{&branch, 1, NULL, 0}, {NULL, 0, NULL, 0}};
    struct model_layer layers[] = {model_layer_default(LAYER_RESIDUAL),
                                   model_layer_default(LAYER_BRANCHES), linear(10)};
    struct model_config config = {.kind = MODEL_LAYERS, .layers = {layers, 3, NULL, 0}};

    (void)state;
    layers[0].lists = residual;
    layers[0].list_count = 2;
    layers[1].lists = branches;
    layers[1].list_count = 2;
    layers[1].join = "concat";
    model_expect(&config, &model_vectors,
                 "0.layers.0.weight[64x64] 0.layers.0.bias[64] 0.layers.2.weight[20x64] "
                 "0.layers.2.bias[20] 0.projection.0.weight[20x64] 0.projection.0.bias[20] "
                 "1.branches.0.0.weight[6x20] 1.branches.0.0.bias[6] 2.weight[10x26] 2.bias[10]",
                 64 * 65 + 2 * 20 * 65 + 6 * 21 + 10 * 27);
    layers[0].list_count = 1;
    model_expect_refusal(&config, &model_vectors,
                         "layer 0 (add): the shapes 32x20 and 32x64 do not fit");
    layers[0].list_count = 2;
    layers[1].join = "add";
    model_expect_refusal(&config, &model_vectors,
                         "layer 1 (add): the shapes 32x6 and 32x20 do not fit");
}

/* Nodes in any order; every mistake names its node. */
static void test_graphs(void **state)
{
    static const char *const samples[] = {"input"}, *const both[] = {"left", "right"},
                             *const joined[] = {"join"}, *const nobody[] = {"nobody"},
                             *const head[] = {"head"}, *const right[] = {"right"};
    struct model_layer nodes[] = {node(linear(10), "head", joined, 1),
                                  node(model_layer_default(LAYER_CONCAT), "join", both, 2),
                                  node(linear(4), "left", samples, 1),
                                  node(linear(8), "right", samples, 1)};
    struct model_config config = {.kind = MODEL_GRAPH, .layers = {nodes, 4, head, 1}};

    (void)state;
    model_expect(&config, &model_vectors,
                 "left.weight[4x64] left.bias[4] right.weight[8x64] right.bias[8] "
                 "head.weight[10x12] head.bias[10]",
                 4 * 65 + 8 * 65 + 10 * 13);
    nodes[3] = node(linear(8), "right", nobody, 1);
    model_expect_refusal(&config, &model_vectors,
                         "node right takes its input from \"nobody\", but no node has that name; "
                         "\"input\" are the samples");
    nodes[3] = node(linear(8), "right", head, 1);
    model_expect_refusal(
        &config, &model_vectors,
        "node head depends on its own result: its inputs lead back to it in a cycle");
    nodes[3] = node(linear(8), "left", samples, 1);
    model_expect_refusal(&config, &model_vectors, "two nodes have the name left");
    nodes[3] = node(linear(8), "rig.ht", samples, 1);
    model_expect_refusal(
        &config, &model_vectors,
        "node rig.ht: a name has at most 47 letters, digits, \"_\" and \"-\", and is not "
        "\"input\", which are the samples");
    nodes[3] = node(linear(8), "right", samples, 1);
    nodes[0] = node(linear(10), "head", right, 1);
    model_expect_refusal(
        &config, &model_vectors,
        "node join is used by no other node and is no output; remove it, or name it "
        "among the inputs of another");
    nodes[0] = node(linear(10), "head", both, 2);
    model_expect_refusal(
        &config, &model_vectors,
        "node head (linear) reads one input, but it has 2; add and concat join several");
    config.layers.outputs = nobody;
    nodes[0] = node(linear(10), "head", joined, 1);
    model_expect_refusal(&config, &model_vectors,
                         "model.outputs names \"nobody\", but no node has that name");
    /* several outputs follow each other */
    config.layers.outputs = both;
    config.layers.output_count = 2;
    config.layers.layers = &nodes[2];
    config.layers.count = 2;
    nodes[2] = node(linear(3), "left", samples, 1);
    nodes[3] = node(linear(7), "right", samples, 1);
    model_expect(&config, &model_vectors,
                 "left.weight[3x64] left.bias[3] right.weight[7x64] right.bias[7]", 650);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),    cmocka_unit_test(test_every_layer),
        cmocka_unit_test(test_row_norms), cmocka_unit_test(test_squeeze_excite),
        cmocka_unit_test(test_channels),  cmocka_unit_test(test_nested_lists),
        cmocka_unit_test(test_graphs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
