/* worker_spec_model.c: see worker_spec_model.h. */
#include "worker/trainee/worker_spec_model.h"

#include <string.h>

static int read_widths(struct json_object *list, int64_t widths[WORKER_WIDTHS_MAX])
{
    int count = list ? (int)json_object_array_length(list) : 0;

    for (int i = 0; i < count && i < WORKER_WIDTHS_MAX; i++)
        widths[i] = json_object_get_int64(json_object_array_get_idx(list, (size_t)i));
    return count;
}

/* Reads a [height, width] pair; if it is absent, `pair` keeps its default. */
static void read_pair(struct json_object *layer, const char *key, int pair[2])
{
    struct json_object *value = json_get(layer, key);

    if (!value)
        return;
    pair[0] = json_object_get_int(json_object_array_get_idx(value, 0));
    pair[1] = json_object_get_int(json_object_array_get_idx(value, 1));
}

static int read_list(struct json_object *json, struct model_layer_list *list, struct error *error);

/* Reads the names that a node reads or a model gives; the texts stay JSON's. */
static int read_names(struct json_object *json, const char *const **names, int *count,
                      struct error *error)
{
    size_t length = json ? json_object_array_length(json) : 0;
    const char **made;

    *names = NULL;
    *count = (int)length;
    if (!length)
        return 0;
    made = calloc(length, sizeof *made);
    if (!made)
        return error_no_memory(error, "the names of layers");
    for (size_t i = 0; i < length; i++)
        made[i] = json_object_get_string(json_object_array_get_idx(json, i));
    *names = made;
    return 0;
}

/* Reads the lists that a layer has: of a residual the layers and the projection, or branches. */
static int read_lists(struct json_object *json, struct model_layer *layer, struct error *error)
{
    struct json_object *branches = json_get(json, "branches");
    struct json_object *own[] = {json_get(json, "layers"), json_get(json, "projection")};
    int count = branches ? (int)json_object_array_length(branches) : !own[0] ? 0 : own[1] ? 2 : 1;
    struct model_layer_list *lists;
    int r = 0;

    if (!count)
        return 0;
    lists = calloc((size_t)count, sizeof *lists);
    if (!lists)
        return error_no_memory(error, "the lists of a layer");
    layer->lists = lists;
    layer->list_count = count;
    for (int i = 0; i < count && r == 0; i++)
        r = read_list(branches ? json_object_array_get_idx(branches, (size_t)i) : own[i], &lists[i],
                      error);
    return r;
}

static int read_layer(struct json_object *json, struct model_layer *to, struct error *error)
{
    int r;

    struct model_layer layer = model_layer_default(
        (enum model_layer_kind)model_layer_kind_from_string(json_get_string(json, "type", "")));

    read_pair(json, "kernel", layer.window.kernel);
    read_pair(json, "stride", layer.window.stride);
    read_pair(json, "padding", layer.window.padding);
    read_pair(json, "dilation", layer.window.dilation);
    read_pair(json, "output_padding", layer.output_padding);
    read_pair(json, "size", layer.size);
    layer.window.groups = (int)json_get_int(json, "groups", layer.window.groups);
#define WHOLE(name, ...) layer.name = json_get_int(json, #name, layer.name);
#define NUMBER(name, ...) layer.name = (float)json_get_double(json, #name, layer.name);
#define SWITCH(name, ...) layer.name = json_get_bool(json, #name, layer.name);
#define WORD(name, ...) layer.name = json_get_string(json, #name, layer.name);
#define WINDOW(name, ...)
    MODEL_LAYER_KEYS(WHOLE, NUMBER, SWITCH, WORD, WINDOW)
    layer.name = json_get_string(json, "name", NULL);
    r = read_names(json_get(json, "inputs"), &layer.inputs, &layer.input_count, error);
    if (r == 0)
        r = read_lists(json, &layer, error);
    *to = layer;
    return r;
}

/* The list owns what it reads; worker_spec_release_layers() frees it. */
static int read_list(struct json_object *json, struct model_layer_list *list, struct error *error)
{
    size_t count = json ? json_object_array_length(json) : 0;
    struct model_layer *layers = calloc(count + 1, sizeof *layers);
    int r = 0;

    if (!layers)
        return error_no_memory(error, "the model's layers");
    list->layers = layers;
    for (size_t i = 0; i < count && r == 0; i++) {
        list->count++;
        r = read_layer(json_object_array_get_idx(json, i), &layers[i], error);
    }
    return r;
}

void worker_spec_release_layers(struct model_layer_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const struct model_layer *layer = &list->layers[i];

        for (int k = 0; k < layer->list_count; k++)
            worker_spec_release_layers((struct model_layer_list *)&layer->lists[k]);
        free((void *)layer->lists);
        free((void *)layer->inputs);
    }
    free((void *)list->layers);
    free((void *)list->outputs);
    *list = (struct model_layer_list){0};
}

static void read_heads(struct worker_spec *spec, struct json_object *heads)
{
    size_t count = heads ? json_object_array_length(heads) : 0;

    spec->head_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        struct json_object *head = json_object_array_get_idx(heads, i);
        const char *loss = json_get_string(head, "loss", "");

        spec->head_names[i] = json_get_string(head, "name", "");
        spec->heads[i] = (struct loss_head){.classes = (int)json_get_int(head, "classes", 0),
                                            .labels = (int)json_get_int(head, "labels", 1),
                                            .binary = strcmp(loss, "binary_cross_entropy") == 0,
                                            .weight = (float)json_get_double(head, "weight", 1)};
    }
}

/* The loss and the numbers that it is set to. */
static void read_loss(struct worker_spec *spec, struct json_object *json)
{
    struct json_object *quantiles = json_get(json, "quantiles");
    struct json_object *numbers = quantiles ? quantiles : json_get(json, "pos_weight");

    spec->loss =
        (enum model_loss)model_loss_from_string(json_get_string(json, "loss", "cross_entropy"));
    if (quantiles)
        spec->loss = LOSS_QUANTILES;
    spec->loss_parameter =
        (float)(spec->loss == LOSS_FOCAL       ? json_get_double(json, "focal_gamma", 2)
                : spec->loss == LOSS_HUBER     ? json_get_double(json, "huber_delta", 1)
                : spec->loss == LOSS_SMOOTH_L1 ? json_get_double(json, "smooth_l1_beta", 1)
                                               : json_get_double(json, "quantile", 0.5));
    spec->triplet =
        (struct triplet_loss_config){.mining = (enum triplet_mining)triplet_mining_from_string(
                                         json_get_string(json, "triplet_mining", "semi_hard")),
                                     .margin = (float)json_get_double(json, "triplet_margin", 1)};
    spec->embedding_size = json_get_int(json, "embedding_size", 0);
    spec->loss_number_count = numbers ? (int)json_object_array_length(numbers) : 0;
    for (int i = 0; i < spec->loss_number_count; i++)
        spec->loss_numbers[i] =
            (float)json_object_get_double(json_object_array_get_idx(numbers, (size_t)i));
}

int worker_spec_read_model(struct worker_spec *spec, struct error *error)
{
    struct json_object *json = json_get(spec->normalised, "model");
    struct model_config *model = &spec->model;
    int r;

    model->kind = (enum model_kind)model_kind_from_string(json_get_string(json, "name", ""));
    model->hidden = spec->hidden;
    model->hidden_count = read_widths(json_get(json, "hidden"), spec->hidden);
    model->channels = spec->channels;
    model->channel_count = read_widths(json_get(json, "channels"), spec->channels);
    model->states = (int)json_get_int(json, "states", 0);
    model->expand = (int)json_get_int(json, "expand", 0);
    model->epsilon = (float)json_get_double(json, "epsilon", 1e-5);
    model->norm =
        (enum model_norm)model_norm_from_string(json_get_string(json, "norm", "rms_norm"));
    model->add_norm =
        (enum model_add_norm)model_add_norm_from_string(json_get_string(json, "add_norm", "auto"));
    model->reverse_complement = json_get_bool(json, "reverse_complement", false);
    model->kernels = spec->kernels;
    model->kernel_count = read_widths(json_get(json, "kernels"), spec->kernels);
    model->filters = json_get_int(json, "filters", 0);
    model->pooling =
        (enum model_pooling)model_pooling_from_string(json_get_string(json, "pooling", "mean"));
    model->kernel = (int)json_get_int(json, "kernel", 0);
    model->activation = (enum activation_kind)activation_kind_from_string(
        json_get_string(json, "activation", "relu"));
    model->batch_norm = json_get_bool(json, "batch_norm", false);
    model->dropout = (float)json_get_double(json, "dropout", 0);
    model->head_dropout = (float)json_get_double(json, "head_dropout", 0);
    model->embedding = json_get_int(json, "embedding", 0);
    model->depth = (int)json_get_int(json, "depth", 0);
    model->heads = (int)json_get_int(json, "heads", 0);
    model->mlp_ratio = json_get_double(json, "mlp_ratio", 0);
    model->positions = (enum model_positions)model_positions_from_string(
        json_get_string(json, "positions", "learned"));
    model->patch = (int)json_get_int(json, "patch", 0);
    model->pool = (enum model_pool)model_pool_from_string(json_get_string(json, "pool", "token"));
    model->hidden_size = json_get_int(json, "hidden_size", 0);
    model->num_layers = (int)json_get_int(json, "num_layers", 0);
    model->bidirectional = json_get_bool(json, "bidirectional", false);
    model->carry_state = json_get_bool(json, "carry_state", false);
    model->readout =
        (enum model_readout)model_readout_from_string(json_get_string(json, "readout", "last"));
    model->width = json_get_double(json, "width", 1);
    model->stem_stride = (int)json_get_int(json, "stem_stride", 2);
    model->stochastic_depth = (float)json_get_double(json, "stochastic_depth", 0);
    read_loss(spec, json);
    spec->classes = json_get_int(json, "classes", 0);
    read_heads(spec, json_get(json, "output_heads"));
    model->draws_weights = strcmp(json_get_string(json, "weights", ""), "drawn") == 0;
    if (model->kind == MODEL_ONNX) {
        r = onnx_open(json_get_string(spec->normalised, "directory", NULL),
                      json_get_string(json, "onnx", ""), &model->onnx, error);
        if (r < 0)
            return r;
    }
    r = read_list(json_get(json, json_get(json, "nodes") ? "nodes" : "layers"), &model->layers,
                  error);
    return r ? r
             : read_names(json_get(json, "outputs"), &model->layers.outputs,
                          &model->layers.output_count, error);
}
