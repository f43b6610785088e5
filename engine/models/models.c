/* models.c: see models.h. */
#include "engine/models/models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const model_kind_names[] = {
    [MODEL_MLP] = "mlp",
    [MODEL_CNN] = "cnn",
    [MODEL_CHAR_MLP] = "char_mlp",
    [MODEL_LAYERS] = "layers",
};
DEFINE_STRING_TABLE(model_kind, enum model_kind, model_kind_names)

static const char *const model_layer_kind_names[] = {
    [LAYER_LINEAR] = "linear",
    [LAYER_CONV2D] = "conv2d",
    [LAYER_MAX_POOL2D] = "max_pool2d",
    [LAYER_AVERAGE_POOL2D] = "average_pool2d",
    [LAYER_BATCH_NORM] = "batch_norm",
    [LAYER_EMBEDDING] = "embedding",
    [LAYER_FLATTEN] = "flatten",
    [LAYER_DROPOUT] = "dropout",
    [LAYER_RELU] = "relu",
    [LAYER_SILU] = "silu",
    [LAYER_GELU] = "gelu",
    [LAYER_TANH] = "tanh",
    [LAYER_SIGMOID] = "sigmoid",
};
DEFINE_STRING_TABLE(model_layer_kind, enum model_layer_kind, model_layer_kind_names)
_Static_assert(LAYER_SIGMOID - LAYER_RELU == ACTIVATION_SIGMOID, "activations in the same order");

static const char *const model_loss_names[] = {
    [LOSS_CROSS_ENTROPY] = "cross_entropy",
    [LOSS_MSE] = "mse",
};
DEFINE_STRING_TABLE(model_loss, enum model_loss, model_loss_names)

struct model_layer model_layer_default(enum model_layer_kind kind)
{
    bool pool = kind == LAYER_MAX_POOL2D || kind == LAYER_AVERAGE_POOL2D;
    int kernel = pool ? 2 : 1, stride = pool ? 0 : 1;

    return (struct model_layer){.kind = kind,
                                .window = {.kernel = {kernel, kernel},
                                           .stride = {stride, stride},
                                           .dilation = {1, 1},
                                           .groups = 1},
                                .bias = true,
                                .epsilon = 1e-5f,
                                .momentum = 0.1f,
                                .probability = 0.5f};
}

/* A growing list of layers. */
struct layer_list {
    struct model_layer *layers; /* room for MODEL_LAYERS_MAX */
    int count;
};

/* Appends a default layer to be filled in; check_counts() has made sure of the room. */
static struct model_layer *list_append(struct layer_list *list, enum model_layer_kind kind)
{
    struct model_layer *layer = &list->layers[list->count++];

    *layer = model_layer_default(kind);
    return layer;
}

static void append_linear(struct layer_list *list, int64_t features)
{
    list_append(list, LAYER_LINEAR)->features = features;
}

static void append_activation(struct layer_list *list, const struct model_config *config)
{
    list_append(list, LAYER_RELU + (enum model_layer_kind)config->activation);
}

static void append_hidden(struct layer_list *list, const struct model_config *config)
{
    for (int i = 0; i < config->hidden_count; i++) {
        append_linear(list, config->hidden[i]);
        if (config->batch_norm)
            list_append(list, LAYER_BATCH_NORM);
        append_activation(list, config);
        if (config->dropout > 0.0f)
            list_append(list, LAYER_DROPOUT)->probability = config->dropout;
    }
}

static void expand_cnn(struct layer_list *list, const struct model_config *config)
{
    for (int i = 0; i < config->channel_count; i++) {
        struct model_layer *conv = list_append(list, LAYER_CONV2D);

        conv->channels = config->channels[i];
        for (int axis = 0; axis < 2; axis++) {
            conv->window.kernel[axis] = config->kernel;
            conv->window.padding[axis] = config->kernel / 2;
        }
        if (config->batch_norm)
            list_append(list, LAYER_BATCH_NORM);
        append_activation(list, config);
        list_append(list, LAYER_MAX_POOL2D);
    }
    list_append(list, LAYER_FLATTEN);
}

static void expand_char_mlp(struct layer_list *list, const struct model_config *config,
                            const struct model_data *data)
{
    struct model_layer *embedding = list_append(list, LAYER_EMBEDDING);

    embedding->vocabulary = data->vocabulary;
    embedding->width = config->embedding;
    list_append(list, LAYER_FLATTEN);
    for (int i = 0; i < config->hidden_count; i++) {
        append_linear(list, config->hidden[i]);
        append_activation(list, config);
    }
}

static int check_counts(const struct model_config *config, struct error *error)
{
    /* at most four layers for an entry of `hidden` or `channels`, and four around them */
    int64_t most = 4 * ((int64_t)config->hidden_count + config->channel_count) + 4;

    if (config->kind == MODEL_LAYERS)
        most = config->layer_count;
    if (config->kind == MODEL_LAYERS && config->layer_count < 1)
        return error_set(error, -EINVAL, "the model's list of layers is empty");
    if (config->kind == MODEL_CNN && config->kernel < 1)
        return error_set(error, -EINVAL, "the kernel of the cnn is %d, it must be at least 1",
                         config->kernel);
    if (most > MODEL_LAYERS_MAX)
        return error_set(error, -E2BIG, "the model has %lld layers, at most %d are possible",
                         (long long)most, MODEL_LAYERS_MAX);
    return 0;
}

int model_expand(const struct model_config *config, const struct model_data *data,
                 struct model_layer **layers, int *count, struct error *error)
{
    struct layer_list list = {0};
    int result = check_counts(config, error);

    if (result)
        return result;
    list.layers = calloc(MODEL_LAYERS_MAX, sizeof *list.layers);
    if (!list.layers)
        return error_set(error, -ENOMEM, "no memory for the model's layers");
    switch (config->kind) {
    case MODEL_MLP:
        if (data->rank > 1)
            list_append(&list, LAYER_FLATTEN);
        append_hidden(&list, config);
        append_linear(&list, data->outputs);
        break;
    case MODEL_CNN:
        expand_cnn(&list, config);
        append_hidden(&list, config);
        append_linear(&list, data->outputs);
        break;
    case MODEL_CHAR_MLP:
        expand_char_mlp(&list, config, data);
        append_linear(&list, data->outputs);
        break;
    case MODEL_LAYERS:
        memcpy(list.layers, config->layers, (size_t)config->layer_count * sizeof *list.layers);
        list.count = config->layer_count;
        break;
    }
    *layers = list.layers;
    *count = list.count;
    return 0;
}

/* The window of a pool, its stride filled in. */
static struct conv_attributes pool_window(const struct model_layer *layer)
{
    struct conv_attributes window = layer->window;

    for (int axis = 0; axis < 2; axis++)
        if (window.stride[axis] == 0)
            window.stride[axis] = window.kernel[axis];
    return window;
}

/* Appends layer `number` behind tensor `x`; returns its result. */
static int32_t layer_build(struct graph *graph, const struct model_layer *layer, int number,
                           int32_t x)
{
    struct conv_attributes window = pool_window(layer);
    char name[16];

    snprintf(name, sizeof name, "%d", number);
    switch (layer->kind) {
    case LAYER_LINEAR:
        return graph_linear(graph, x, name, layer->features, layer->bias);
    case LAYER_CONV2D:
        return graph_conv2d(graph, x, name, layer->channels, &layer->window, layer->bias);
    case LAYER_MAX_POOL2D:
        return graph_max_pool2d(graph, x, name, &window);
    case LAYER_AVERAGE_POOL2D:
        return graph_average_pool2d(graph, x, name, &window);
    case LAYER_BATCH_NORM:
        return graph_batch_norm(graph, x, name, layer->epsilon, layer->momentum);
    case LAYER_EMBEDDING:
        return graph_embedding(graph, x, name, layer->vocabulary, layer->width);
    case LAYER_FLATTEN:
        return graph_flatten(graph, x, name);
    case LAYER_DROPOUT:
        return graph_dropout(graph, x, name, layer->probability);
    case LAYER_RELU:
    case LAYER_SILU:
    case LAYER_GELU:
    case LAYER_TANH:
    case LAYER_SIGMOID:
        break;
    }
    return graph_activation(graph, x, name, (enum activation_kind)(layer->kind - LAYER_RELU));
}

/* Indices that an embedding has no row for. */
static int check_embedding(const struct model_layer *layer, int number,
                           const struct model_data *data, struct error *error)
{
    if (layer->kind == LAYER_EMBEDDING && data->vocabulary > layer->vocabulary)
        return error_set(error, -EINVAL,
                         "layer %d (embedding) has a vocabulary of %lld, but the data has %lld "
                         "different symbols",
                         number, (long long)layer->vocabulary, (long long)data->vocabulary);
    return 0;
}

/* The result of the last layer must be what the data asks for. */
static int check_outputs(const struct graph *graph, const struct model_layer *last, int number,
                         const struct model_data *data, struct error *error)
{
    const struct graph_shape *shape = &graph->tensors[graph->output].shape;
    const char *what = data->loss == LOSS_CROSS_ENTROPY ? "classes" : "values to predict";
    char text[128];

    if (data->outputs < (data->loss == LOSS_CROSS_ENTROPY ? 2 : 1))
        return error_set(error, -EINVAL, "the data has %lld %s, too few to learn from",
                         (long long)data->outputs, what);
    if (shape->rank == 2 && shape->extent[1] != data->outputs)
        return error_set(error, -EINVAL,
                         "layer %d (%s), the last one, gives %lld outputs (%s), but the data has "
                         "%lld %s",
                         number, model_layer_kind_to_string(last->kind),
                         (long long)shape->extent[1], graph_shape_format(shape, text, sizeof text),
                         (long long)data->outputs, what);
    return 0;
}

int model_build(const struct model_config *config, const struct model_data *data,
                struct graph *graph, struct error *error)
{
    struct model_layer *layers;
    int count, result = model_expand(config, data, &layers, &count, error);
    int32_t x;

    if (result)
        return result;
    x = graph_input(graph, data->type, data->sample_shape, data->rank);
    for (int i = 0; i < count && !result && x >= 0; i++) {
        result = check_embedding(&layers[i], i, data, error);
        if (!result)
            x = layer_build(graph, &layers[i], i, x);
    }
    if (!result && x >= 0)
        result = check_outputs(graph, &layers[count - 1], count - 1, data, error);
    free(layers);
    if (result)
        return result;
    if (data->loss == LOSS_CROSS_ENTROPY)
        graph_cross_entropy(graph, x);
    else
        graph_mse(graph, x);
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}
