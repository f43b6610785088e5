/* onnx_export.c: see onnx_export.h. Nodes that the output does not need, such as losses, are left
 * out. */
#include "engine/onnx/onnx_export.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "engine/graph/operator.h"
#include "engine/onnx/onnx_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* IR version 8 came with opset 17. */
enum { IR_VERSION = 8, BYTES_MAX = INT32_MAX, SENTENCE_MAX = 700 };

static onnx_write_function writer_of(enum graph_op op)
{
    onnx_write_function function = onnx_layer_writer(op);

    if (!function)
        function = onnx_move_writer(op);
    if (!function)
        function = onnx_sequence_writer(op);
    return function ? function : onnx_int8_writer(op);
}

/* ---- what is written ------------------------------------------------------------------------- */

static bool is_recurrent(const struct graph_node *node)
{
    return node->op == OP_RECURRENT || node->op == OP_RECURRENT_INT8;
}

/* The tensor that a node reads: ONNX's recurrent layers include the product with the input. */
static int32_t input_of(const struct graph *graph, const struct graph_node *node, int place)
{
    int32_t tensor = node->input[place];
    int32_t producer = tensor < 0 ? -1 : graph->tensors[tensor].producer;

    if (place == 0 && is_recurrent(node) && producer >= 0 &&
        (graph->nodes[producer].op == OP_LINEAR || graph->nodes[producer].op == OP_LINEAR_INT8))
        return graph->nodes[producer].input[0];
    return tensor;
}

static void mark_needed(const struct graph *graph, bool *tensors, bool *nodes)
{
    tensors[graph->output] = true;
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->output_count; k++)
            nodes[i] |= node->output[k] >= 0 && tensors[node->output[k]];
        for (int k = 0; nodes[i] && k < node->input_count; k++)
            if (node->input[k] >= 0)
                tensors[input_of(graph, node, k)] = true;
    }
}

static bool carries_state(const struct graph *graph, const struct graph_node *node)
{
    for (int k = 0; k < node->input_count; k++)
        if (node->input[k] >= 0 && graph->tensors[node->input[k]].role == TENSOR_STATE)
            return true;
    return false;
}

/* Names all that is missing at once. */
static int check(const struct graph *graph, const bool *needed, struct error *error)
{
    char list[SENTENCE_MAX] = "";
    size_t used = 0;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        bool carried = carries_state(graph, node);

        if (needed[i] && (!writer_of(node->op) || carried) && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (%s%s)",
                                     used ? ", " : "", node->name, graph_op_to_string(node->op),
                                     carried ? ", which carries its state" : "");
    }
    return used ? error_set(error, -ERROR_UNSUPPORTED,
                            "the export to ONNX does not write these layers: %s; export the "
                            "weights alone, without --onnx",
                            list)
                : 0;
}

/* ---- input and output ------------------------------------------------------------------------ */

static Onnx__ValueInfo *describe(struct onnx_writer *writer, int32_t tensor, const char *name)
{
    const struct graph_tensor *from = &writer->graph->tensors[tensor];
    Onnx__ValueInfo *value = onnx_writer_memory(writer, sizeof *value);
    Onnx__Type *type = onnx_writer_memory(writer, sizeof *type);
    Onnx__TensorType *of = onnx_writer_memory(writer, sizeof *of);
    Onnx__Shape *shape = onnx_writer_memory(writer, sizeof *shape);

    onnx__value_info__init(value);
    onnx__type__init(type);
    onnx__tensor_type__init(of);
    onnx__shape__init(shape);
    value->name = (char *)name;
    value->type = type;
    type->tensor_type = of;
    of->has_elem_type = true;
    of->elem_type = from->type == TENSOR_INT32 ? ONNX_INT32 : ONNX_FLOAT;
    of->shape = shape;
    shape->n_dim = (size_t)from->shape.rank;
    shape->dim = onnx_writer_memory(writer, shape->n_dim * sizeof *shape->dim);
    for (int i = 0; i < from->shape.rank; i++) {
        shape->dim[i] = onnx_writer_memory(writer, sizeof **shape->dim);
        onnx__dimension__init(shape->dim[i]);
        shape->dim[i]->has_dim_value = i > 0;
        shape->dim[i]->dim_value = from->shape.extent[i];
        shape->dim[i]->dim_param = i ? NULL : (char *)"batch";
    }
    return value;
}

/* (x - mean) factor, with vectors that repeat along other axes than theirs. */
static onnx_name normalise(struct onnx_writer *writer, onnx_name x)
{
    const struct onnx_export *config = writer->config;
    int images = writer->graph->tensors[writer->graph->input].shape.rank == 4;
    const int64_t extents[] = {config->groups, 1, 1};
    int rank = images ? 3 : 1;

    if (!config->groups)
        return x;
    x = onnx_apply(writer, "Sub", x, onnx_floats(writer, config->mean, extents, rank), NULL);
    return onnx_apply(writer, "Mul", x, onnx_floats(writer, config->factor, extents, rank), NULL);
}

static onnx_name denormalise(struct onnx_writer *writer, onnx_name y)
{
    const struct onnx_export *config = writer->config;

    if (!config->target_groups)
        return y;
    y = onnx_apply(writer, "Div", y,
                   onnx_floats(writer, config->target_factor, &config->target_groups, 1), NULL);
    return onnx_apply(writer, "Add", y,
                      onnx_floats(writer, config->target_mean, &config->target_groups, 1), NULL);
}

static void write_inputs(struct onnx_writer *writer, const bool *tensors)
{
    const struct graph *graph = writer->graph;
    Onnx__Graph *file = &writer->file;

    file->input = onnx_writer_memory(writer, 2 * sizeof *file->input);
    file->input[file->n_input++] = describe(writer, graph->input, "input");
    writer->names[graph->input] = normalise(writer, "input");
    if (graph->lengths >= 0 && tensors[graph->lengths]) {
        file->input[file->n_input++] = describe(writer, graph->lengths, "lengths");
        writer->names[graph->lengths] = "lengths";
    }
}

static void write_output(struct onnx_writer *writer)
{
    const onnx_name last = denormalise(writer, onnx_value(writer, writer->graph->output));
    Onnx__Node *node = onnx_append(writer, "Identity", &last, 1, 1);

    node->output[0] = (char *)"output";
    writer->file.n_output = 1;
    writer->file.output = onnx_writer_memory(writer, sizeof *writer->file.output);
    writer->file.output[0] = describe(writer, writer->graph->output, "output");
}

/* ---- file ------------------------------------------------------------------------------------ */

static void add_metadata(struct onnx_writer *writer, Onnx__Model *model)
{
    const char *const(*metadata)[2] = writer->config->metadata;
    size_t count = 0;

    while (metadata && metadata[count][0])
        count++;
    model->n_metadata_props = count;
    model->metadata_props = onnx_writer_memory(writer, count * sizeof *model->metadata_props);
    for (size_t i = 0; i < count; i++) {
        model->metadata_props[i] = onnx_writer_memory(writer, sizeof **model->metadata_props);
        onnx__string_pair__init(model->metadata_props[i]);
        model->metadata_props[i]->key = (char *)metadata[i][0];
        model->metadata_props[i]->value = (char *)metadata[i][1];
    }
}

static int write_file(struct onnx_writer *writer, const char *path, uint64_t *bytes,
                      struct error *error)
{
    Onnx__OperatorSet set = ONNX__OPERATOR_SET__INIT, *sets[] = {&set};
    Onnx__Model model = ONNX__MODEL__INIT;
    AUTO_FREE uint8_t *content = NULL;
    size_t size;

    set.domain = (char *)"";
    set.has_version = true;
    set.version = ONNX_EXPORT_OPSET;
    model.has_ir_version = true;
    model.ir_version = IR_VERSION;
    model.producer_name = (char *)"traind";
    model.producer_version = (char *)TRAIND_VERSION;
    model.n_opset_import = 1;
    model.opset_import = sets;
    model.graph = &writer->file;
    writer->file.name = (char *)"network";
    add_metadata(writer, &model);
    size = onnx__model__get_packed_size(&model);
    if (size > BYTES_MAX)
        return error_set(error, -EFBIG,
                         "the model takes %zu bytes, but a file in the ONNX format has at most 2 "
                         "GiB",
                         size);
    content = malloc(size);
    if (!content)
        return error_no_memory(error, "the ONNX file");
    onnx__model__pack(&model, content);
    *bytes = size;
    return file_write_result(path, content, size, error);
}

static void write_nodes(struct onnx_writer *writer, const bool *nodes)
{
    const struct graph *graph = writer->graph;

    for (int32_t i = 0; i < graph->node_count && !writer->result; i++) {
        if (!nodes[i])
            continue;
        writer->node = &graph->nodes[i];
        writer_of(writer->node->op)(writer);
    }
    writer->node = NULL;
}

int onnx_export_write(const struct onnx_export *config, const char *path, uint64_t *bytes,
                      struct error *error)
{
    const struct graph *graph = config->graph;
    struct onnx_writer writer = {.config = config, .graph = graph, .error = error};
    AUTO_FREE bool *tensors = memory_zero((size_t)graph->tensor_count * sizeof *tensors);
    AUTO_FREE bool *nodes = memory_zero((size_t)graph->node_count * sizeof *nodes);
    int r;

    mark_needed(graph, tensors, nodes);
    r = check(graph, nodes, error);
    if (r < 0)
        return r;
    onnx__graph__init(&writer.file);
    writer.names = memory_zero((size_t)graph->tensor_count * sizeof *writer.names);
    write_inputs(&writer, tensors);
    write_nodes(&writer, nodes);
    if (!writer.result)
        write_output(&writer);
    r = writer.result ? writer.result : write_file(&writer, path, bytes, error);
    onnx_writer_release(&writer);
    return r;
}
