/* pytorch_network.c: see pytorch_network.h. */
#include "worker/trainee/pytorch_network.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MODULE_KEY_MAX = 32 };

/* ---- description ---- */

static struct json_object *pair(const int values[2])
{
    struct json_object *list = json_object_new_array();

    json_object_array_add(list, json_object_new_int(values[0]));
    json_object_array_add(list, json_object_new_int(values[1]));
    return list;
}

/* Takes the next part of a module's text (model_layer_module()). Returns the length up to "{key}"
 * or the end, and fills the key ("": none); -1: the text has ended. */
static int module_part(const char **module, char key[MODULE_KEY_MAX])
{
    size_t length = *module ? strcspn(*module, "{") : 0, name;

    key[0] = '\0';
    if (!*module || !**module)
        return -1;
    *module += length;
    if (**module == '{') {
        name = strcspn(*module, "}") - 1;
        snprintf(key, MODULE_KEY_MAX, "%.*s", (int)name, *module + 1);
        *module += name + 2;
    }
    return (int)length;
}

static struct json_object *describe_layer(const struct model_layer *layer)
{
    struct json_object *json = json_object_new_object();
    const char *module = model_layer_module(layer->kind);
    char key[MODULE_KEY_MAX];

    json_set_string(json, "type", model_layer_kind_to_string(layer->kind));
    switch (layer->kind) {
    case LAYER_CONV2D:
    case LAYER_MAX_POOL2D:
    case LAYER_AVERAGE_POOL2D:
        json_set(json, "kernel", pair(layer->window.kernel));
        json_set(json, "stride",
                 pair(layer->window.stride[0] ? layer->window.stride : layer->window.kernel));
        json_set(json, "padding", pair(layer->window.padding));
        json_set(json, "dilation", pair(layer->window.dilation));
        json_set_int(json, "groups", layer->window.groups);
        break;
    case LAYER_BATCH_NORM:
        json_set_double(json, "epsilon", (double)layer->epsilon);
        json_set_double(json, "momentum", (double)layer->momentum);
        break;
    default: /* all else follows from the weights */
        break;
    }
    while (module_part(&module, key) >= 0)
        if (key[0])
            json_set_double(json, key, model_layer_number(layer, key));
    return json;
}

struct json_object *pytorch_network_describe(const struct worker_setup *setup, struct error *error)
{
    const struct model_config *model = &setup->spec.model;
    struct json_object *json, *list;
    struct model_layer *layers;
    int count;

    if (model_layers(model, &setup->model_data, &layers, &count, error) < 0)
        return NULL;
    json = json_object_new_object();
    json_set_string(json, "name", model_kind_to_string(model->kind));
    json_set_int(json, "rank", setup->model_data.rank);
    if (count > 0) {
        list = json_object_new_array();
        for (int i = 0; i < count; i++)
            json_object_array_add(list, describe_layer(&layers[i]));
        json_set(json, "layers", list);
    } else {
        json_set_int(json, "channels", setup->model_data.sample_shape[0]);
        json_set_int(json, "outputs", setup->model_data.outputs);
        json_set_double(json, "width", model->width);
        json_set_int(json, "stem_stride", model->stem_stride);
        json_set_double(json, "dropout", (double)model->dropout);
        json_set_double(json, "stochastic_depth", (double)model->stochastic_depth);
    }
    free(layers);
    return json;
}

/* ---- chains ---- */

struct chain {
    FILE *file;
    const struct safetensors *weights;
    int number; /* of the layer */
    bool flat;  /* the layer's input has no height and width */
};

/* A tensor of the present layer; NULL: the layer does not have it. */
static const struct safetensors_tensor *tensor_of(const struct chain *chain, const char *part)
{
    char name[64];

    snprintf(name, sizeof name, "%d.%s", chain->number, part);
    return safetensors_find(chain->weights, name);
}

static int window(struct json_object *layer, const char *key, int axis)
{
    return json_object_get_int(json_object_array_get_idx(json_get(layer, key), (size_t)axis));
}

/* Writes "3" or "(3, 1)". */
static void write_pair(FILE *file, struct json_object *layer, const char *key)
{
    int first = window(layer, key, 0), second = window(layer, key, 1);

    if (first == second)
        fprintf(file, "%d", first);
    else
        fprintf(file, "(%d, %d)", first, second);
}

/* Writes the pair as an argument, unless both numbers are PyTorch's default. */
static void write_argument(FILE *file, struct json_object *layer, const char *key, int usual)
{
    if (window(layer, key, 0) == usual && window(layer, key, 1) == usual)
        return;
    fprintf(file, ", %s=", key);
    write_pair(file, layer, key);
}

static void write_convolution(const struct chain *chain, struct json_object *layer,
                              const struct safetensors_tensor *weight)
{
    int64_t groups = json_get_int(layer, "groups", 1);

    fprintf(chain->file, "nn.Conv2d(%" PRId64 ", %" PRId64 ", ", weight->shape[1] * groups,
            weight->shape[0]);
    write_pair(chain->file, layer, "kernel");
    write_argument(chain->file, layer, "stride", 1);
    write_argument(chain->file, layer, "padding", 0);
    write_argument(chain->file, layer, "dilation", 1);
    if (groups != 1)
        fprintf(chain->file, ", groups=%" PRId64, groups);
    fputs(tensor_of(chain, "bias") ? ")" : ", bias=False)", chain->file);
}

static void write_pool(FILE *file, struct json_object *layer, const char *kind)
{
    fprintf(file, "nn.%sPool2d(", kind);
    write_pair(file, layer, "kernel");
    fputs(", stride=", file);
    write_pair(file, layer, "stride");
    write_argument(file, layer, "padding", 0);
    fputc(')', file);
}

/* Writes a layer with weights; -EINVAL: the weights are missing. */
static int write_weighted(const struct chain *chain, enum model_layer_kind kind,
                          struct json_object *layer, struct error *error)
{
    const char *part = kind == LAYER_SQUEEZE_EXCITE ? "fc1.weight" : "weight";
    const struct safetensors_tensor *weight = tensor_of(chain, part);

    if (!weight || weight->rank < (kind == LAYER_BATCH_NORM ? 1 : 2))
        return error_set(error, -EINVAL, "the checkpoint lacks the weights of its layer %d",
                         chain->number);
    switch (kind) {
    case LAYER_LINEAR:
        fprintf(chain->file, "nn.Linear(%" PRId64 ", %" PRId64 "%s)", weight->shape[1],
                weight->shape[0], tensor_of(chain, "bias") ? "" : ", bias=False");
        break;
    case LAYER_CONV2D:
        write_convolution(chain, layer, weight);
        break;
    case LAYER_BATCH_NORM:
        fprintf(chain->file, "nn.BatchNorm%s(%" PRId64 ", eps=%.7g, momentum=%.7g)",
                chain->flat ? "1d" : "2d", weight->shape[0], json_get_double(layer, "epsilon", 0),
                json_get_double(layer, "momentum", 0));
        break;
    case LAYER_EMBEDDING:
        fprintf(chain->file, "nn.Embedding(%" PRId64 ", %" PRId64 ")", weight->shape[0],
                weight->shape[1]);
        break;
    default:
        fprintf(chain->file, "SqueezeExcitation(%" PRId64 ", %" PRId64 ")", weight->shape[1],
                weight->shape[0]);
        break;
    }
    return 0;
}

static void write_module(FILE *file, const char *module, struct json_object *layer)
{
    const char *at = module;
    char key[MODULE_KEY_MAX];
    int length;

    while ((length = module_part(&at, key)) >= 0) {
        fprintf(file, "%.*s", length, module);
        if (key[0])
            fprintf(file, "%.7g", json_get_double(layer, key, 0));
        module = at;
    }
}

static int write_layer(struct chain *chain, struct json_object *layer, struct error *error)
{
    int kind = model_layer_kind_from_string(json_get_string(layer, "type", ""));
    const char *module;

    if (kind < 0)
        return error_set(error, -EINVAL, "layer %d is of no kind that this program knows",
                         chain->number);
    module = model_layer_module((enum model_layer_kind)kind);
    if (module)
        write_module(chain->file, module, layer);
    else if (kind == LAYER_MAX_POOL2D || kind == LAYER_AVERAGE_POOL2D)
        write_pool(chain->file, layer, kind == LAYER_MAX_POOL2D ? "Max" : "Avg");
    else
        return write_weighted(chain, (enum model_layer_kind)kind, layer, error);
    chain->flat |= kind == LAYER_FLATTEN;
    return 0;
}

static int write_chain(FILE *file, struct json_object *network, const struct safetensors *weights,
                       struct error *error)
{
    struct json_object *layers = json_get(network, "layers");
    struct chain chain = {
        .file = file, .weights = weights, .flat = json_get_int(network, "rank", 1) != 3};
    size_t count = json_object_array_length(layers);
    int r = 0;

    fputs("    return nn.Sequential(\n", file);
    for (size_t i = 0; i < count && r == 0; i++) {
        chain.number = (int)i;
        fputs("        ", file);
        r = write_layer(&chain, json_object_array_get_idx(layers, i), error);
        fputs(i + 1 < count ? ",\n" : ")\n", file);
    }
    return r;
}

/* ---- torchvision's networks ---- */

/* Writes the number for "$key". */
static void write_number(FILE *file, struct json_object *network, const char *key)
{
    struct json_object *value = json_get(network, key);

    if (json_object_is_type(value, json_type_double)) /* width is a double, others were floats */
        fprintf(file, strcmp(key, "width") == 0 ? "%.17g" : "%.7g", json_object_get_double(value));
    else
        fprintf(file, "%" PRId64, json_object_get_int64(value));
}

static int write_torchvision(FILE *file, struct json_object *network, struct error *error)
{
    int kind = model_kind_from_string(json_get_string(network, "name", ""));
    const struct model_python *python = kind < 0 ? NULL : model_python((enum model_kind)kind);
    char key[MODULE_KEY_MAX];

    if (!python)
        return error_set(error, -EINVAL, "this program does not know the checkpoint's model");
    for (const char *at = python->body; *at;) {
        size_t length = strcspn(at, "$");

        fprintf(file, "%.*s", (int)length, at);
        at += length;
        if (!*at)
            break;
        length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_");
        snprintf(key, sizeof key, "%.*s", (int)length, at + 1);
        write_number(file, network, key);
        at += length + 1;
    }
    return 0;
}

/* ---- both ---- */

const char *pytorch_network_imports(struct json_object *network)
{
    struct json_object *layers = json_get(network, "layers");
    int kind = model_kind_from_string(json_get_string(network, "name", ""));
    const struct model_python *python = kind < 0 ? NULL : model_python((enum model_kind)kind);

    for (size_t i = 0; layers && i < json_object_array_length(layers); i++)
        if (strcmp(json_get_string(json_object_array_get_idx(layers, i), "type", ""),
                   model_layer_kind_to_string(LAYER_SQUEEZE_EXCITE)) == 0)
            return "from torchvision.ops import SqueezeExcitation\n";
    return python ? python->imports : "";
}

int pytorch_network_write(FILE *file, struct json_object *network,
                          const struct safetensors *weights, struct error *error)
{
    struct json_object *layers = json_get(network, "layers");

    fputs(
        "\n\n"
        "def network():\n"
        "    \"\"\"The layers alone, whose parameters have the names of the weights' file.\"\"\"\n",
        file);
    return layers && json_object_is_type(layers, json_type_array)
               ? write_chain(file, network, weights, error)
               : write_torchvision(file, network, error);
}
