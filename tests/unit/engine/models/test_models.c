/* test_models.c: the built-in models and lists of layers have the parameters, names and shapes of
 * the nn.Sequential that they correspond to. Impossible configurations are refused with a
 * sentence. */
#include "engine/graph/forward.h"
#include "engine/models/builders.h"
#include "tests/support/reference.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct model_data digits = {.type = TENSOR_FLOAT32,
                                         .sample_shape = {1, 28, 28},
                                         .rank = 3,
                                         .outputs = 10,
                                         .loss = LOSS_CROSS_ENTROPY};
static const struct model_data vectors = {.type = TENSOR_FLOAT32,
                                          .sample_shape = {64},
                                          .rank = 1,
                                          .outputs = 10,
                                          .loss = LOSS_CROSS_ENTROPY};
static const struct model_data text = {.type = TENSOR_INT32,
                                       .sample_shape = {8},
                                       .rank = 1,
                                       .vocabulary = 65,
                                       .outputs = 65,
                                       .loss = LOSS_CROSS_ENTROPY};

/* Lists "0.weight[64x20] 0.bias[64] …": the parameters and statistics in order; *learnt receives
 * their number. */
static const char *list_parameters(const struct graph *graph, int64_t *learnt)
{
    static char list[4096];
    char shape[128];
    size_t length = 0;

    list[0] = '\0';
    *learnt = 0;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *t = &graph->tensors[i];

        if (t->role != TENSOR_PARAMETER && t->role != TENSOR_STATISTIC)
            continue;
        length +=
            (size_t)snprintf(list + length, sizeof list - length, "%s%s[%s]", length ? " " : "",
                             t->name, graph_shape_format(&t->shape, shape, sizeof shape));
        if (t->role == TENSOR_PARAMETER)
            *learnt += graph_shape_elements(&t->shape);
    }
    return list;
}

static void expect_model(const struct model_config *config, const struct model_data *data,
                         const char *parameters, int64_t count)
{
    for (int training = 0; training < 2; training++) {
        struct error error = {0};
        struct graph graph;
        int64_t learnt;

        graph_init(&graph, 32, training);
        if (model_build(config, data, &graph, &error) ||
            (training && graph_differentiate(&graph, &error)) || graph_finish(&graph, &error))
            fail_msg("%s", error.text);
        assert_string_equal(list_parameters(&graph, &learnt), parameters);
        assert_int_equal(learnt, count);
        assert_int_equal(graph.tensors[graph.output].shape.extent[1], data->outputs);
        graph_release(&graph);
    }
}

static void expect_refusal(const struct model_config *config, const struct model_data *data,
                           const char *sentence)
{
    struct error error = {0};
    struct graph graph;

    graph_init(&graph, 32, true);
    assert_true(model_build(config, data, &graph, &error) < 0);
    assert_string_equal(error.text, sentence);
    graph_release(&graph);
}

static void test_mlp(void **state)
{
    struct model_config config = {.kind = MODEL_MLP, .hidden = (int64_t[]){64}, .hidden_count = 1};

    (void)state;
    expect_model(&config, &vectors, "0.weight[64x64] 0.bias[64] 2.weight[10x64] 2.bias[10]",
                 64 * 64 + 64 + 640 + 10);
    config.hidden = (int64_t[]){256};
    expect_model(&config, &digits, "1.weight[256x784] 1.bias[256] 3.weight[10x256] 3.bias[10]",
                 203530);
    config.hidden = (int64_t[]){32, 16};
    config.hidden_count = 2;
    config.batch_norm = true;
    config.dropout = 0.2f;
    /* linear 0, norm 1, relu 2, dropout 3, linear 4, norm 5, relu 6, dropout 7, linear 8 */
    expect_model(&config, &vectors,
                 "0.weight[32x64] 0.bias[32] 1.weight[32] 1.bias[32] 1.running_mean[32] "
                 "1.running_var[32] 4.weight[16x32] 4.bias[16] 5.weight[16] 5.bias[16] "
                 "5.running_mean[16] 5.running_var[16] 8.weight[10x16] 8.bias[10]",
                 64 * 32 + 32 + 64 + 32 * 16 + 16 + 32 + 160 + 10);
    config.hidden_count = 0;
    expect_model(&config, &vectors, "0.weight[10x64] 0.bias[10]", 650);
}

static void test_cnn(void **state)
{
    struct model_config config = {.kind = MODEL_CNN,
                                  .channels = (int64_t[]){16, 32},
                                  .channel_count = 2,
                                  .kernel = 3,
                                  .hidden = (int64_t[]){128},
                                  .hidden_count = 1,
                                  .dropout = 0.5f};

    (void)state;
    /* conv relu pool, conv relu pool, flatten 6, linear 7, relu 8, dropout 9, linear 10 */
    expect_model(&config, &digits,
                 "0.weight[16x1x3x3] 0.bias[16] 3.weight[32x16x3x3] 3.bias[32] "
                 "7.weight[128x1568] 7.bias[128] 10.weight[10x128] 10.bias[10]",
                 160 + 4640 + 1568 * 128 + 128 + 1290);
    config.batch_norm = true;
    config.hidden_count = 0;
    config.kernel = 5;
    expect_model(&config, &digits,
                 "0.weight[16x1x5x5] 0.bias[16] 1.weight[16] 1.bias[16] 1.running_mean[16] "
                 "1.running_var[16] 4.weight[32x16x5x5] 4.bias[32] 5.weight[32] 5.bias[32] "
                 "5.running_mean[32] 5.running_var[32] 9.weight[10x1568] 9.bias[10]",
                 416 + 32 + 12832 + 64 + 15690);
}

static void test_char_mlp(void **state)
{
    struct model_config config = {.kind = MODEL_CHAR_MLP,
                                  .embedding = 24,
                                  .hidden = (int64_t[]){200},
                                  .hidden_count = 1,
                                  .activation = ACTIVATION_TANH};

    (void)state;
    expect_model(&config, &text,
                 "0.weight[65x24] 2.weight[200x192] 2.bias[200] 4.weight[65x200] 4.bias[65]",
                 65 * 24 + 192 * 200 + 200 + 200 * 65 + 65);
}

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
    expect_model(&config, &digits,
                 "0.weight[8x1x5x5] 1.weight[8] 1.bias[8] 1.running_mean[8] 1.running_var[8] "
                 "5.weight[10x1152] 5.bias[10]",
                 200 + 16 + 11530);
    layers[5].features = 12;
    expect_refusal(&config, &digits,
                   "layer 5 (linear), the last one, gives 12 outputs (32x12), but the data has 10 "
                   "classes");
    config.layers.count = 4;
    expect_refusal(&config, &digits,
                   "the loss (cross_entropy) expects [batch, classes], but the last layer gives "
                   "32x8x12x12; put a flatten layer before it");
    expect_refusal(&config, &vectors,
                   "layer 0 (conv2d): expects images [batch, channels, height, width], but the "
                   "input is 32x64");
    config.layers.count = 0;
    expect_refusal(&config, &digits, "the model's list of layers is empty");
    layers[0] = model_layer_default(LAYER_EMBEDDING);
    layers[0].vocabulary = 40;
    layers[0].width = 4;
    config.layers.count = 1;
    expect_refusal(&config, &text,
                   "layer 0 (embedding) has a vocabulary of 40, but the data has 65 different "
                   "symbols");
    /* then it is that of the data, for which there are too many outputs */
    layers[0].vocabulary = 0;
    layers[1] = model_layer_default(LAYER_FLATTEN);
    layers[2] = model_layer_default(LAYER_LINEAR);
    layers[2].features = 66;
    config.layers.count = 3;
    expect_refusal(&config, &text,
                   "layer 2 (linear), the last one, gives 66 outputs (32x66), but the data has 65 "
                   "classes");
    config.layers.count = 1;
    layers[0] = model_layer_default(LAYER_FLATTEN);
    expect_refusal(&config, &text,
                   "layer 0 (flatten): expects float32 values, but the input 32x8 holds whole "
                   "numbers (indices); put an embedding before it");
}

/* Names, shapes and their order are those of the state_dict in tests/reference. */
static void expect_state_dict_in_full(const struct model_config *config, const char *name,
                                      int64_t expected_parameters)
{
    const struct model_data images = {.sample_shape = {3, 32, 32}, .rank = 3, .outputs = 10};
    const struct model_data symbols = {
        .type = TENSOR_INT32, .sample_shape = {64}, .rank = 1, .vocabulary = 10, .outputs = 10};
    const struct model_data data = config->kind == MODEL_GPT ? symbols : images;
    struct error error = {0};
    int64_t learnt = 0;
    struct graph graph;
    char path[256], line[512], ours[512], shape[128];
    FILE *file;

    snprintf(path, sizeof path, "tests/reference/data/dumps/state_dicts/%s.txt", name);
    file = fopen(path, "r");
    assert_non_null(file);
    graph_init(&graph, 2, true);
    if (model_build(config, &data, &graph, &error) || graph_differentiate(&graph, &error) ||
        graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    for (int32_t i = 0; i < graph.tensor_count; i++) {
        const struct graph_tensor *t = &graph.tensors[i];

        if (t->role != TENSOR_PARAMETER && t->role != TENSOR_STATISTIC)
            continue;
        learnt += t->role == TENSOR_PARAMETER ? graph_shape_elements(&t->shape) : 0;
        assert_non_null(fgets(line, sizeof line, file));
        snprintf(ours, sizeof ours, "%s %s\n", t->name,
                 graph_shape_format(&t->shape, shape, sizeof shape));
        assert_string_equal(ours, line);
    }
    assert_null(fgets(line, sizeof line, file));
    assert_int_equal(learnt, expected_parameters);
    fclose(file);
    graph_release(&graph);
}

static void test_convolutional_networks(void **state)
{
    struct model_config config = {.kind = MODEL_RESNET18, .width = 1, .stem_stride = 2};

    (void)state;
    expect_state_dict_in_full(&config, "resnet18", 11173962);
    expect_refusal(&config, &vectors,
                   "layer conv1 (conv2d): expects images [batch, channels, height, width], but the "
                   "input is 32x64");
    config.kind = MODEL_MOBILENET_V3_SMALL;
    expect_state_dict_in_full(&config, "mobilenet_v3_small", 1528106);
    expect_refusal(&config, &vectors,
                   "layer features.0.0 (conv2d): expects images [batch, channels, height, width], "
                   "but the input is 32x64");
    config.kind = MODEL_EFFICIENTNET_B0;
    expect_state_dict_in_full(&config, "efficientnet_b0", 4020358);
}

static void test_transformers(void **state)
{
    struct model_config config = {
        .kind = MODEL_VIT, .embedding = 192, .depth = 12, .heads = 3, .mlp_ratio = 4, .patch = 4};
    const struct model_data images = {.sample_shape = {3, 30, 32}, .rank = 3, .outputs = 10};

    (void)state;
    expect_state_dict_in_full(&config, "vit", 5362762);
    expect_refusal(&config, &images,
                   "model.patch is 4, which does not divide images of 30x32; choose another patch, "
                   "or resize the images");
    expect_refusal(&config, &vectors, "vit reads images, but a sample has 1 dimensions");
    config.heads = 5;
    expect_refusal(&config, &images,
                   "model.heads is 5, which does not divide model.embedding, 192");
    config = (struct model_config){
        .kind = MODEL_GPT, .embedding = 128, .depth = 4, .heads = 4, .mlp_ratio = 4};
    expect_state_dict_in_full(&config, "gpt", 802816);
}

/* The deeper a block of EfficientNet, the more often it is dropped. The last blocks of the stages
 * are numbers 2, 4, 7, 10 and 14 of 16, and block 15 has no sum. */
static void test_stochastic_depth(void **state)
{
    const struct model_config config = {.kind = MODEL_EFFICIENTNET_B0,
                                        .width = 0.25,
                                        .stem_stride = 1,
                                        .stochastic_depth = 0.2f,
                                        .dropout = 0.3f};
    static const int depths[] = {2, 4, 6, 7, 9, 10, 12, 13, 14};
    struct error error = {0};
    struct graph graph;
    int found = 0, dropouts = 0;

    (void)state;
    graph_init(&graph, 4, true);
    assert_int_equal(model_build(&config, &digits, &graph, &error), 0);
    for (int32_t i = 0; i < graph.node_count; i++) {
        const struct graph_node *node = &graph.nodes[i];
        double p = (double)node->attributes.dropout.probability;

        if (node->op != OP_DROPOUT)
            continue;
        if (node->attributes.dropout.rows)
            assert_true(fabs(p - 0.2 * depths[found++] / 16) < 1e-7);
        else
            dropouts += fabs(p - 0.3) < 1e-7;
    }
    assert_int_equal(found, 9);
    assert_int_equal(dropouts, 1);
    graph_release(&graph);
}

/* The deviation of a parameter's initial values is `deviation`, within four times the deviation of
 * its estimate. */
static void expect_deviation(const struct graph *graph, const char *name, double deviation)
{
    int32_t tensor = graph_find_tensor(graph, name);
    int64_t count = tensor < 0 ? 0 : graph_shape_elements(&graph->tensors[tensor].shape);
    float *values = calloc((size_t)count + 1, sizeof *values);
    double squares = 0, found;

    assert_true(tensor >= 0);
    graph_initial_values(graph, tensor, 1, values);
    for (int64_t k = 0; k < count; k++)
        squares += (double)values[k] * (double)values[k];
    found = sqrt(squares / (double)count);
    if (fabs(found - deviation) > deviation * 4 / sqrt(2.0 * (double)count))
        fail_msg("%s: the deviation is %g, not %g", name, found, deviation);
    free(values);
}

/* Initial weights are torchvision's: those of convolutions have kaiming_normal_(mode="fan_out"),
 * whose deviation is sqrt(2 / (channels of the result * pixels of the kernel)). */
static void test_initial_weights(void **state)
{
    static const struct {
        enum model_kind kind;
        const char *name;
        double deviation;
    } cases[] = {
        {MODEL_RESNET18, "conv1.weight", 0.0589256},              /* 64 * 9 */
        {MODEL_RESNET18, "layer2.0.conv2.weight", 0.0416667},     /* 128 * 9 */
        {MODEL_RESNET18, "layer4.0.downsample.0.weight", 0.0625}, /* 512 */
        {MODEL_RESNET18, "fc.weight", 0.0255155},                 /* 1 / sqrt(3 * 512) */
        {MODEL_MOBILENET_V3_SMALL, "features.4.block.1.0.weight", 0.0288675},   /* 96 * 25 */
        {MODEL_MOBILENET_V3_SMALL, "features.4.block.2.fc1.weight", 0.2886751}, /* 24 */
        {MODEL_MOBILENET_V3_SMALL, "features.4.block.2.fc1.bias", 0},
        {MODEL_MOBILENET_V3_SMALL, "classifier.3.weight", 0.01},
        {MODEL_MOBILENET_V3_SMALL, "classifier.3.bias", 0},
        {MODEL_EFFICIENTNET_B0, "features.2.0.block.1.0.weight", 0.0481125}, /* 96 * 9 */
        {MODEL_EFFICIENTNET_B0, "classifier.1.weight", 0.1825742},           /* 1 / sqrt(3 * 10) */
        {MODEL_EFFICIENTNET_B0, "classifier.1.bias", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model_config config = {.kind = cases[i].kind, .width = 1, .stem_stride = 2};
        struct error error = {0};
        struct graph graph;

        graph_init(&graph, 2, false);
        assert_int_equal(model_build(&config, &digits, &graph, &error), 0);
        expect_deviation(&graph, cases[i].name, cases[i].deviation);
        graph_release(&graph);
    }
}

/* Norms over the last dimension: of vectors, and of each symbol of a sequence; not of images. */
/* Initial weights of gpt are GPT-2's: a deviation of 0.02, and 0.02 / sqrt(2 * blocks) where a
 * block adds to the sum that goes through all of them. */
static void test_initial_weights_of_gpt(void **state)
{
    const struct model_config config = {
        .kind = MODEL_GPT, .embedding = 64, .heads = 4, .depth = 8, .mlp_ratio = 4};
    const struct model_data symbols = {
        .type = TENSOR_INT32, .sample_shape = {16}, .rank = 1, .vocabulary = 65, .outputs = 65};
    struct error error = {0};
    struct graph graph;

    (void)state;
    graph_init(&graph, 2, false);
    assert_int_equal(model_build(&config, &symbols, &graph, &error), 0);
    expect_deviation(&graph, "transformer.h.3.attn.c_attn.weight", 0.02);
    expect_deviation(&graph, "transformer.h.3.attn.c_proj.weight", 0.005);
    expect_deviation(&graph, "transformer.h.7.mlp.c_proj.weight", 0.005);
    graph_release(&graph);
}

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
    expect_model(&config, &text,
                 "0.weight[65x6] 1.weight[6] 1.bias[6] 3.weight[48] 4.weight[65x48] 4.bias[65]",
                 390 + 12 + 48 + 65 * 48 + 65);
    layers[1].bias = false;
    expect_model(&config, &text,
                 "0.weight[65x6] 1.weight[6] 3.weight[48] 4.weight[65x48] 4.bias[65]",
                 390 + 6 + 48 + 65 * 48 + 65);
    config.layers.layers = layers + 1;
    config.layers.count = 1;
    expect_refusal(&config, &digits,
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
    expect_model(&config, &digits,
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
    expect_model(&config, &digits,
                 "0.weight[10x1x1x1] 0.bias[10] 1.weight[10] 1.bias[10] 2.weight[10x1x1x1]",
                 10 + 10 + 10 + 10 + 10);
    graph_init(&graph, 4, true);
    assert_int_equal(model_build(&config, &digits, &graph, &error), 0);
    assert_float_equal(graph.tensors[graph_find_tensor(&graph, "2.weight")].initializer.bound, 1e-6,
                       1e-12);
    graph_release(&graph);
    expect_refusal(&(struct model_config){.kind = MODEL_LAYERS, .layers = {layers + 1, 1}},
                   &vectors,
                   "layer 0 (image_tokens): expects images [batch, channels, height, width], but "
                   "the input is 32x64");
}

/* Probabilities of the classes are targets in training; evaluation has labels. */
static void test_soft_targets(void **state)
{
    const struct model_config config = {.kind = MODEL_MLP};
    struct model_data data = vectors;

    (void)state;
    data.soft_targets = true;
    for (int training = 0; training < 2; training++) {
        const struct graph_tensor *target;
        struct error error = {0};
        struct graph graph;

        graph_init(&graph, 4, training);
        assert_int_equal(model_build(&config, &data, &graph, &error), 0);
        target = &graph.tensors[graph.target];
        assert_int_equal(target->type, training ? TENSOR_FLOAT32 : TENSOR_INT32);
        assert_int_equal(target->shape.rank, training ? 2 : 1);
        graph_release(&graph);
    }
}

static void test_regression(void **state)
{
    struct model_data data = vectors;
    struct model_config config = {.kind = MODEL_MLP};

    (void)state;
    data.loss = LOSS_MSE;
    data.outputs = 1;
    expect_model(&config, &data, "0.weight[1x64] 0.bias[1]", 65);
    data.loss = LOSS_CROSS_ENTROPY;
    expect_refusal(&config, &data, "the data has 1 classes, too few to learn from");
}

/* The graph's parameters and statistics are PyTorch's state_dict: names and shapes, and none is
 * missing. */
static void expect_state_dict(const struct reference_model *model)
{
    struct error error = {0};
    struct graph graph;
    struct dump dump;
    char path[256];
    int ours = 0, theirs = 0;

    snprintf(path, sizeof path, "tests/reference/data/dumps/trajectories/%s.dump", model->name);
    if (dump_read(path, &dump, &error))
        fail_msg("%s", error.text);
    graph_init(&graph, 8, false);
    if (model_build(&model->config, &model->data, &graph, &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < dump.count; i++)
        theirs += !strchr(dump.tensors[i].name, '/');
    for (int32_t i = 0; i < graph.tensor_count; i++) {
        const struct graph_tensor *t = &graph.tensors[i];
        const struct dump_tensor *expected = dump_find(&dump, "%s", t->name);

        if (t->role != TENSOR_PARAMETER && t->role != TENSOR_STATISTIC)
            continue;
        assert_non_null(expected);
        assert_true(graph_shape_equal(&expected->shape, &t->shape));
        ours++;
    }
    assert_int_equal(ours, theirs);
    graph_release(&graph);
    dump_release(&dump);
}

static void test_state_dicts(void **state)
{
    (void)state;
    for (const struct reference_model *model = reference_models(); model->name; model++)
        expect_state_dict(model);
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
    expect_model(&config, &vectors,
                 "0.layers.0.weight[64x64] 0.layers.0.bias[64] 0.layers.2.weight[20x64] "
                 "0.layers.2.bias[20] 0.projection.0.weight[20x64] 0.projection.0.bias[20] "
                 "1.branches.0.0.weight[6x20] 1.branches.0.0.bias[6] 2.weight[10x26] 2.bias[10]",
                 64 * 65 + 2 * 20 * 65 + 6 * 21 + 10 * 27);
    layers[0].list_count = 1;
    expect_refusal(&config, &vectors, "layer 0 (add): the shapes 32x20 and 32x64 do not fit");
    layers[0].list_count = 2;
    layers[1].join = "add";
    expect_refusal(&config, &vectors, "layer 1 (add): the shapes 32x6 and 32x20 do not fit");
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
    expect_model(&config, &vectors,
                 "left.weight[4x64] left.bias[4] right.weight[8x64] right.bias[8] "
                 "head.weight[10x12] head.bias[10]",
                 4 * 65 + 8 * 65 + 10 * 13);
    nodes[3] = node(linear(8), "right", nobody, 1);
    expect_refusal(&config, &vectors,
                   "node right takes its input from \"nobody\", but no node has that name; "
                   "\"input\" are the samples");
    nodes[3] = node(linear(8), "right", head, 1);
    expect_refusal(&config, &vectors,
                   "node head depends on its own result: its inputs lead back to it in a cycle");
    nodes[3] = node(linear(8), "left", samples, 1);
    expect_refusal(&config, &vectors, "two nodes have the name left");
    nodes[3] = node(linear(8), "rig.ht", samples, 1);
    expect_refusal(
        &config, &vectors,
        "node rig.ht: a name has at most 47 letters, digits, \"_\" and \"-\", and is not "
        "\"input\", which are the samples");
    nodes[3] = node(linear(8), "right", samples, 1);
    nodes[0] = node(linear(10), "head", right, 1);
    expect_refusal(&config, &vectors,
                   "node join is used by no other node and is no output; remove it, or name it "
                   "among the inputs of another");
    nodes[0] = node(linear(10), "head", both, 2);
    expect_refusal(&config, &vectors,
                   "node head (linear) reads one input, but it has 2; add and concat join several");
    config.layers.outputs = nobody;
    nodes[0] = node(linear(10), "head", joined, 1);
    expect_refusal(&config, &vectors, "model.outputs names \"nobody\", but no node has that name");
    /* several outputs follow each other */
    config.layers.outputs = both;
    config.layers.output_count = 2;
    config.layers.layers = &nodes[2];
    config.layers.count = 2;
    nodes[2] = node(linear(3), "left", samples, 1);
    nodes[3] = node(linear(7), "right", samples, 1);
    expect_model(&config, &vectors,
                 "left.weight[3x64] left.bias[3] right.weight[7x64] right.bias[7]", 650);
}

/* Names and shapes of nn.LSTM and nn.GRU; images of one channel are sequences of rows. */
static void test_recurrent(void **state)
{
    static const struct model_data symbols = {.type = TENSOR_INT32,
                                              .sample_shape = {8},
                                              .rank = 1,
                                              .vocabulary = 5,
                                              .padded = true,
                                              .outputs = 2};
    struct model_config config = {.kind = MODEL_LSTM, .hidden_size = 16, .num_layers = 1};

    (void)state;
    expect_model(&config, &digits,
                 "lstm.weight_ih_l0[64x28] lstm.weight_hh_l0[64x16] lstm.bias_ih_l0[64] "
                 "lstm.bias_hh_l0[64] head.weight[10x16] head.bias[10]",
                 64 * 28 + 64 * 16 + 128 + 170);
    expect_refusal(&config, &vectors,
                   "the model lstm reads sequences of steps and features, but a batch of samples "
                   "is 32x64; give their shape as [steps, features], [64, 1] for numbers that "
                   "follow each other");
    config.dropout = 0.5f;
    expect_refusal(&config, &digits,
                   "model.dropout of lstm is between its layers, but num_layers is 1; leave "
                   "dropout out, or add a layer");
    config = (struct model_config){.kind = MODEL_GRU,
                                   .hidden_size = 2,
                                   .num_layers = 2,
                                   .bidirectional = true,
                                   .readout = READOUT_MEAN,
                                   .embedding = 3};
    expect_model(&config, &symbols,
                 "embedding.weight[5x3] gru.weight_ih_l0[6x3] gru.weight_hh_l0[6x2] "
                 "gru.bias_ih_l0[6] gru.bias_hh_l0[6] gru.weight_ih_l0_reverse[6x3] "
                 "gru.weight_hh_l0_reverse[6x2] gru.bias_ih_l0_reverse[6] "
                 "gru.bias_hh_l0_reverse[6] gru.weight_ih_l1[6x4] gru.weight_hh_l1[6x2] "
                 "gru.bias_ih_l1[6] gru.bias_hh_l1[6] gru.weight_ih_l1_reverse[6x4] "
                 "gru.weight_hh_l1_reverse[6x2] gru.bias_ih_l1_reverse[6] "
                 "gru.bias_hh_l1_reverse[6] head.weight[2x4] head.bias[2]",
                 15 + 2 * (18 + 12 + 12) + 2 * (24 + 12 + 12) + 10);
    expect_refusal(&config, &text,
                   "model.bidirectional is true, but a model of a text must not read the symbols "
                   "that it predicts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_cnn),
        cmocka_unit_test(test_char_mlp),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_every_layer),
        cmocka_unit_test(test_initial_weights_of_gpt),
        cmocka_unit_test(test_row_norms),
        cmocka_unit_test(test_squeeze_excite),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_convolutional_networks),
        cmocka_unit_test(test_transformers),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_stochastic_depth),
        cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_nested_lists),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_soft_targets),
        cmocka_unit_test(test_regression),
        cmocka_unit_test(test_state_dicts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
