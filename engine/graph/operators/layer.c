/* layer.c: checks and appends the node of a layer, whatever its operator; see operators.h. */
#include "engine/graph/operators/operators.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int layer_fail(struct graph *graph, const char *name, enum graph_op op, const char *format, ...)
{
    char sentence[ERROR_TEXT_MAX - 128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return graph_fail(graph, -EINVAL, "layer %s (%s): %s", name,
                      op == OP_RESHAPE ? "flatten" : graph_op_to_string(op), sentence);
}

const struct graph_tensor *layer_input(struct graph *graph, int32_t input, const char *name,
                                       enum graph_op op, enum tensor_type type)
{
    char text[SHAPE_TEXT_MAX];
    const struct graph_tensor *x;

    if (graph->error.code)
        return NULL;
    if (input < 0 || input >= graph->tensor_count) {
        layer_fail(graph, name, op, "there is no input tensor %d", input);
        return NULL;
    }
    x = &graph->tensors[input];
    if (x->type != type) {
        layer_fail(graph, name, op, "expects %s, but the input %s holds %s",
                   type == TENSOR_INT32 ? "whole numbers (indices)" : "float32 values",
                   graph_shape_format(&x->shape, text, sizeof text),
                   x->type == TENSOR_INT32 ? "whole numbers (indices); put an embedding before it"
                   : x->type == TENSOR_FLOAT32 ? "float32 values"
                                               : "values of another type");
        return NULL;
    }
    return x;
}

const struct graph_tensor *layer_image(struct graph *graph, int32_t input, const char *name,
                                       enum graph_op op)
{
    const struct graph_tensor *x = layer_input(graph, input, name, op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (x && x->shape.rank != 4) {
        layer_fail(graph, name, op,
                   "expects images [batch, channels, height, width], but the input is %s",
                   graph_shape_format(&x->shape, text, sizeof text));
        return NULL;
    }
    return x;
}

const struct graph_tensor *layer_sequence(struct graph *graph, int32_t input, const char *name,
                                          enum graph_op op)
{
    const struct graph_tensor *x = layer_input(graph, input, name, op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (x && x->shape.rank != 3) {
        layer_fail(graph, name, op, "expects [batch, length, features], but the input is %s",
                   graph_shape_format(&x->shape, text, sizeof text));
        return NULL;
    }
    return x;
}

const struct graph_tensor *layer_rows(struct graph *graph, int32_t input, const char *name,
                                      enum graph_op op)
{
    const struct graph_tensor *x = layer_input(graph, input, name, op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (x && (!x->batched || (x->shape.rank != 2 && x->shape.rank != 3))) {
        layer_fail(graph, name, op,
                   "expects [batch, features] or [batch, length, features], but the input is %s",
                   graph_shape_format(&x->shape, text, sizeof text));
        return NULL;
    }
    return x;
}

int layer_prediction(struct graph *graph, int32_t input, enum graph_op op, const char *what)
{
    const struct graph_tensor *x = layer_input(graph, input, "loss", op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (!x)
        return graph->error.code;
    if (graph->target >= 0)
        return graph_fail(graph, -EINVAL, "the graph has a loss already");
    if (x->shape.rank != 2 && !(op == OP_CROSS_ENTROPY && x->shape.rank == 3))
        return graph_fail(graph, -EINVAL,
                          "the loss (%s) expects [batch, %s], but the last layer gives %s; put a "
                          "flatten layer before it",
                          graph_op_to_string(op), what,
                          graph_shape_format(&x->shape, text, sizeof text));
    return 0;
}

/* The tensor that graph_bind_parameter() has named for this parameter; -1: none. */
static int32_t take_bound(struct graph *graph, const char *layer, const char *suffix,
                          const struct graph_shape *shape, struct initializer initializer)
{
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];

    for (int i = 0; i < graph->bound_count; i++) {
        int32_t id = graph->bound[i].tensor;
        struct graph_tensor *tensor = &graph->tensors[id];

        if (strcmp(graph->bound[i].suffix, suffix) != 0)
            continue;
        if (!graph_shape_equal(&tensor->shape, shape)) {
            graph_fail(graph, -EINVAL, "layer %s: its %s %s is %s, but %s is needed", layer, suffix,
                       tensor->name, graph_shape_format(&tensor->shape, first, sizeof first),
                       graph_shape_format(shape, second, sizeof second));
            return -1;
        }
        if (tensor->initializer.kind == INITIALIZER_BY_LAYER) {
            const struct initial_values *values = tensor->initializer.values;

            tensor->initializer = initializer;
            tensor->initializer.values = values; /* which say where exports have it */
        }
        graph->bound[i] = graph->bound[--graph->bound_count];
        return id;
    }
    return -1;
}

int32_t layer_append_parameter(struct graph *graph, const char *layer, const char *suffix,
                               enum tensor_role role, const struct graph_shape *shape,
                               struct initializer initializer)
{
    int32_t id = take_bound(graph, layer, suffix, shape, initializer);

    if (id >= 0)
        return id;
    id = graph_append_tensor(graph, role, TENSOR_FLOAT32, shape, false, "%s.%s", layer, suffix);
    if (id >= 0)
        graph->tensors[id].initializer = initializer;
    return id;
}

int32_t layer_append_result(struct graph *graph, const char *layer, const struct graph_shape *shape)
{
    return graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, shape, true, "%s.output",
                               layer);
}

struct graph_node *layer_append_node(struct graph *graph, enum graph_op op, const char *name,
                                     const int32_t *inputs, int count, int32_t result)
{
    struct graph_node *node = graph_append_node(graph, op, GRAPH_FORWARD, name);

    if (!node)
        return NULL;
    for (int i = 0; i < count; i++)
        graph_node_input(node, inputs[i]);
    if (result >= 0) {
        graph_node_output(graph, node, result);
        graph->output = result;
    }
    return node;
}

struct layer_part_name layer_part_name(const char *layer, const char *part)
{
    struct layer_part_name name;

    snprintf(name.text, sizeof name.text, "%.80s.%s", layer, part);
    return name;
}

int64_t layer_window_extent(struct graph *graph, const struct graph_tensor *x, const char *name,
                            enum graph_op op, const struct conv_attributes *a, int axis)
{
    int64_t window = (int64_t)a->dilation[axis] * (a->kernel[axis] - 1) + 1;
    int64_t room = x->shape.extent[2 + axis] + 2 * (int64_t)a->padding[axis];
    char text[SHAPE_TEXT_MAX];

    if (a->kernel[axis] < 1 || a->stride[axis] < 1 || a->dilation[axis] < 1 ||
        a->padding[axis] < 0) {
        layer_fail(graph, name, op,
                   "kernel %d, stride %d, dilation %d must be at least 1, padding %d at least 0",
                   a->kernel[axis], a->stride[axis], a->dilation[axis], a->padding[axis]);
        return 0;
    }
    if (window > room) {
        layer_fail(graph, name, op,
                   "a window of %lldx%lld does not fit into the input %s with padding %dx%d",
                   (long long)a->dilation[0] * (a->kernel[0] - 1) + 1,
                   (long long)a->dilation[1] * (a->kernel[1] - 1) + 1,
                   graph_shape_format(&x->shape, text, sizeof text), a->padding[0], a->padding[1]);
        return 0;
    }
    return (room - window) / a->stride[axis] + 1;
}

int32_t layer_append_pool(struct graph *graph, int32_t input, const char *name, enum graph_op op,
                          const struct conv_attributes *a, bool keeps_position)
{
    const struct graph_tensor *x = layer_image(graph, input, name, op);
    struct graph_shape result;
    struct graph_node *node;
    int32_t position = -1;

    if (!x)
        return graph->error.code;
    if (a->dilation[0] != 1 || a->dilation[1] != 1 || a->groups != 1)
        return layer_fail(graph, name, op, "a pool has neither dilation nor groups");
    result = (struct graph_shape){.rank = 4,
                                  .extent = {graph->batch, x->shape.extent[1],
                                             layer_window_extent(graph, x, name, op, a, 0),
                                             layer_window_extent(graph, x, name, op, a, 1)}};
    if (graph->error.code)
        return graph->error.code;
    if (a->padding[0] > a->kernel[0] / 2 || a->padding[1] > a->kernel[1] / 2)
        return layer_fail(graph, name, op, "padding %dx%d exceeds half of the kernel %dx%d",
                          a->padding[0], a->padding[1], a->kernel[0], a->kernel[1]);
    if (keeps_position && (int64_t)a->kernel[0] * a->kernel[1] > POOL_POSITIONS)
        return large_pool_append(graph, input, name, a);
    if (keeps_position && graph->training)
        position = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_UINT8, &result, true,
                                       "%s.position", name);
    node = layer_append_node(graph, op, name, &input, 1, layer_append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.conv = *a;
    if (position >= 0)
        graph_node_output(graph, node, position);
    return graph->output;
}
