/* layer_graph.c: a list of layers becomes operators. A layer reads the one before it, or those that
 * its `inputs` name: then the list is a graph, whose order does not matter. */
#include "engine/models/builders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 48 };

/* A layer's place in the walk that finds an order. */
enum visit { NOT_VISITED, VISITING, BUILT };

struct building {
    struct graph *graph;
    const struct model_data *data;
    const struct model_layer_list *list;
    const char *prefix; /* of the layers' names */
    int32_t input;      /* what the list reads */
    int32_t *results;   /* of each layer */
    unsigned char *visits;
    bool *read; /* another layer reads the result */
    struct error *error;
};

static int build_layer(struct building *building, int index);

/* The layer's name within its list. */
static const char *short_name(const struct model_layer *layer, int index, char *text, size_t size)
{
    if (layer->name)
        snprintf(text, size, "%s", layer->name);
    else
        snprintf(text, size, "%d", index);
    return text;
}

static int find_layer(const struct model_layer_list *list, const char *name)
{
    char text[NAME_MAX_BYTES];

    for (int i = 0; i < list->count; i++)
        if (strcmp(short_name(&list->layers[i], i, text, sizeof text), name) == 0)
            return i;
    return -1;
}

static int fail_unknown(struct building *building, int index, const char *input)
{
    char own[NAME_MAX_BYTES];

    short_name(&building->list->layers[index], index, own, sizeof own);
    return error_set(building->error, -EINVAL,
                     "node %s%s takes its input from \"%.64s\", but no node has that name; "
                     "\"input\" are the samples",
                     building->prefix, own, input);
}

static int fail_cycle(struct building *building, int index)
{
    char own[NAME_MAX_BYTES];

    short_name(&building->list->layers[index], index, own, sizeof own);
    return error_set(building->error, -EINVAL,
                     "node %s%s depends on its own result: its inputs lead back to it in a cycle",
                     building->prefix, own);
}

/* The tensor that an input of the layer names, which is built first where need be. */
static int resolve(struct building *building, int index, const char *input, int32_t *tensor)
{
    int other = input ? find_layer(building->list, input) : index - 1, code;

    if ((input && other < 0 && strcmp(input, "input") == 0) || (!input && index == 0)) {
        *tensor = building->input;
        return 0;
    }
    if (other < 0)
        return fail_unknown(building, index, input);
    code = build_layer(building, other);
    building->read[other] = true;
    *tensor = building->results[other];
    return code;
}

static int build_nested(struct building *building, const struct model_layer *layer,
                        const char *name, int32_t x, int32_t *result)
{
    int32_t results[GRAPH_OUTPUTS_MAX];
    char prefix[GRAPH_NAME_MAX + 32];
    bool residual = layer->kind == LAYER_RESIDUAL;
    int code = 0;

    if (layer->list_count > GRAPH_OUTPUTS_MAX)
        return error_set(building->error, -EINVAL, "layer %s has %d branches, at most %d can be",
                         name, layer->list_count, GRAPH_OUTPUTS_MAX);
    for (int i = 0; i < layer->list_count && !code; i++) {
        if (residual)
            snprintf(prefix, sizeof prefix, "%s.%s.", name, i ? "projection" : "layers");
        else
            snprintf(prefix, sizeof prefix, "%s.branches.%d.", name, i);
        code = layer_list_build(&layer->lists[i], prefix, building->data, building->graph, x,
                                &results[i], building->error);
    }
    if (code || building->graph->error.code)
        return code;
    if (residual && layer->list_count == 1)
        results[1] = x;
    *result = model_layers_join(building->graph, results, residual ? 2 : layer->list_count,
                                residual ? "add" : layer->join, layer->axis, name);
    return 0;
}

/* Refuses indices for which an embedding has no row. */
static int check_embedding(const struct building *building, const struct model_layer *layer,
                           const char *name)
{
    if (layer->kind == LAYER_EMBEDDING && building->data->vocabulary > layer->vocabulary)
        return error_set(building->error, -EINVAL,
                         "layer %s (embedding) has a vocabulary of %lld, but the data has %lld "
                         "different symbols",
                         name, (long long)layer->vocabulary, (long long)building->data->vocabulary);
    return 0;
}

static int append_layer(struct building *building, const struct model_layer *given,
                        const char *name, const int32_t *inputs, int count, int32_t *result)
{
    struct model_layer layer = *given;
    int code;

    if (model_layer_joins(layer.kind)) {
        *result = model_layers_join(building->graph, inputs, count,
                                    model_layer_kind_to_string(layer.kind), layer.axis, name);
        return 0;
    }
    if (count != 1)
        return error_set(building->error, -EINVAL,
                         "node %s (%s) reads one input, but it has %d; add and concat join several",
                         name, model_layer_kind_to_string(layer.kind), count);
    if (layer.kind == LAYER_RESIDUAL || layer.kind == LAYER_BRANCHES)
        return build_nested(building, &layer, name, inputs[0], result);
    if (layer.kind == LAYER_EMBEDDING && !layer.vocabulary)
        layer.vocabulary = building->data->vocabulary;
    code = check_embedding(building, &layer, name);
    if (!code)
        *result = model_layer_build(building->graph, &layer, name, inputs[0]);
    return code;
}

/* Builds the layer behind those that it reads. */
static int build_layer(struct building *building, int index)
{
    const struct model_layer *layer = &building->list->layers[index];
    char own[NAME_MAX_BYTES], name[GRAPH_NAME_MAX];
    int count = layer->input_count ? layer->input_count : 1, code = 0;
    int32_t inputs[GRAPH_OUTPUTS_MAX];

    if (building->visits[index] == BUILT)
        return 0;
    if (building->visits[index] == VISITING)
        return fail_cycle(building, index);
    building->visits[index] = VISITING;
    short_name(layer, index, own, sizeof own);
    if (snprintf(name, sizeof name, "%s%s", building->prefix, own) >= (int)sizeof name - 24)
        return error_set(building->error, -EINVAL, "the name of layer %s is too long", name);
    if (count > GRAPH_OUTPUTS_MAX)
        return error_set(building->error, -EINVAL, "node %s has %d inputs, at most %d can be", name,
                         count, GRAPH_OUTPUTS_MAX);
    for (int i = 0; i < count && !code; i++)
        code = resolve(building, index, layer->input_count ? layer->inputs[i] : NULL, &inputs[i]);
    building->results[index] = -1;
    if (!code && !building->graph->error.code)
        code = append_layer(building, layer, name, inputs, count, &building->results[index]);
    building->visits[index] = BUILT;
    return code;
}

static const char name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

/* Names are unique, and none is that of the samples. */
static int check_names(const struct model_layer_list *list, const char *prefix, struct error *error)
{
    for (int i = 0; i < list->count; i++) {
        const char *name = list->layers[i].name;

        if (!name)
            continue;
        if (strcmp(name, "input") == 0 || name[strspn(name, name_letters)] ||
            strlen(name) >= NAME_MAX_BYTES)
            return error_set(
                error, -EINVAL,
                "node %s%.64s: a name has at most %d letters, digits, \"_\" and \"-\", "
                "and is not \"input\", which are the samples",
                prefix, name, NAME_MAX_BYTES - 1);
        if (find_layer(list, name) != i)
            return error_set(error, -EINVAL, "two nodes have the name %s%s", prefix, name);
    }
    return 0;
}

/* Every layer is read, or gives a result of the list. */
static int check_use(const struct building *building)
{
    const struct model_layer_list *list = building->list;
    char own[NAME_MAX_BYTES];

    for (int i = 0; i < list->count; i++) {
        bool given = list->output_count ? false : i == list->count - 1;

        for (int k = 0; k < list->output_count; k++)
            given |= find_layer(list, list->outputs[k]) == i;
        if (!given && !building->read[i])
            return error_set(building->error, -EINVAL,
                             "node %s%s is used by no other node and is no output; remove it, or "
                             "name it among the inputs of another",
                             building->prefix, short_name(&list->layers[i], i, own, sizeof own));
    }
    return 0;
}

/* Builds all layers. The results that the list gives are joined, one behind another. */
static int build_all(struct building *building, int32_t *result)
{
    const struct model_layer_list *list = building->list;
    int32_t outputs[GRAPH_OUTPUTS_MAX];
    int code = 0;

    for (int i = 0; i < list->count && !code; i++)
        code = build_layer(building, i);
    if (code || building->graph->error.code)
        return code;
    for (int i = 0; i < list->output_count; i++) {
        int index = find_layer(list, list->outputs[i]);

        if (index < 0)
            return error_set(building->error, -EINVAL,
                             "model.outputs names \"%.64s\", but no node has that name",
                             list->outputs[i]);
        outputs[i] = building->results[index];
    }
    code = check_use(building);
    if (code)
        return code;
    *result = list->output_count > 1
                  ? model_layers_join(building->graph, outputs, list->output_count, "concat", 1,
                                      "outputs")
                  : building->results[list->output_count ? find_layer(list, list->outputs[0])
                                                         : list->count - 1];
    return 0;
}

int layer_list_build(const struct model_layer_list *list, const char *prefix,
                     const struct model_data *data, struct graph *graph, int32_t x, int32_t *result,
                     struct error *error)
{
    size_t count = (size_t)list->count + 1;
    struct building building = {
        .graph = graph, .data = data, .list = list, .prefix = prefix, .input = x, .error = error};
    int code = check_names(list, prefix, error);

    *result = x;
    if (code || !list->count)
        return code;
    if (list->output_count > GRAPH_OUTPUTS_MAX)
        return error_set(error, -EINVAL, "model.outputs names %d nodes, at most %d can be",
                         list->output_count, GRAPH_OUTPUTS_MAX);
    building.results = calloc(count, sizeof *building.results);
    building.visits = calloc(count, 1);
    building.read = calloc(count, sizeof *building.read);
    code = building.results && building.visits && building.read
               ? build_all(&building, result)
               : error_no_memory(error, "the model's layers");
    free(building.results);
    free(building.visits);
    free(building.read);
    return code;
}
