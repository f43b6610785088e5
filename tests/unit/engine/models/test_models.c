/* test_models.c: the built-in models have the parameters, names and shapes of the modules of
 * PyTorch that they correspond to. Impossible configurations are refused with a sentence. */
#include "engine/graph/forward.h"
#include "engine/models/builders.h"
#include "tests/support/model_parameters.h"
#include "tests/support/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_mlp(void **state)
{
    struct model_config config = {.kind = MODEL_MLP, .hidden = (int64_t[]){64}, .hidden_count = 1};

    (void)state;
    model_expect(&config, &model_vectors, "0.weight[64x64] 0.bias[64] 2.weight[10x64] 2.bias[10]",
                 64 * 64 + 64 + 640 + 10);
    config.hidden = (int64_t[]){256};
    model_expect(&config, &model_digits,
                 "1.weight[256x784] 1.bias[256] 3.weight[10x256] 3.bias[10]", 203530);
    config.hidden = (int64_t[]){32, 16};
    config.hidden_count = 2;
    config.batch_norm = true;
    config.dropout = 0.2f;
    /* linear 0, norm 1, relu 2, dropout 3, linear 4, norm 5, relu 6, dropout 7, linear 8 */
    model_expect(&config, &model_vectors,
                 "0.weight[32x64] 0.bias[32] 1.weight[32] 1.bias[32] 1.running_mean[32] "
                 "1.running_var[32] 4.weight[16x32] 4.bias[16] 5.weight[16] 5.bias[16] "
                 "5.running_mean[16] 5.running_var[16] 8.weight[10x16] 8.bias[10]",
                 64 * 32 + 32 + 64 + 32 * 16 + 16 + 32 + 160 + 10);
    config.hidden_count = 0;
    model_expect(&config, &model_vectors, "0.weight[10x64] 0.bias[10]", 650);
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
    model_expect(&config, &model_digits,
                 "0.weight[16x1x3x3] 0.bias[16] 3.weight[32x16x3x3] 3.bias[32] "
                 "7.weight[128x1568] 7.bias[128] 10.weight[10x128] 10.bias[10]",
                 160 + 4640 + 1568 * 128 + 128 + 1290);
    config.batch_norm = true;
    config.hidden_count = 0;
    config.kernel = 5;
    model_expect(&config, &model_digits,
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
    model_expect(&config, &model_text,
                 "0.weight[65x24] 2.weight[200x192] 2.bias[200] 4.weight[65x200] 4.bias[65]",
                 65 * 24 + 192 * 200 + 200 + 200 * 65 + 65);
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
    model_expect_refusal(
        &config, &model_vectors,
        "layer conv1 (conv2d): expects images [batch, channels, height, width], but the "
        "input is 32x64");
    config.kind = MODEL_MOBILENET_V3_SMALL;
    expect_state_dict_in_full(&config, "mobilenet_v3_small", 1528106);
    model_expect_refusal(
        &config, &model_vectors,
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
    model_expect_refusal(
        &config, &images,
        "model.patch is 4, which does not divide images of 30x32; choose another patch, "
        "or resize the images");
    model_expect_refusal(&config, &model_vectors,
                         "vit reads images, but a sample has 1 dimensions");
    config.heads = 5;
    model_expect_refusal(&config, &images,
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
    assert_int_equal(model_build(&config, &model_digits, &graph, &error), 0);
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
        assert_int_equal(model_build(&config, &model_digits, &graph, &error), 0);
        expect_deviation(&graph, cases[i].name, cases[i].deviation);
        graph_release(&graph);
    }
}

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

/* Probabilities of the classes are targets in training; evaluation has labels. */
static void test_soft_targets(void **state)
{
    const struct model_config config = {.kind = MODEL_MLP};
    struct model_data data = model_vectors;

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
    struct model_data data = model_vectors;
    struct model_config config = {.kind = MODEL_MLP};

    (void)state;
    data.loss = LOSS_MSE;
    data.outputs = 1;
    model_expect(&config, &data, "0.weight[1x64] 0.bias[1]", 65);
    data.loss = LOSS_CROSS_ENTROPY;
    model_expect_refusal(&config, &data, "the data has 1 classes, too few to learn from");
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
    model_expect(&config, &model_digits,
                 "lstm.weight_ih_l0[64x28] lstm.weight_hh_l0[64x16] lstm.bias_ih_l0[64] "
                 "lstm.bias_hh_l0[64] head.weight[10x16] head.bias[10]",
                 64 * 28 + 64 * 16 + 128 + 170);
    model_expect_refusal(
        &config, &model_vectors,
        "the model lstm reads sequences of steps and features, but a batch of samples "
        "is 32x64; give their shape as [steps, features], [64, 1] for numbers that "
        "follow each other");
    config.dropout = 0.5f;
    model_expect_refusal(&config, &model_digits,
                         "model.dropout of lstm is between its layers, but num_layers is 1; leave "
                         "dropout out, or add a layer");
    config = (struct model_config){.kind = MODEL_GRU,
                                   .hidden_size = 2,
                                   .num_layers = 2,
                                   .bidirectional = true,
                                   .readout = READOUT_MEAN,
                                   .embedding = 3};
    model_expect(&config, &symbols,
                 "embedding.weight[5x3] gru.weight_ih_l0[6x3] gru.weight_hh_l0[6x2] "
                 "gru.bias_ih_l0[6] gru.bias_hh_l0[6] gru.weight_ih_l0_reverse[6x3] "
                 "gru.weight_hh_l0_reverse[6x2] gru.bias_ih_l0_reverse[6] "
                 "gru.bias_hh_l0_reverse[6] gru.weight_ih_l1[6x4] gru.weight_hh_l1[6x2] "
                 "gru.bias_ih_l1[6] gru.bias_hh_l1[6] gru.weight_ih_l1_reverse[6x4] "
                 "gru.weight_hh_l1_reverse[6x2] gru.bias_ih_l1_reverse[6] "
                 "gru.bias_hh_l1_reverse[6] head.weight[2x4] head.bias[2]",
                 15 + 2 * (18 + 12 + 12) + 2 * (24 + 12 + 12) + 10);
    model_expect_refusal(
        &config, &model_text,
        "model.bidirectional is true, but a model of a text must not read the symbols "
        "that it predicts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_cnn),
        cmocka_unit_test(test_char_mlp),
        cmocka_unit_test(test_initial_weights_of_gpt),
        cmocka_unit_test(test_convolutional_networks),
        cmocka_unit_test(test_transformers),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_stochastic_depth),
        cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_soft_targets),
        cmocka_unit_test(test_regression),
        cmocka_unit_test(test_state_dicts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
