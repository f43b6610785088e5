/* reference.c: see reference.h. */
#include "tests/support/reference.h"

#include "engine/graph/forward.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct conv_attributes read_window(const struct dump *dump)
{
    return (struct conv_attributes){
        .kernel = {(int)dump_attribute(dump, "kernel_h"), (int)dump_attribute(dump, "kernel_w")},
        .stride = {(int)dump_attribute(dump, "stride_h"), (int)dump_attribute(dump, "stride_w")},
        .padding = {(int)dump_attribute(dump, "padding_h"), (int)dump_attribute(dump, "padding_w")},
        .dilation = {(int)dump_attribute(dump, "dilation_h"),
                     (int)dump_attribute(dump, "dilation_w")},
        .groups = (int)dump_attribute(dump, "groups")};
}

/* Of x; or of tanh(x) + x, whose sum is then added to the result. */
static int32_t append_row_norm(const struct dump *dump, const char *kind, struct graph *graph,
                               int32_t x)
{
    float epsilon = (float)dump_attribute(dump, "epsilon");
    bool bias = dump_attribute(dump, "bias") != 0;
    int32_t y, sum;

    if (strcmp(kind, "layer_norm") == 0)
        return graph_layer_norm(graph, x, "0", epsilon, bias);
    if (strcmp(kind, "rms_norm") == 0)
        return graph_rms_norm(graph, x, "0", epsilon);
    y = graph_activation(graph, x, "1", ACTIVATION_TANH);
    y = strcmp(kind, "add_layer_norm") == 0
            ? graph_add_layer_norm(graph, y, x, "0", epsilon, bias, &sum)
            : graph_add_rms_norm(graph, y, x, "0", epsilon, &sum);
    return graph_add(graph, y, sum, "2");
}

static int32_t append_parameter(const struct dump *dump, struct graph *graph)
{
    return graph_parameter(graph, "0.weight", &dump_find(dump, "0.weight")->shape,
                           (struct initializer){.kind = INITIALIZER_ZEROS});
}

/* Appends the operator that `kind` names behind x. */
static int32_t append_operator(const struct dump *dump, const char *kind, struct graph *graph,
                               int32_t x)
{
    struct conv_attributes window;

    if (strcmp(kind, "linear") == 0)
        return graph_linear(graph, x, "0", (int64_t)dump_attribute(dump, "features"),
                            dump_attribute(dump, "bias") != 0);
    if (strcmp(kind, "conv2d") == 0) {
        window = read_window(dump);
        return graph_conv2d(graph, x, "0", (int64_t)dump_attribute(dump, "channels"), &window,
                            dump_attribute(dump, "bias") != 0);
    }
    if (strcmp(kind, "max_pool2d") == 0) {
        window = read_window(dump);
        return graph_max_pool2d(graph, x, "0", &window);
    }
    if (strcmp(kind, "average_pool2d") == 0) {
        window = read_window(dump);
        return graph_average_pool2d(graph, x, "0", &window);
    }
    if (strcmp(kind, "batch_norm") == 0)
        return graph_batch_norm(graph, x, "0", (float)dump_attribute(dump, "epsilon"),
                                (float)dump_attribute(dump, "momentum"));
    if (strstr(kind, "layer_norm") || strstr(kind, "rms_norm"))
        return append_row_norm(dump, kind, graph, x);
    if (strcmp(kind, "attention") == 0)
        return graph_attention(graph, x, "0", (int)dump_attribute(dump, "heads"),
                               dump_attribute(dump, "causal") != 0, -1);
    if (strcmp(kind, "rotary") == 0)
        return graph_rotary(graph, x, "0", (int)dump_attribute(dump, "heads"), 100.0f);
    if (strcmp(kind, "add_positions") == 0)
        return graph_add_positions(graph, x, "0", append_parameter(dump, graph));
    if (strcmp(kind, "prepend_token") == 0)
        return graph_prepend_token(graph, x, "0", append_parameter(dump, graph));
    if (strcmp(kind, "image_tokens") == 0)
        return graph_image_tokens(graph, x, "0");
    if (strcmp(kind, "first_step") == 0)
        return graph_first_step(graph, x, "0");
    if (strcmp(kind, "last_step") == 0)
        return graph_last_step(graph, x, -1, "0", false);
    if (strcmp(kind, "mean_over_time") == 0)
        return graph_mean_over_time(graph, x, -1, "0");
    if (strcmp(kind, "embedding") == 0)
        return graph_embedding(graph, x, "0", (int64_t)dump_attribute(dump, "vocabulary"),
                               (int64_t)dump_attribute(dump, "width"));
    if (strcmp(kind, "add") == 0)
        return graph_add(graph, x, graph_activation(graph, x, "0", ACTIVATION_TANH), "1");
    if (strcmp(kind, "dropout") == 0)
        return graph_dropout(
            graph, graph_add(graph, x, graph_activation(graph, x, "0", ACTIVATION_TANH), "1"), "2",
            (float)dump_attribute(dump, "probability"));
    if (strcmp(kind, "channel_dropout") == 0)
        return graph_channel_dropout(
            graph, graph_add(graph, x, graph_activation(graph, x, "0", ACTIVATION_TANH), "1"), "2",
            (float)dump_attribute(dump, "probability"));
    if (strcmp(kind, "stochastic_depth") == 0)
        return graph_stochastic_depth(
            graph, graph_add(graph, x, graph_activation(graph, x, "0", ACTIVATION_TANH), "1"), "2",
            (float)dump_attribute(dump, "probability"));
    if (strcmp(kind, "global_average_pool2d") == 0)
        return graph_global_average_pool2d(graph, x, "0");
    if (strcmp(kind, "channel_scale") == 0)
        return graph_channel_scale(graph, x,
                                   graph_activation(graph,
                                                    graph_global_average_pool2d(graph, x, "0"), "1",
                                                    ACTIVATION_SIGMOID),
                                   "2");
    if (strcmp(kind, "conv_transpose2d") == 0) {
        window = read_window(dump);
        return graph_conv_transpose2d(graph, x, "0", (int64_t)dump_attribute(dump, "channels"),
                                      &window,
                                      (int[]){(int)dump_attribute(dump, "output_padding_h"),
                                              (int)dump_attribute(dump, "output_padding_w")},
                                      dump_attribute(dump, "bias") != 0);
    }
    if (strcmp(kind, "conv1d") == 0) {
        window = read_window(dump);
        return graph_conv1d(graph, x, "0", (int64_t)dump_attribute(dump, "channels"), &window,
                            dump_attribute(dump, "bias") != 0);
    }
    if (strcmp(kind, "conv_transpose1d") == 0) {
        window = read_window(dump);
        return graph_conv_transpose1d(graph, x, "0", (int64_t)dump_attribute(dump, "channels"),
                                      &window, (int)dump_attribute(dump, "output_padding_w"),
                                      dump_attribute(dump, "bias") != 0);
    }
    if (strcmp(kind, "resize1d") == 0)
        return graph_resize1d(graph, x, "0", (int64_t)dump_attribute(dump, "length"),
                              dump_attribute(dump, "scale"), RESIZE_BILINEAR);
    if (strcmp(kind, "group_norm") == 0)
        return graph_group_norm(graph, x, "0", (int)dump_attribute(dump, "groups"),
                                (float)dump_attribute(dump, "epsilon"));
    if (strcmp(kind, "adaptive_average_pool2d") == 0)
        return graph_adaptive_average_pool2d(graph, x, "0", (int64_t)dump_attribute(dump, "height"),
                                             (int64_t)dump_attribute(dump, "width"));
    if (strcmp(kind, "max_adaptive_pool2d") == 0)
        return graph_adaptive_max_pool2d(graph, x, "0", (int64_t)dump_attribute(dump, "height"),
                                         (int64_t)dump_attribute(dump, "width"));
    if (strcmp(kind, "resize2d") == 0) {
        const struct resize resize = {
            .height = (int64_t)dump_attribute(dump, "height"),
            .width = (int64_t)dump_attribute(dump, "width"),
            .scale = {dump_attribute(dump, "scale"), dump_attribute(dump, "scale")},
            .mode = (enum resize_mode)dump_attribute(dump, "mode")};

        return graph_resize2d(graph, x, "0", &resize);
    }
    if (strcmp(kind, "elu") == 0)
        return graph_elu(graph, x, "0", (float)dump_attribute(dump, "alpha"));
    if (activation_kind_from_string(kind) >= 0)
        return graph_activation(graph, x, "0",
                                (enum activation_kind)activation_kind_from_string(kind));
    return x; /* flatten, mse, cross_entropy */
}

/* Its numbers, if it has some, are "number0", "number1", ... */
static void append_value_loss(struct graph *graph, int32_t x, const struct dump *dump,
                              const char *kind)
{
    struct value_loss_config config = {
        .kind = (enum value_loss)value_loss_from_string(kind),
        .parameter = (float)dump_attribute(dump, "parameter"),
        .count = dump_find(dump, "attribute/numbers") ? (int)dump_attribute(dump, "numbers") : 0};
    char name[32];

    for (int i = 0; i < config.count; i++) {
        snprintf(name, sizeof name, "number%d", i);
        config.numbers[i] = (float)dump_attribute(dump, name);
    }
    graph_value_loss(graph, x, &config);
}

int reference_build_operator(const struct dump *dump, const char *name, struct graph *graph,
                             struct error *error)
{
    const struct dump_tensor *samples = dump_find(dump, "samples");
    const struct dump_tensor *target = dump_find(dump, "target");
    bool training = dump_attribute(dump, "training") != 0;
    char kind[32] = "";
    int32_t x;
    int result;

    strncat(kind, name, strcspn(name, "-") < sizeof kind ? strcspn(name, "-") : sizeof kind - 1);
    graph_init(graph, samples ? samples->shape.extent[0] : 0, training);
    if (!samples || !target)
        return error_set(error, -EINVAL, "%s has no samples or no target", name);
    graph->wants_input_gradient = training && samples->type == DUMP_FLOAT32;
    x = graph_input(graph, samples->type == DUMP_INT32 ? TENSOR_INT32 : TENSOR_FLOAT32,
                    samples->shape.extent + 1, samples->shape.rank - 1);
    x = graph_flatten(graph, append_operator(dump, kind, graph, x), "9");
    if (value_loss_from_string(kind) >= 0)
        append_value_loss(graph, x, dump, kind);
    else if (strcmp(kind, "ordinal") == 0)
        graph_ordinal_loss(graph, x);
    else if (strcmp(kind, "triplet") == 0)
        graph_triplet_loss(graph, x,
                           &(struct triplet_loss_config){
                               .mining = (enum triplet_mining)dump_attribute(dump, "mining"),
                               .margin = (float)dump_attribute(dump, "margin")});
    else if (strcmp(kind, "focal") == 0)
        graph_focal_loss(graph, x, (float)dump_attribute(dump, "gamma"));
    else if (target->type == DUMP_INT32)
        graph_cross_entropy(graph, x);
    else if (strcmp(kind, "cross_entropy") == 0)
        graph_soft_cross_entropy(graph, x);
    else
        graph_mse(graph, x);
    if (training) {
        result = graph_differentiate(graph, error);
        if (result)
            return result;
    }
    if (dump_find(dump, "attribute/compute_type")) {
        result = graph_lower_precision(
            graph, (enum tensor_type)dump_attribute(dump, "compute_type"), error);
        if (result)
            return result;
    }
    return graph_finish(graph, error);
}

/* A setting that only some dumps have; 0 in the others. */
double reference_setting(const struct dump *dump, const char *name)
{
    return dump_find(dump, "attribute/%s", name) ? dump_attribute(dump, name) : 0;
}

struct optimizer_config reference_optimizer(const struct dump *dump)
{
    return (struct optimizer_config){
        .kind = (enum optimizer_kind)dump_attribute(dump, "optimizer"),
        .momentum = dump_attribute(dump, "momentum"),
        .nesterov = dump_attribute(dump, "nesterov") != 0,
        .dampening = dump_attribute(dump, "dampening"),
        .weight_decay = dump_attribute(dump, "weight_decay"),
        .beta1 = dump_attribute(dump, "beta1"),
        .beta2 = dump_attribute(dump, "beta2"),
        .epsilon = dump_attribute(dump, "epsilon"),
        .alpha = dump_attribute(dump, "alpha"),
        .learning_rate_decay = reference_setting(dump, "learning_rate_decay"),
        .initial_square_sum = reference_setting(dump, "initial_square_sum"),
        .momentum_decay = reference_setting(dump, "momentum_decay"),
        .iterations = (int)reference_setting(dump, "iterations"),
        .match_adamw = reference_setting(dump, "match_adamw") != 0,
        .decoupled_weight_decay = reference_setting(dump, "decoupled_weight_decay") != 0,
    };
}

/* The bias as a group of its own. */
static int add_groups(const struct dump *dump, struct graph *graph,
                      const struct optimizer_config *config, struct error *error)
{
    static const char *const bias[] = {"*.bias"};
    struct optimizer_group groups[] = {
        {.patterns = bias,
         .pattern_count = 1,
         .learning_rate_scale = dump_attribute(dump, "bias_learning_rate_scale"),
         .config = *config},
        {.learning_rate_scale = 1, .config = *config}};

    groups[0].config.weight_decay = dump_attribute(dump, "bias_weight_decay");
    return graph_add_optimizer_groups(graph, groups, 2, error);
}

/* Muon for the weight, AdamW with torch's defaults for the bias. */
static int add_muon(struct graph *graph, const struct optimizer_config *config, struct error *error)
{
    const struct optimizer_group groups[] = {
        {.kinds = PARAMETERS_WEIGHTS, .learning_rate_scale = 1, .config = *config},
        {.learning_rate_scale = 1,
         .config = {.kind = OPTIMIZER_ADAMW,
                    .beta1 = 0.9,
                    .beta2 = 0.999,
                    .epsilon = 1e-8,
                    .weight_decay = 0.01}}};

    return graph_add_optimizer_groups(graph, groups, 2, error);
}

int reference_build_optimizer(const struct dump *dump, struct graph *graph, struct error *error)
{
    const struct dump_tensor *weight = dump_find(dump, "0.weight");
    struct optimizer_config config = reference_optimizer(dump);
    int result;

    graph_init(graph, 3, true);
    graph->accumulate = true;
    graph_input(graph, TENSOR_FLOAT32, &weight->shape.extent[1], 1);
    graph_mse(graph, graph_linear(graph, graph->input, "0", weight->shape.extent[0], true));
    result = graph_differentiate(graph, error);
    if (!result && config.kind == OPTIMIZER_MUON)
        result = add_muon(graph, &config, error);
    else if (!result && dump_find(dump, "attribute/bias_weight_decay"))
        result = add_groups(dump, graph, &config, error);
    else if (!result)
        result = graph_add_optimizer(graph, &config, error);
    if (!result &&
        (reference_setting(dump, "average_decay") > 0 || optimizer_of(&config)->averages_itself))
        result = graph_add_averages(graph, error);
    return result ? result : graph_finish(graph, error);
}

/* Sequences of numbers that are padded. */
#define LENGTHS(model, ...)                                                                   \
    {                                                                                         \
        .kind = model, .hidden_size = 13, .num_layers = 2, .bidirectional = true, __VA_ARGS__ \
    }
#define NUMBERS                                                              \
    {                                                                        \
        .sample_shape = {9, 5}, .rank = 2, .has_lengths = true, .outputs = 3 \
    }
/* Streams of a text. */
#define CARRIED(model)                                                                        \
    {.kind = model, .embedding = 6, .hidden_size = 17, .num_layers = 2, .carry_state = true}, \
    {                                                                                         \
        .type = TENSOR_INT32, .sample_shape = {5}, .rank = 1, .vocabulary = 11, .outputs = 11 \
    }
/* Sequences of symbols, which the last one fills up. */
#define SYMBOLS                                                                                 \
    {                                                                                           \
        .type = TENSOR_INT32, .sample_shape = {9}, .rank = 1, .vocabulary = 13, .padded = true, \
        .outputs = 3                                                                            \
    }
/* A recurrent network of numbers, one of symbols in both directions, and one that is averaged. */
#define RECURRENT(network, model)                         \
    {network,                                             \
     {.kind = model, .hidden_size = 19, .num_layers = 1}, \
     {.sample_shape = {9, 5}, .rank = 2, .outputs = 3}},  \
        {network "-bidirectional",                        \
         {.kind = model,                                  \
          .embedding = 6,                                 \
          .hidden_size = 17,                              \
          .num_layers = 2,                                \
          .bidirectional = true},                         \
         SYMBOLS},                                        \
    {                                                     \
        network "-mean",                                  \
            {.kind = model,                               \
             .embedding = 6,                              \
             .hidden_size = 17,                           \
             .num_layers = 2,                             \
             .readout = READOUT_MEAN},                    \
            SYMBOLS                                       \
    }

/* What the models over nucleotides have in common. */
#define NUCLEOTIDES(...)                                                        \
    {                                                                           \
        .type = TENSOR_INT32, .sample_shape = {22}, .rank = 1, .vocabulary = 6, \
        .nucleotides = true, .outputs = 3, __VA_ARGS__                          \
    }
#define SEQUENCES NUCLEOTIDES()
#define TEXT_CNN                                                                       \
    {                                                                                  \
        .kind = MODEL_TEXT_CNN, .embedding = 7, .filters = 5, .kernels = text_kernels, \
        .kernel_count = 2, .hidden = eight, .hidden_count = 1                          \
    }
#define DNA_CNN(...)                                                                         \
    {                                                                                        \
        .kind = MODEL_DNA_CNN, .embedding = 4, .channels = dna_channels, .channel_count = 2, \
        .kernels = dna_kernels, .kernel_count = 2, .batch_norm = true, .hidden = eight,      \
        .hidden_count = 1, __VA_ARGS__                                                       \
    }
#define CADUCEUS(...)                                                                  \
    {                                                                                  \
        .kind = MODEL_CADUCEUS, .embedding = 20, .depth = 2, .states = 5, .kernel = 4, \
        .expand = 2, .epsilon = 1e-5f, __VA_ARGS__                                     \
    }

const struct reference_model *reference_models(void)
{
    static const int64_t text_kernels[] = {3, 6}, dna_kernels[] = {5, 4}, eight[] = {8};
    static const int64_t dna_channels[] = {16, 9};
    static const int64_t mlp[] = {24, 16}, channels[] = {6, 8}, cnn[] = {12}, char_mlp[] = {32};
    static const struct model_layer regression[] = {
        {.kind = LAYER_LINEAR, .features = 18, .bias = true}, {.kind = LAYER_GELU},
        {.kind = LAYER_LINEAR, .features = 18, .bias = true}, {.kind = LAYER_SILU},
        {.kind = LAYER_LINEAR, .features = 2, .bias = true},
    };
    static const struct reference_model models[] = {
        {"mlp",
         {.kind = MODEL_MLP, .hidden = mlp, .hidden_count = 2},
         {.sample_shape = {20}, .rank = 1, .outputs = 5}},
        {"mlp-batch-norm",
         {.kind = MODEL_MLP, .hidden = mlp, .hidden_count = 2, .batch_norm = true},
         {.sample_shape = {20}, .rank = 1, .outputs = 5}},
        {"cnn",
         {.kind = MODEL_CNN,
          .channels = channels,
          .channel_count = 2,
          .kernel = 3,
          .hidden = cnn,
          .hidden_count = 1},
         {.sample_shape = {2, 11, 11}, .rank = 3, .outputs = 3}},
        {"cnn-batch-norm",
         {.kind = MODEL_CNN,
          .channels = channels,
          .channel_count = 2,
          .kernel = 3,
          .hidden = cnn,
          .hidden_count = 1,
          .batch_norm = true},
         {.sample_shape = {2, 11, 11}, .rank = 3, .outputs = 3}},
        {"cnn-average",
         {.kind = MODEL_CNN,
          .channels = channels,
          .channel_count = 2,
          .kernel = 3,
          .hidden = cnn,
          .hidden_count = 1,
          .batch_norm = true},
         {.sample_shape = {2, 11, 11}, .rank = 3, .outputs = 3}},
        {"char_mlp",
         {.kind = MODEL_CHAR_MLP,
          .embedding = 6,
          .hidden = char_mlp,
          .hidden_count = 1,
          .activation = ACTIVATION_TANH},
         {.type = TENSOR_INT32, .sample_shape = {4}, .rank = 1, .vocabulary = 13, .outputs = 13}},
        {"regression",
         {.kind = MODEL_LAYERS, .layers = {regression, 5}},
         {.sample_shape = {6}, .rank = 1, .outputs = 2, .loss = LOSS_MSE}},
        {"resnet18",
         {.kind = MODEL_RESNET18, .width = 0.0625},
         {.sample_shape = {3, 12, 12}, .rank = 3, .outputs = 3}},
        {"mobilenet_v3_small",
         {.kind = MODEL_MOBILENET_V3_SMALL, .width = 0.125, .stem_stride = 1},
         {.sample_shape = {3, 12, 12}, .rank = 3, .outputs = 3}},
        {"efficientnet_b0",
         {.kind = MODEL_EFFICIENTNET_B0, .width = 0.0625, .stem_stride = 1},
         {.sample_shape = {1, 20, 20}, .rank = 3, .outputs = 3}},
        {"gpt",
         {.kind = MODEL_GPT, .embedding = 24, .depth = 2, .heads = 3, .mlp_ratio = 4},
         {.type = TENSOR_INT32, .sample_shape = {9}, .rank = 1, .vocabulary = 11, .outputs = 11}},
        {"gpt-rotary",
         {.kind = MODEL_GPT,
          .embedding = 24,
          .depth = 2,
          .heads = 3,
          .mlp_ratio = 4,
          .positions = POSITIONS_ROTARY},
         {.type = TENSOR_INT32, .sample_shape = {9}, .rank = 1, .vocabulary = 11, .outputs = 11}},
        {"vit",
         {.kind = MODEL_VIT, .embedding = 24, .depth = 2, .heads = 3, .mlp_ratio = 2, .patch = 4},
         {.sample_shape = {3, 12, 12}, .rank = 3, .outputs = 3}},
        {"vit-mean",
         {.kind = MODEL_VIT,
          .embedding = 24,
          .depth = 2,
          .heads = 3,
          .mlp_ratio = 2,
          .patch = 4,
          .pool = POOL_MEAN},
         {.sample_shape = {2, 12, 12}, .rank = 3, .outputs = 3}},
        RECURRENT("lstm", MODEL_LSTM),
        RECURRENT("gru", MODEL_GRU),
        {"lstm-lengths", LENGTHS(MODEL_LSTM), NUMBERS},
        {"gru-lengths", LENGTHS(MODEL_GRU, .readout = READOUT_MEAN), NUMBERS},
        {"lstm-carried", CARRIED(MODEL_LSTM)},
        {"gru-carried", CARRIED(MODEL_GRU)},
        {"text_cnn", TEXT_CNN, SEQUENCES},
        {"text_cnn-padded", TEXT_CNN, NUCLEOTIDES(.padded = true)},
        {"dna_cnn-padded", DNA_CNN(.pooling = POOLING_MAX), NUCLEOTIDES(.padded = true)},
        {"dna_cnn", DNA_CNN(.pooling = POOLING_FLATTEN), SEQUENCES},
        {"dna_cnn-max", DNA_CNN(.pooling = POOLING_MAX), SEQUENCES},
        {"caduceus", CADUCEUS(.reverse_complement = true), SEQUENCES},
        {"caduceus", CADUCEUS(.reverse_complement = true, .add_norm = MODEL_ADD_NORM_UNFUSED),
         SEQUENCES},
        {"caduceus-layer-norm", CADUCEUS(.reverse_complement = true, .norm = MODEL_LAYER_NORM),
         SEQUENCES},
        {"caduceus-layer-norm",
         CADUCEUS(.reverse_complement = true, .norm = MODEL_LAYER_NORM,
                  .add_norm = MODEL_ADD_NORM_UNFUSED),
         SEQUENCES},
        {"caduceus-one-strand", CADUCEUS(), SEQUENCES},
        {"caduceus-max", CADUCEUS(.reverse_complement = true, .pooling = POOLING_MAX), SEQUENCES},
        {"caduceus-flatten", CADUCEUS(.pooling = POOLING_FLATTEN), SEQUENCES},
        {.name = NULL},
    };

    return models;
}

double reference_error(const struct dump_tensor *expected, const float *values)
{
    return reference_error_at_scale(expected, values, 0);
}

double reference_error_at_scale(const struct dump_tensor *expected, const float *values,
                                double scale)
{
    const float *reference = expected->values;
    double largest = scale, difference = 0;

    for (int64_t i = 0; i < expected->elements; i++) {
        double here = fabs((double)values[i] - (double)reference[i]);

        if (!isfinite(here))
            return INFINITY;
        difference = fmax(difference, here);
        largest = fmax(largest, fabs((double)reference[i]));
    }
    return difference / (largest > 0 ? largest : 1);
}
