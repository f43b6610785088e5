/* chain.c: models that are a chain of layers, as torch.nn.Sequential. Layer i has the number i;
 * activations, flatten and dropout count. Its parameters are named "<i>.weight", "<i>.bias",
 * "<i>.running_mean", "<i>.running_var", as in PyTorch's state_dict. */
#include "engine/models/builders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends a layer with default settings, which the caller changes. check_counts() has made sure
 * that there is room. */
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

static void append_mlp(struct layer_list *list, const struct model_config *config,
                       const struct model_data *data)
{
    if (data->rank > 1)
        list_append(list, LAYER_FLATTEN);
    append_hidden(list, config);
    append_linear(list, data->outputs);
}
const struct model models_mlp = {.append = append_mlp};

static void append_cnn(struct layer_list *list, const struct model_config *config,
                       const struct model_data *data)
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
    append_hidden(list, config);
    append_linear(list, data->outputs);
}
const struct model models_cnn = {.append = append_cnn};

static void append_char_mlp(struct layer_list *list, const struct model_config *config,
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
    append_linear(list, data->outputs);
}
const struct model models_char_mlp = {.append = append_char_mlp};

static void append_given(struct layer_list *list, const struct model_config *config,
                         const struct model_data *data)
{
    (void)data;
    memcpy(list->layers, config->layers.layers,
           (size_t)config->layers.count * sizeof *list->layers);
    list->count = config->layers.count;
}
const struct model models_layers = {.append = append_given};
const struct model models_graph = {.append = append_given};

/* `*most`: the layers that the model may have, which is not far above those that it has. */
static int check_counts(const struct model_config *config, int64_t *most, struct error *error)
{
    bool given = config->kind == MODEL_LAYERS || config->kind == MODEL_GRAPH;

    /* at most four layers for an entry of `hidden` or `channels`, and four around them */
    *most = given ? config->layers.count
                  : 4 * ((int64_t)config->hidden_count + config->channel_count) + 4;
    if (given && config->layers.count < 1)
        return error_set(error, -EINVAL, "the model's list of layers is empty");
    if (config->kind == MODEL_CNN && config->kernel < 1)
        return error_set(error, -EINVAL, "the kernel of the cnn is %d, it must be at least 1",
                         config->kernel);
    if (*most > MODEL_LAYERS_MAX)
        return error_set(error, -E2BIG, "the model has %lld layers, at most %d are possible",
                         (long long)*most, MODEL_LAYERS_MAX);
    return 0;
}

/* Lists the layers of a model; the caller frees them. -EINVAL with a sentence. */
static int expand(const struct model_config *config, const struct model_data *data,
                  struct layer_list *list, struct error *error)
{
    int64_t most;
    int result = check_counts(config, &most, error);

    if (result)
        return result;
    list->layers = calloc((size_t)most, sizeof *list->layers);
    if (!list->layers)
        return error_no_memory(error, "the model's layers");
    model_of(config->kind)->append(list, config, data);
    return 0;
}

int model_layers(const struct model_config *config, const struct model_data *data,
                 struct model_layer **layers, int *count, struct error *error)
{
    struct layer_list list = {0};
    int result = model_of(config->kind)->append ? expand(config, data, &list, error) : 0;

    *layers = list.layers;
    *count = list.count;
    return result;
}

/* Checks that the last layer of a list in a specification has as many outputs as the data needs. */
static int check_outputs(const struct graph *graph, const struct model_layer_list *list,
                         int32_t output, const struct model_data *data, struct error *error)
{
    const struct model_layer *last = &list->layers[list->count - 1];
    const struct graph_shape *shape = &graph->tensors[output].shape;
    char text[128], name[64];

    if (last->name)
        snprintf(name, sizeof name, "%s", list->output_count ? "outputs" : last->name);
    else
        snprintf(name, sizeof name, "%d", list->count - 1);
    if (shape->rank == 3)
        return error_set(error, -EINVAL,
                         "layer %s (%s), the last one, gives a table of numbers for a sample (%s), "
                         "but a sample has one row of %s: put a flatten layer "
                         "before it",
                         name, model_layer_kind_to_string(last->kind),
                         graph_shape_format(shape, text, sizeof text),
                         model_loss_is_of_values(data->loss) ? "values to predict" : "scores");
    if (!data->outputs) /* model_count_outputs() */
        return 0;
    if (shape->rank == 2 && shape->extent[1] != data->outputs && data->loss == LOSS_TRIPLET)
        return error_set(error, -EINVAL,
                         "layer %s (%s), the last one, gives %lld outputs (%s), but "
                         "model.embedding_size is %lld; leave it out",
                         name, model_layer_kind_to_string(last->kind), (long long)shape->extent[1],
                         graph_shape_format(shape, text, sizeof text), (long long)data->outputs);
    if (shape->rank == 2 && shape->extent[1] != data->outputs)
        return error_set(error, -EINVAL,
                         "layer %s (%s), the last one, gives %lld outputs (%s), but the data has "
                         "%lld %s",
                         name, model_layer_kind_to_string(last->kind), (long long)shape->extent[1],
                         graph_shape_format(shape, text, sizeof text), (long long)data->outputs,
                         model_loss_is_of_values(data->loss) ? "values to predict" : "classes");
    return 0;
}

int chain_build(const struct model_config *config, const struct model_data *data,
                struct graph *graph, int32_t x, int32_t *result, struct error *error)
{
    struct layer_list expanded = {0};
    struct model_layer_list list = config->layers;
    int code = expand(config, data, &expanded, error);

    list.layers = expanded.layers;
    list.count = expanded.count;
    if (!code)
        code = layer_list_build(&list, "", data, graph, x, result, error);
    if (!code && !graph->error.code)
        code = check_outputs(graph, &list, *result, data, error);
    free(expanded.layers);
    return code;
}
