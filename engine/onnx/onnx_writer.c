/* onnx_writer.c: see onnx_writer.h. */
#include "engine/onnx/onnx_writer.h"

#include "base/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS_MAX = 8 };

static void own(struct onnx_writer *writer, void *memory)
{
    if (writer->owned_count == writer->owned_capacity) {
        writer->owned_capacity = writer->owned_capacity ? 2 * writer->owned_capacity : 256;
        writer->owned = memory_grow(writer->owned, writer->owned_capacity * sizeof(void *));
    }
    writer->owned[writer->owned_count++] = memory;
}

void *onnx_writer_memory(struct onnx_writer *writer, size_t bytes)
{
    void *memory = memory_zero(bytes ? bytes : 1);

    own(writer, memory);
    return memory;
}

const char *onnx_writer_text(struct onnx_writer *writer, const char *format, ...)
{
    va_list arguments;
    char text[2 * GRAPH_NAME_MAX];
    char *copy;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    copy = onnx_writer_memory(writer, strlen(text) + 1);
    strcpy(copy, text);
    return copy;
}

void onnx_writer_release(struct onnx_writer *writer)
{
    for (size_t i = 0; i < writer->owned_count; i++)
        free(writer->owned[i]);
    free(writer->owned);
    free(writer->names);
    free((void *)writer->file.node);
    free((void *)writer->file.initializer);
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool grows(size_t count)
{
    return (count & (count - 1)) == 0; /* at each power of two */
}

/* Of data that the writer owns. */
static onnx_name append_initializer(struct onnx_writer *writer, const char *name,
                                    enum onnx_type type, const int64_t *extents, int rank,
                                    void *data, size_t bytes)
{
    Onnx__Tensor *tensor = onnx_writer_memory(writer, sizeof *tensor);
    Onnx__Graph *file = &writer->file;

    onnx__tensor__init(tensor);
    tensor->name = (char *)name;
    tensor->has_data_type = true;
    tensor->data_type = (int32_t)type;
    tensor->n_dims = (size_t)rank;
    tensor->dims = onnx_writer_memory(writer, (size_t)rank * sizeof *tensor->dims);
    for (int i = 0; i < rank; i++)
        tensor->dims[i] = extents[i];
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){.len = bytes, .data = data};
    if (grows(file->n_initializer))
        file->initializer = memory_grow((void *)file->initializer,
                                        (2 * file->n_initializer + 1) * sizeof *file->initializer);
    file->initializer[file->n_initializer++] = tensor;
    return name;
}

onnx_name onnx_constant(struct onnx_writer *writer, const char *name, enum onnx_type type,
                        const int64_t *extents, int rank, const void *data, size_t bytes)
{
    void *copy = onnx_writer_memory(writer, bytes);

    memcpy(copy, data, bytes);
    return append_initializer(writer, name, type, extents, rank, copy, bytes);
}

static const char *new_name(struct onnx_writer *writer)
{
    return onnx_writer_text(writer, "%s/%d", writer->node ? writer->node->name : "",
                            writer->serial++);
}

onnx_name onnx_ints(struct onnx_writer *writer, const int64_t *values, int count)
{
    const int64_t extent = count;

    return onnx_constant(writer, new_name(writer), ONNX_INT64, &extent, 1, values,
                         (size_t)count * sizeof *values);
}

onnx_name onnx_floats(struct onnx_writer *writer, const float *values, const int64_t *extents,
                      int rank)
{
    size_t count = 1;

    for (int i = 0; i < rank; i++)
        count *= (size_t)extents[i];
    return onnx_constant(writer, new_name(writer), ONNX_FLOAT, extents, rank, values,
                         count * sizeof *values);
}

onnx_name onnx_float(struct onnx_writer *writer, float value)
{
    return onnx_floats(writer, &value, NULL, 0);
}

onnx_name onnx_range(struct onnx_writer *writer, int64_t count)
{
    int32_t *values = onnx_writer_memory(writer, (size_t)count * sizeof *values);
    const int64_t extents[] = {1, count};

    for (int64_t i = 0; i < count; i++)
        values[i] = (int32_t)i;
    return append_initializer(writer, new_name(writer), ONNX_INT32, extents, 2, values,
                              (size_t)count * sizeof *values);
}

/* ---- values of the graph --------------------------------------------------------------------- */

static void fail(struct onnx_writer *writer, int result)
{
    if (!writer->result)
        writer->result = result;
}

float *onnx_numbers(struct onnx_writer *writer, int32_t tensor)
{
    const struct graph_tensor *from = &writer->graph->tensors[tensor];
    size_t count = (size_t)graph_shape_elements(&from->shape);
    float *values = onnx_writer_memory(writer, count * sizeof *values);
    int r = writer->config->read(writer->config->context, from, values, writer->error);

    if (r < 0)
        fail(writer, r);
    return values;
}

/* Whether the writer itself may give this name to a value: new_name(), and zeros of those. */
static bool is_given(const char *name)
{
    static const char bias[] = ONNX_FOLDED_BIAS;
    const char *slash = strrchr(name, '/'), *end;
    size_t length = strlen(name);

    if (strcmp(name, "input") == 0 || strcmp(name, "lengths") == 0 || strcmp(name, "output") == 0)
        return true;
    end = slash ? slash + 1 + strspn(slash + 1, "0123456789") : NULL;
    return (end && end > slash + 1 && (*end == '\0' || strcmp(end, "_zero") == 0)) ||
           (length >= sizeof bias - 1 && strcmp(name + length - (sizeof bias - 1), bias) == 0);
}

onnx_name onnx_parameter_name(struct onnx_writer *writer, int32_t tensor)
{
    const char *own = writer->graph->tensors[tensor].name, *name = own;

    for (int number = 1;
         is_given(name) || (name != own && graph_find_tensor(writer->graph, name) >= 0); number++)
        name = onnx_writer_text(writer, "%s.parameter%d", own, number);
    return name;
}

static onnx_name append_float(struct onnx_writer *writer, int32_t tensor)
{
    const struct graph_tensor *from = &writer->graph->tensors[tensor];

    return append_initializer(writer, onnx_parameter_name(writer, tensor), ONNX_FLOAT,
                              from->shape.extent, from->shape.rank, onnx_numbers(writer, tensor),
                              (size_t)graph_shape_elements(&from->shape) * sizeof(float));
}

/* The integers, and what multiplies each row of them by its factor. */
static onnx_name append_int8(struct onnx_writer *writer, int32_t tensor)
{
    const struct graph_tensor *from = &writer->graph->tensors[tensor];
    size_t count = (size_t)graph_shape_elements(&from->shape);
    int8_t *values = onnx_writer_memory(writer, count);
    const char *scale = onnx_writer_text(writer, "%s_scale", from->name);
    onnx_name inputs[3], result;
    int r = writer->config->read_int8(writer->config->context, from, values, writer->error);

    if (r < 0)
        fail(writer, r);
    inputs[0] = append_initializer(writer, onnx_parameter_name(writer, tensor), ONNX_INT8,
                                   from->shape.extent, from->shape.rank, values, count);
    inputs[1] = onnx_value(writer, graph_find_tensor(writer->graph, scale));
    inputs[2] = append_initializer(writer, new_name(writer), ONNX_INT8, from->shape.extent, 1,
                                   onnx_writer_memory(writer, (size_t)from->shape.extent[0]),
                                   (size_t)from->shape.extent[0]);
    result = onnx_append(writer, "DequantizeLinear", inputs, 3, 1)->output[0];
    onnx_set_int(writer, onnx_latest(writer), "axis", 0);
    return result;
}

onnx_name onnx_value(struct onnx_writer *writer, int32_t tensor)
{
    if (tensor < 0)
        return "";
    if (!writer->names[tensor])
        writer->names[tensor] = writer->graph->tensors[tensor].type == TENSOR_INT8
                                    ? append_int8(writer, tensor)
                                    : append_float(writer, tensor);
    return writer->names[tensor];
}

onnx_name onnx_read(struct onnx_writer *writer, int place)
{
    return place < writer->node->input_count ? onnx_value(writer, writer->node->input[place]) : "";
}

void onnx_give(struct onnx_writer *writer, int place, onnx_name value)
{
    if (place < writer->node->output_count)
        writer->names[writer->node->output[place]] = value;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

Onnx__Node *onnx_append(struct onnx_writer *writer, const char *type, const onnx_name *inputs,
                        int count, int results)
{
    Onnx__Node *node = onnx_writer_memory(writer, sizeof *node);
    Onnx__Graph *file = &writer->file;

    onnx__node__init(node);
    node->op_type = (char *)type;
    node->name = (char *)new_name(writer);
    node->n_input = (size_t)count;
    node->input = onnx_writer_memory(writer, (size_t)count * sizeof *node->input);
    for (int i = 0; i < count; i++)
        node->input[i] = (char *)inputs[i];
    node->n_output = (size_t)results;
    node->output = onnx_writer_memory(writer, (size_t)results * sizeof *node->output);
    for (int i = 0; i < results; i++)
        node->output[i] = (char *)new_name(writer);
    if (grows(file->n_node))
        file->node = memory_grow((void *)file->node, (2 * file->n_node + 1) * sizeof *file->node);
    file->node[file->n_node++] = node;
    return node;
}

onnx_name onnx_apply(struct onnx_writer *writer, const char *type, ...)
{
    onnx_name inputs[INPUTS_MAX], input;
    va_list arguments;
    int count = 0;

    va_start(arguments, type);
    while ((input = va_arg(arguments, onnx_name)) && count < INPUTS_MAX)
        inputs[count++] = input;
    va_end(arguments);
    return onnx_append(writer, type, inputs, count, 1)->output[0];
}

Onnx__Node *onnx_latest(struct onnx_writer *writer)
{
    return writer->file.node[writer->file.n_node - 1];
}

/* The numbers are AttributeProto's types. */
enum attribute_type {
    ATTRIBUTE_FLOAT = 1,
    ATTRIBUTE_INT = 2,
    ATTRIBUTE_STRING = 3,
    ATTRIBUTE_INTS = 7
};

static Onnx__Attribute *append_attribute(struct onnx_writer *writer, Onnx__Node *node,
                                         const char *name, enum attribute_type type)
{
    Onnx__Attribute *attribute = onnx_writer_memory(writer, sizeof *attribute);
    size_t bytes = node->n_attribute * sizeof *node->attribute;
    Onnx__Attribute **all = onnx_writer_memory(writer, bytes + sizeof *all);

    onnx__attribute__init(attribute);
    attribute->name = (char *)name;
    attribute->has_type = true;
    attribute->type = (int32_t)type;
    if (bytes)
        memcpy((void *)all, (void *)node->attribute, bytes);
    node->attribute = all;
    node->attribute[node->n_attribute++] = attribute;
    return attribute;
}

void onnx_set_int(struct onnx_writer *writer, Onnx__Node *node, const char *name, int64_t value)
{
    Onnx__Attribute *attribute = append_attribute(writer, node, name, ATTRIBUTE_INT);

    attribute->has_i = true;
    attribute->i = value;
}

void onnx_set_ints(struct onnx_writer *writer, Onnx__Node *node, const char *name,
                   const int64_t *values, int count)
{
    Onnx__Attribute *attribute = append_attribute(writer, node, name, ATTRIBUTE_INTS);

    attribute->n_ints = (size_t)count;
    attribute->ints = onnx_writer_memory(writer, (size_t)count * sizeof *values);
    memcpy(attribute->ints, values, (size_t)count * sizeof *values);
}

void onnx_set_float(struct onnx_writer *writer, Onnx__Node *node, const char *name, float value)
{
    Onnx__Attribute *attribute = append_attribute(writer, node, name, ATTRIBUTE_FLOAT);

    attribute->has_f = true;
    attribute->f = value;
}

void onnx_set_text(struct onnx_writer *writer, Onnx__Node *node, const char *name, const char *text)
{
    Onnx__Attribute *attribute = append_attribute(writer, node, name, ATTRIBUTE_STRING);

    attribute->has_s = true;
    attribute->s = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

/* ---- shapes ---------------------------------------------------------------------------------- */

onnx_name onnx_reshape(struct onnx_writer *writer, onnx_name value, const int64_t *extents,
                       int count)
{
    int64_t shape[1 + ONNX_RANK_MAX] = {0}; /* 0: the extent stays */

    for (int i = 0; i < count; i++)
        shape[1 + i] = extents[i];
    return onnx_apply(writer, "Reshape", value, onnx_ints(writer, shape, 1 + count), NULL);
}

onnx_name onnx_reshape_as(struct onnx_writer *writer, onnx_name value,
                          const struct graph_shape *shape)
{
    return onnx_reshape(writer, value, shape->extent + 1, shape->rank - 1);
}

onnx_name onnx_transpose(struct onnx_writer *writer, onnx_name value, const int64_t *order,
                         int count)
{
    onnx_name result = onnx_apply(writer, "Transpose", value, NULL);

    onnx_set_ints(writer, onnx_latest(writer), "perm", order, count);
    return result;
}
