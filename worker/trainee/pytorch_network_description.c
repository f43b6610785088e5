/* pytorch_network_description.c: describes a network, so that pytorch_network.c can write it: the
 * layers of a chain or a graph, or the settings of a model that has code of its own. */
#include "engine/models/transformer.h"
#include "worker/trainee/pytorch_network_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct json_object *pair(const int values[2])
{
    struct json_object *list = json_object_new_array();

    json_object_array_add(list, json_object_new_int(values[0]));
    json_object_array_add(list, json_object_new_int(values[1]));
    return list;
}

static struct json_object *describe_list(const struct model_layer_list *list);

static struct json_object *describe_names(const char *const *names, int count)
{
    struct json_object *json = json_object_new_array();

    for (int i = 0; i < count; i++)
        json_object_array_add(json, json_object_new_string(names[i]));
    return json;
}

/* Describes the values that the module needs; the weights say all else. */
static struct json_object *describe_layer(const struct model_layer *layer)
{
    struct json_object *json = json_object_new_object(), *lists;
    const char *module = model_layer_python(layer->kind)->module;
    char key[PYTORCH_KEY_MAX];

    json_set_string(json, "type", model_layer_kind_to_string(layer->kind));
    while (pytorch_module_part(&module, key) >= 0) {
        int values[2], count;

        pytorch_usual_of(key);
        count = model_layer_window(layer, key, values);
        if (count == 2)
            json_set(json, key, pair(values));
        else if (count == 1)
            json_set_int(json, key, values[0]);
        else if (!isnan(model_layer_number(layer, key)))
            json_set_double(json, key, model_layer_number(layer, key));
        else if (model_layer_word(layer, key))
            json_set_string(json, key, model_layer_word(layer, key));
    }
    if (layer->name)
        json_set_string(json, "name", layer->name);
    if (layer->input_count)
        json_set(json, "inputs", describe_names(layer->inputs, layer->input_count));
    if (layer->list_count) {
        lists = json_object_new_array();
        for (int i = 0; i < layer->list_count; i++)
            json_object_array_add(lists, describe_list(&layer->lists[i]));
        json_set(json, "lists", lists);
        json_set_int(json, "axis", layer->axis);
    }
    return json;
}

static struct json_object *describe_list(const struct model_layer_list *list)
{
    struct json_object *json = json_object_new_array();

    for (int i = 0; i < list->count; i++)
        json_object_array_add(json, describe_layer(&list->layers[i]));
    return json;
}

/* Numbers that several networks have. */
static void describe_transformer(const struct worker_setup *setup, struct json_object *json)
{
    const struct model_config *model = &setup->spec.model;
    const struct model_data *data = &setup->model_data;
    int64_t tokens = 0;

    if (model->kind == MODEL_VIT)
        tokens = data->sample_shape[1] / model->patch * (data->sample_shape[2] / model->patch) +
                 (model->pool == POOL_TOKEN);
    json_set_int(json, "length", data->sample_shape[0]);
    json_set_int(json, "vocabulary", data->vocabulary);
    json_set_int(json, "padding", data->padded ? data->vocabulary - 1 : -1);
    json_set_int(json, "embedding", model->embedding);
    json_set_int(json, "depth", model->depth);
    json_set_int(json, "heads", model->heads);
    json_set_int(json, "features", transformer_features(model));
    json_set_int(json, "rotary", model->positions == POSITIONS_ROTARY);
    json_set_int(json, "patch", model->patch);
    json_set_int(json, "tokens", tokens);
    json_set_int(json, "mean", model->pool == POOL_MEAN);
}

/* The numbers of lstm and gru. */
static void describe_recurrent(const struct worker_setup *setup, struct json_object *json)
{
    const struct model_config *model = &setup->spec.model;
    const struct model_data *data = &setup->model_data;
    bool symbols = data->type == TENSOR_INT32;

    json_set_int(json, "vocabulary", data->vocabulary);
    json_set_int(json, "embedding", model->embedding);
    json_set_int(json, "features", symbols ? model->embedding : data->sample_shape[data->rank - 1]);
    json_set_int(json, "hidden_size", model->hidden_size);
    json_set_int(json, "num_layers", model->num_layers);
    json_set_int(json, "each", symbols && !data->padded);
    json_set_int(json, "bidirectional", model->bidirectional);
    json_set_int(json, "mean", model->readout == READOUT_MEAN);
}

/* The keys of the specification's model that say what it is built of; numbers as the model has
 * them, which may be rounded to float. */
static void describe_keys(const struct worker_setup *setup, struct json_object *json)
{
    const struct model_config *model = &setup->spec.model;

    json_object_object_foreach (json_get(setup->spec.normalised, "model"), key, value)
        if (!json_get(json, key) && strcmp(key, "loss") != 0 && strcmp(key, "classes") != 0)
            json_set(json, key, json_object_get(value));
    json_set_double(json, "width", model->width);
    json_set_int(json, "stem_stride", model->stem_stride);
    json_set_double(json, "dropout", (double)model->dropout);
    json_set_double(json, "stochastic_depth", (double)model->stochastic_depth);
}

struct json_object *pytorch_network_describe(const struct worker_setup *setup, struct error *error)
{
    const struct model_config *model = &setup->spec.model;
    struct json_object *json;
    struct model_layer *layers;
    int count;

    if (model_layers(model, &setup->model_data, &layers, &count, error) < 0)
        return NULL;
    json = json_object_new_object();
    json_set_string(json, "name", model_kind_to_string(model->kind));
    json_set_int(json, "rank", setup->model_data.rank);
    if (count > 0) {
        json_set(json, "layers",
                 describe_list(&(struct model_layer_list){.layers = layers, .count = count}));
        if (model->layers.output_count)
            json_set(json, "outputs",
                     describe_names(model->layers.outputs, model->layers.output_count));
    } else {
        describe_transformer(setup, json);
        if (model->kind == MODEL_LSTM || model->kind == MODEL_GRU)
            describe_recurrent(setup, json);
        if (!setup->model_data.vocabulary) /* of dna_cnn they are those of its layers */
            json_set_int(json, "channels", setup->model_data.sample_shape[0]);
        json_set_int(json, "outputs", setup->model_data.outputs);
        describe_keys(setup, json);
    }
    free(layers);
    return json;
}
