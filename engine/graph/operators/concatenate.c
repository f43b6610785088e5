/* concatenate.c: tensors side by side along their last axis, as torch.cat(…, dim=-1), and the
 * reverse, as torch.split(…, dim=-1). Each is the gradient of the other. Images lie side by side
 * along their channels. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <errno.h>

static const struct graph_tensor *input_of(struct graph *graph, int32_t input, const char *name,
                                           enum graph_op op)
{
    const struct graph_tensor *x = layer_input(graph, input, name, op, TENSOR_FLOAT32);
    char text[SHAPE_TEXT_MAX];

    if (x && (x->shape.rank < 2 || x->shape.rank > 4)) {
        layer_fail(graph, name, op, "expects rows, sequences or images, but the input is %s",
                   graph_shape_format(&x->shape, text, sizeof text));
        return NULL;
    }
    return x;
}

/* The axis along which they lie side by side. */
static int axis_of(const struct graph_shape *shape)
{
    return shape->rank == 4 ? 1 : shape->rank - 1;
}

int32_t graph_concatenate(struct graph *graph, const int32_t *inputs, int count, const char *name)
{
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    struct graph_shape shape = {0};
    int axis;

    if (graph->error.code)
        return graph->error.code;
    if (count < 1 || count > GRAPH_OUTPUTS_MAX)
        return layer_fail(graph, name, OP_CONCATENATE, "%d inputs; it takes 1 to %d", count,
                          GRAPH_OUTPUTS_MAX);
    for (int i = 0; i < count; i++) {
        const struct graph_tensor *x = input_of(graph, inputs[i], name, OP_CONCATENATE);
        struct graph_shape alike;

        if (!x)
            return graph->error.code;
        alike = i ? shape : x->shape;
        axis = axis_of(&alike);
        if (alike.rank == x->shape.rank)
            alike.extent[axis] = x->shape.extent[axis];
        if (!graph_shape_equal(&alike, &x->shape))
            return layer_fail(graph, name, OP_CONCATENATE,
                              "the shapes %s and %s differ in other axes than that which is joined",
                              graph_shape_format(&shape, first, sizeof first),
                              graph_shape_format(&x->shape, second, sizeof second));
        alike.extent[axis] += i ? shape.extent[axis] : 0;
        shape = alike;
    }
    layer_append_node(graph, OP_CONCATENATE, name, inputs, count,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

int graph_split(struct graph *graph, int32_t input, const int64_t *widths, int count,
                int32_t *outputs, const char *name)
{
    const struct graph_tensor *x = input_of(graph, input, name, OP_SPLIT);
    char text[SHAPE_TEXT_MAX];
    struct graph_shape shape;
    struct graph_node *node;
    int64_t sum = 0;

    for (int i = 0; i < count; i++) {
        outputs[i] = -EINVAL;
        sum += widths[i];
    }
    if (!x)
        return graph->error.code;
    shape = x->shape;
    if (count < 1 || count > GRAPH_OUTPUTS_MAX || sum != shape.extent[axis_of(&shape)])
        return layer_fail(graph, name, OP_SPLIT, "%d parts of %lld together do not make %s", count,
                          (long long)sum, graph_shape_format(&shape, text, sizeof text));
    for (int i = 0; i < count; i++) {
        shape.extent[axis_of(&shape)] = widths[i];
        outputs[i] = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &shape, true,
                                         "%s.output%d", name, i);
    }
    node = layer_append_node(graph, OP_SPLIT, name, &input, 1, outputs[0]);
    for (int i = 1; node && i < count; i++)
        graph_node_output(graph, node, outputs[i]);
    return graph->error.code;
}

static void differentiate_concatenate(struct differentiation *differentiation,
                                      const struct graph_node *node, int32_t dy)
{
    differentiation_append(differentiation, node, OP_SPLIT, &dy, 1, node->input, node->input_count);
}

/* All parts must lead to the loss. */
static void differentiate_split(struct differentiation *differentiation,
                                const struct graph_node *node, int32_t dy)
{
    int32_t inputs[GRAPH_OUTPUTS_MAX];

    (void)dy;
    for (int i = 0; i < node->output_count; i++) {
        inputs[i] = differentiation->gradient[node->output[i]];
        if (inputs[i] < 0) {
            graph_fail(differentiation->graph, -EINVAL,
                       "layer %s: part %d of what is split has no gradient", node->name, i);
            return;
        }
    }
    differentiation_append(differentiation, node, OP_CONCATENATE, inputs, node->output_count,
                           node->input, 1);
}

const struct graph_operator operator_concatenate = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .differentiate = differentiate_concatenate,
};

const struct graph_operator operator_split = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .differentiate = differentiate_split,
};
