/* onnx_model.c: reads a file, numbers its values and checks that nodes are in order; see
 * onnx_model.h. */
#include "engine/onnx/onnx_model.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/onnx/onnx_parameters.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { OPSET_OLDEST = 13 };

const Onnx__Attribute *onnx_attribute(const struct onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++)
        if (node->proto->attribute[i]->name && strcmp(node->proto->attribute[i]->name, name) == 0)
            return node->proto->attribute[i];
    return NULL;
}

const struct onnx_node *onnx_producer(const struct onnx_model *model, int32_t value)
{
    return value < 0 || model->producer[value] < 0 ? NULL : &model->nodes[model->producer[value]];
}

/* ---- the file ---- */

static int unpack(const char *path, Onnx__Model **proto, struct error *error)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    void *content;

    if (file < 0)
        return error_set_errno(error, -errno, "cannot open the model %s", path);
    if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
        return error_set(error, -EINVAL, "the model %s is empty, or no file", path);
    if (status.st_size > INT_MAX)
        return error_set(error, -EFBIG,
                         "the model %s has more than 2 GiB, which the format forbids: its weights "
                         "have to lie in a file of their own (external data)",
                         path);
    content = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (content == MAP_FAILED)
        return error_set_errno(error, -errno, "cannot read the model %s", path);
    *proto = onnx__model__unpack(NULL, (size_t)status.st_size, content);
    munmap(content, (size_t)status.st_size);
    if (!*proto)
        return error_set(error, -EINVAL, "%s is no model in the ONNX format, or is cut off", path);
    return 0;
}

static int opset_check(const Onnx__Model *proto, const char *path, struct error *error)
{
    int64_t version = 0;

    for (size_t i = 0; i < proto->n_opset_import; i++)
        if (!proto->opset_import[i]->domain || !*proto->opset_import[i]->domain ||
            strcmp(proto->opset_import[i]->domain, "ai.onnx") == 0)
            version = proto->opset_import[i]->version;
    if (!proto->graph || proto->graph->n_node == 0)
        return error_set(error, -EINVAL, "%s is no model in the ONNX format: it has no nodes",
                         path);
    if (version < OPSET_OLDEST)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "%s is of opset %lld; traind reads opset %d and later: export it anew, or "
                         "convert it with onnx.version_converter",
                         path, (long long)version, OPSET_OLDEST);
    return 0;
}

/* ---- names ---- */

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The number of a name; -1: it is "", or no value has it. */
static int32_t value_find(const struct onnx_model *model, const char *name)
{
    const char **found;

    if (!name || !*name)
        return -1;
    found = bsearch(&name, model->names, (size_t)model->value_count, sizeof *model->names,
                    names_compare);
    return found ? (int32_t)(found - model->names) : -1;
}

/* Collects what nodes give, and the inputs and initialisers. */
static int names_collect(struct onnx_model *model, struct error *error)
{
    const Onnx__Graph *graph = model->proto->graph;
    size_t count = graph->n_initializer + graph->n_input, kept = 0;

    for (size_t i = 0; i < graph->n_node; i++)
        count += graph->node[i]->n_output;
    if (count > INT32_MAX / 4 || graph->n_node > INT32_MAX / 4)
        return error_set(error, -EINVAL, "the model has too many nodes");
    model->names = calloc(count + 1, sizeof *model->names);
    if (!model->names)
        return error_no_memory(error, "the model's names");
    count = 0;
    for (size_t i = 0; i < graph->n_initializer; i++)
        model->names[count++] = graph->initializer[i]->name;
    for (size_t i = 0; i < graph->n_input; i++)
        model->names[count++] = graph->input[i]->name;
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_output; k++)
            model->names[count++] = graph->node[i]->output[k];
    for (size_t i = 0; i < count; i++)
        if (model->names[i] && *model->names[i])
            model->names[kept++] = model->names[i];
    qsort(model->names, kept, sizeof *model->names, names_compare);
    count = 0;
    for (size_t i = 0; i < kept; i++)
        if (count == 0 || strcmp(model->names[count - 1], model->names[i]) != 0)
            model->names[count++] = model->names[i];
    model->value_count = (int32_t)count;
    return 0;
}

/* ---- initialisers ---- */

/* traind.export writes the names of a module's parameters; other files do not tell them from
 * constants, and every vector or matrix of them trains, and what single_weights_mark() finds. */
static bool initializer_trains(const struct onnx_model *model, const struct onnx_initializer *given,
                               const char *name)
{
    const Onnx__Model *proto = model->proto;

    if (!onnx_type_is_float(given->store.type))
        return false;
    for (size_t i = 0; i < proto->n_metadata_props; i++) {
        const char *at = proto->metadata_props[i]->value, *key = proto->metadata_props[i]->key;

        if (!key || !at || strcmp(key, "traind.parameters") != 0)
            continue;
        for (size_t length; *at; at += length + (at[length] == '\n')) {
            length = strcspn(at, "\n");
            if (strlen(name) == length && strncmp(at, name, length) == 0)
                return true;
        }
        return false;
    }
    return given->store.count > 1;
}

static int initializers_read(struct onnx_model *model, struct error *error)
{
    const Onnx__Graph *graph = model->proto->graph;
    AUTO_FREE bool *made = calloc((size_t)model->value_count + 1, sizeof *made);
    size_t count = graph->n_initializer;

    model->initializers = calloc(count + 1, sizeof *model->initializers);
    model->numbers_made = calloc(count + 1, sizeof *model->numbers_made);
    if (!made || !model->initializers || !model->numbers_made)
        return error_no_memory(error, "the model's weights");
    for (size_t i = 0; i < count; i++) {
        const Onnx__Tensor *tensor = graph->initializer[i];
        struct onnx_initializer *to = &model->initializers[i];
        int code;

        if (!tensor->name || !*tensor->name)
            return error_set(error, -EINVAL, "weights of the model have no name");
        code = onnx_tensor_read(model, tensor, to, &model->numbers_made[model->numbers_made_count],
                                error);
        if (code)
            return code;
        model->numbers_made_count++;
        to->store.name = tensor->name;
        to->store.trains = initializer_trains(model, to, tensor->name);
        to->value = value_find(model, tensor->name);
        if (made[to->value])
            return error_set(error, -EINVAL, "the weights %s are twice in the model", tensor->name);
        made[to->value] = true;
        model->initializer_count++;
    }
    return 0;
}

/* ---- nodes ---- */

/* The name of a node's layer: that of its first output, which is always there and unique. */
static void node_name(struct onnx_node *node, int index)
{
    const char *name = node->proto->n_output ? node->proto->output[0] : "";

    if (!*name)
        name = node->proto->name && *node->proto->name ? node->proto->name : "";
    if (*name)
        snprintf(node->name, sizeof node->name - 16, "%s", name);
    else
        snprintf(node->name, sizeof node->name, "node %d", index);
}

/* Whether the operator reads no number of that input. */
static bool asks_for_shape(const char *operator, int input)
{
    return strcmp(operator, "Shape") == 0 || strcmp(operator, "Size") == 0 ||
           (input == 1 && strcmp(operator, "CastLike") == 0);
}

static int node_check(struct onnx_model *model, int index, bool *made, struct error *error)
{
    struct onnx_node *node = &model->nodes[index];

    for (int i = 0; i < node->input_count; i++) {
        const char *name = node->proto->input[i];

        node->input[i] = value_find(model, name);
        if (!*name)
            continue;
        if (node->input[i] < 0)
            return error_set(error, -EINVAL,
                             "node %s (%s) of the model reads '%s', which nothing in it gives",
                             node->name, node->proto->op_type, name);
        if (!made[node->input[i]])
            return error_set(error, -EINVAL,
                             "node %s (%s) of the model reads '%s' before it is made: the nodes "
                             "form a cycle, or are not in order",
                             node->name, node->proto->op_type, name);
        if (asks_for_shape(node->proto->op_type, i))
            continue;
        model->readers[node->input[i]]++;
        model->reader[node->input[i]] = index;
    }
    for (int i = 0; i < node->output_count; i++) {
        node->output[i] = value_find(model, node->proto->output[i]);
        if (node->output[i] >= 0 && made[node->output[i]])
            return error_set(error, -EINVAL, "'%s' is made twice in the model",
                             node->proto->output[i]);
        if (node->output[i] >= 0) {
            made[node->output[i]] = true;
            model->producer[node->output[i]] = index;
        }
    }
    return 0;
}

static int nodes_number(struct onnx_model *model, bool *made, struct error *error)
{
    const Onnx__Graph *graph = model->proto->graph;
    int32_t *number = model->numbers;

    for (size_t i = 0; i < graph->n_node; i++) {
        struct onnx_node *node = &model->nodes[i];
        int code;

        *node = (struct onnx_node){.proto = graph->node[i],
                                   .input = number,
                                   .output = number + graph->node[i]->n_input,
                                   .input_count = (int)graph->node[i]->n_input,
                                   .output_count = (int)graph->node[i]->n_output};
        number += node->input_count + node->output_count;
        node_name(node, (int)i);
        if (!graph->node[i]->op_type)
            return error_set(error, -EINVAL, "node %s of the model has no operator", node->name);
        code = node_check(model, (int)i, made, error);
        if (code)
            return code;
        model->node_count++;
    }
    return 0;
}

static int nodes_read(struct onnx_model *model, struct error *error)
{
    const Onnx__Graph *graph = model->proto->graph;
    AUTO_FREE bool *made = calloc((size_t)model->value_count + 1, sizeof *made);
    size_t numbers = 0, values = (size_t)model->value_count;

    for (size_t i = 0; i < graph->n_node; i++)
        numbers += graph->node[i]->n_input + graph->node[i]->n_output;
    model->nodes = calloc(graph->n_node + 1, sizeof *model->nodes);
    model->numbers = calloc(numbers + 1, sizeof *model->numbers);
    model->readers = calloc(values + 1, sizeof *model->readers);
    model->reader = malloc((values + 1) * sizeof *model->reader);
    model->producer = malloc((values + 1) * sizeof *model->producer);
    if (!made || !model->nodes || !model->numbers || !model->readers || !model->reader ||
        !model->producer)
        return error_no_memory(error, "the model's nodes");
    memset(model->reader, -1, (values + 1) * sizeof *model->reader);
    memset(model->producer, -1, (values + 1) * sizeof *model->producer);
    for (int i = 0; i < model->initializer_count; i++)
        made[model->initializers[i].value] = true;
    for (size_t i = 0; i < graph->n_input; i++)
        if (value_find(model, graph->input[i]->name) >= 0)
            made[value_find(model, graph->input[i]->name)] = true;
    return nodes_number(model, made, error);
}

/* ---- what goes in and comes out ---- */

/* Initialisers may stand among the inputs, too. */
static bool is_initializer(const struct onnx_model *model, int32_t value)
{
    for (int i = 0; i < model->initializer_count; i++)
        if (model->initializers[i].value == value)
            return true;
    return false;
}

static const Onnx__TensorType *type_of(const Onnx__ValueInfo *info)
{
    return info->type ? info->type->tensor_type : NULL;
}

/* The first extent of an input; 0: the file leaves it open. */
static int64_t batch_of(const Onnx__ValueInfo *input)
{
    const Onnx__TensorType *type = type_of(input);
    const Onnx__Dimension *first =
        type && type->shape && type->shape->n_dim ? type->shape->dim[0] : NULL;

    return first && first->has_dim_value && first->dim_value > 0 ? first->dim_value : 0;
}

/* What one input reads. */
static struct onnx_interface interface_of(const Onnx__ValueInfo *input)
{
    const Onnx__TensorType *type = type_of(input);
    struct onnx_interface result = {0};

    if (!type)
        return result;
    result.symbols = type->elem_type == ONNX_INT64 || type->elem_type == ONNX_INT32;
    if (!type->shape || type->shape->n_dim < 1 || type->shape->n_dim > GRAPH_RANK_MAX)
        return result;
    result.rank = (int)type->shape->n_dim - 1;
    for (int k = 0; k < result.rank; k++) {
        const Onnx__Dimension *dimension = type->shape->dim[k + 1];

        result.sample_shape[k] = dimension->has_dim_value ? dimension->dim_value : -1;
    }
    return result;
}

int64_t onnx_interface_elements(const struct onnx_interface *interface)
{
    int64_t product = interface->rank ? 1 : -1;

    for (int k = 0; k < interface->rank && product > 0; k++)
        if (interface->sample_shape[k] < 1 || interface->sample_shape[k] > INT32_MAX / product)
            product = -1;
        else
            product *= interface->sample_shape[k];
    return product;
}

/* Of several inputs a sample has the numbers one behind another: their shapes must be known. */
static int inputs_check(struct onnx_model *model, const char *path, struct error *error)
{
    for (int i = 0; i < model->input_count && model->input_count > 1; i++)
        if (model->interfaces[i].symbols || onnx_interface_elements(&model->interfaces[i]) < 1)
            return error_set(error, -ERROR_UNSUPPORTED,
                             "%s has %d inputs, and %s %s: several inputs must be numbers of "
                             "known shapes, which a sample has one behind another",
                             path, model->input_count, model->names[model->inputs[i]],
                             model->interfaces[i].symbols ? "has indices"
                                                          : "leaves its shape open");
    return model->input_count ? 0 : error_set(error, -EINVAL, "%s has no input", path);
}

static int inputs_find(struct onnx_model *model, const char *path, struct error *error)
{
    const Onnx__Graph *graph = model->proto->graph;

    for (size_t i = 0; i < graph->n_input; i++) {
        int32_t value = value_find(model, graph->input[i]->name);

        if (value < 0 || is_initializer(model, value))
            continue;
        if (model->input_count == ONNX_ENDS_MAX)
            return error_set(error, -ERROR_UNSUPPORTED, "%s has more than %d inputs", path,
                             (int)ONNX_ENDS_MAX);
        if (graph->input[i]->type && !type_of(graph->input[i]))
            return error_set(error, -ERROR_UNSUPPORTED,
                             "the input %s of %s is no tensor, but a list or the like",
                             graph->input[i]->name, path);
        if (model->input_count == 0)
            model->fixed_batch = batch_of(graph->input[i]);
        model->interfaces[model->input_count] = interface_of(graph->input[i]);
        model->inputs[model->input_count++] = value;
    }
    return inputs_check(model, path, error);
}

static int outputs_find(struct onnx_model *model, const char *path, struct error *error)
{
    const Onnx__Graph *graph = model->proto->graph;

    if (graph->n_output == 0 || graph->n_output > ONNX_ENDS_MAX)
        return error_set(error, -EINVAL, "%s has %zu outputs; 1 to %d are possible", path,
                         graph->n_output, (int)ONNX_ENDS_MAX);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name ? graph->output[i]->name : "";
        int32_t value = value_find(model, name);

        if (value < 0)
            return error_set(error, -EINVAL, "nothing in %s gives its output '%s'", path, name);
        model->outputs[model->output_count++] = value;
        model->readers[value] += 2;
    }
    return 0;
}

struct onnx_interface onnx_interface(const struct onnx_model *model)
{
    const Onnx__TensorType *type = type_of(model->proto->graph->output[0]);
    struct onnx_interface result = model->interfaces[0];

    for (int i = 1; i < model->input_count; i++) {
        int64_t before = onnx_interface_elements(&result);

        result = (struct onnx_interface){.rank = 1};
        result.sample_shape[0] = before + onnx_interface_elements(&model->interfaces[i]);
    }
    result.output_rank = type && type->shape ? (int)type->shape->n_dim : 0;
    if (model->output_count > 1)
        result.output_rank = 2;
    return result;
}

/* Whether the input is the place of an operator's weights or biases. */
static bool holds_weights(const struct onnx_model *model, const struct onnx_node *node, int input)
{
    static const struct {
        const char *operator;
        unsigned inputs; /* a set of 1 << input */
    } places[] = {{"Conv", 6},   {"ConvTranspose", 6},      {"Gemm", 6},
                  {"MatMul", 3}, {"BatchNormalization", 6}, {"PRelu", 2}};
    const struct onnx_node *product;

    if (!onnx_node_is_standard(node))
        return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(places[i].operator, node->proto->op_type) == 0)
            return places[i].inputs >> input & 1;
    if (strcmp(node->proto->op_type, "Add") != 0 || node->input_count != 2)
        return false;
    product = onnx_producer(model, node->input[1 - input]);
    return product && onnx_node_is_standard(product) &&
           strcmp(product->proto->op_type, "MatMul") == 0;
}

/* Whether the last node that reads the value has it there, be it in another shape. */
static bool is_weight(const struct onnx_model *model, int32_t value)
{
    static const char *const shapers[] = {"Reshape", "Unsqueeze", "Squeeze", "Transpose",
                                          "Identity"};

    while (value >= 0 && model->reader[value] >= 0) {
        const struct onnx_node *node = &model->nodes[model->reader[value]];
        bool shapes = false;

        for (int k = 0; k < node->input_count; k++)
            if (node->input[k] == value && holds_weights(model, node, k))
                return true;
        for (size_t i = 0; i < sizeof shapers / sizeof *shapers; i++)
            shapes |= strcmp(node->proto->op_type, shapers[i]) == 0;
        value = shapes && onnx_node_input(node, 0) == value ? onnx_node_output(node, 0) : -1;
    }
    return false;
}

/* Of files that do not list their parameters: single numbers train where a layer has them as
 * weights, such as the bias of one output. */
static void single_weights_mark(struct onnx_model *model)
{
    for (size_t i = 0; i < model->proto->n_metadata_props; i++)
        if (model->proto->metadata_props[i]->key &&
            strcmp(model->proto->metadata_props[i]->key, "traind.parameters") == 0)
            return;
    for (int i = 0; i < model->initializer_count; i++) {
        struct onnx_initializer *given = &model->initializers[i];

        /* one without axes is a number of the source, as in x @ w + 1 */
        if (given->store.count == 1 && given->rank && onnx_type_is_float(given->store.type))
            given->store.trains = is_weight(model, given->value);
    }
}

static int model_read(struct onnx_model *model, const char *path, struct error *error)
{
    int code = unpack(path, &model->proto, error);

    if (code == 0)
        code = opset_check(model->proto, path, error);
    if (code == 0)
        code = names_collect(model, error);
    if (code == 0)
        code = initializers_read(model, error);
    if (code == 0)
        code = nodes_read(model, error);
    if (code == 0)
        single_weights_mark(model);
    if (code == 0)
        code = inputs_find(model, path, error);
    return code ? code : outputs_find(model, path, error);
}

int onnx_open(const char *directory, const char *path, struct onnx_model **result,
              struct error *error)
{
    struct onnx_model *model = calloc(1, sizeof *model);
    const char *slash;
    int code;

    *result = NULL;
    if (!model)
        return error_no_memory(error, "the model");
    if (asprintf(&model->path, "%s%s%s", *path == '/' || !directory ? "" : directory,
                 *path == '/' || !directory ? "" : "/", path) < 0)
        model->path = NULL;
    slash = model->path ? strrchr(model->path, '/') : NULL;
    if (model->path)
        model->directory =
            slash ? strndup(model->path, (size_t)(slash - model->path)) : strdup(".");
    if (!model->path || !model->directory) {
        free(model->path);
        free(model);
        return error_no_memory(error, "the model's path");
    }
    code = model_read(model, model->path, error);
    if (code) {
        onnx_close(model);
        return code;
    }
    *result = model;
    return 0;
}

void onnx_close(struct onnx_model *model)
{
    if (!model)
        return;
    onnx_lent_release(model);
    for (int i = 0; i < model->numbers_made_count; i++)
        free(model->numbers_made[i]);
    free(model->numbers_made);
    free(model->initializers);
    free(model->nodes);
    free(model->numbers);
    free(model->names);
    free(model->readers);
    free(model->reader);
    free(model->producer);
    onnx_externals_release(model);
    if (model->proto)
        onnx__model__free_unpacked(model->proto, NULL);
    free(model->directory);
    free(model->path);
    free(model);
}
