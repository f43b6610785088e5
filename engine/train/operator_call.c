/* operator_call.c: see operator_call.h. */
#include "engine/train/operator_call.h"

#include "engine/graph/cost.h"

#include <stdio.h>
#include <string.h>

static void append(char kind[OPERATOR_KIND_MAX], const char *word)
{
    size_t length = strlen(kind);

    if (word[0])
        snprintf(kind + length, OPERATOR_KIND_MAX - length, " %s", word);
}

static bool is_product(const struct graph_node *node)
{
    return graph_node_operator(node)->product != PRODUCT_NONE;
}

static bool has_window(const struct graph_node *node)
{
    enum cost_class class = graph_node_operator(node)->cost_class;

    return class == COST_CONVOLUTION || class == COST_POOLING;
}

/* ---- kinds ---- */

static void append_window(const struct graph *graph, const struct graph_node *node,
                          char kind[OPERATOR_KIND_MAX])
{
    const struct conv_attributes *a = &node->attributes.conv;
    bool forward = graph_node_operator(node)->product == PRODUCT_FORWARD;
    int32_t image = forward ? node->output[0] : node->input[0];
    const struct graph_shape *shape = &graph->tensors[image].shape;
    char text[32];

    if (a->groups > 1)
        append(kind, "groups");
    else if (shape->extent[2] * shape->extent[3] == 1)
        append(kind, "pixel");
    snprintf(text, sizeof text, "%dx%d/%d", a->kernel[0], a->kernel[1], a->stride[0]);
    append(kind, text);
}

static void describe_kind(const struct graph *graph, const struct graph_node *node,
                          const char *method, char kind[OPERATOR_KIND_MAX])
{
    const struct graph_operator *descriptor = graph_node_operator(node);

    snprintf(kind, OPERATOR_KIND_MAX, "%s", graph_op_to_string(node->op));
    if (descriptor->variant)
        append(kind, descriptor->variant(graph, node));
    append(kind, method);
    if (has_window(node))
        append_window(graph, node, kind);
}

/* ---- figures ---- */

static int32_t first_tensor(const struct graph_node *node)
{
    return node->output_count > 0 && node->output[0] >= 0 ? node->output[0] : node->input[0];
}

/* Finds the product's result, or the gradient with respect to it, and the weights. */
static void find_operands(const struct graph_node *node, int32_t *y, int32_t *weights)
{
    enum product_pass pass = graph_node_operator(node)->product;

    *y = pass == PRODUCT_FORWARD         ? node->output[0]
         : pass == PRODUCT_BACKWARD_DATA ? node->input[0]
                                         : node->input[1];
    *weights = pass == PRODUCT_BACKWARD_WEIGHTS ? node->output[0] : node->input[1];
}

static double at_least_one(double number)
{
    return number > 1 ? number : 1;
}

static void describe_extents(const struct graph *graph, const struct graph_node *node, int tasks,
                             double extents[OPERATOR_EXTENTS])
{
    int32_t tensor = first_tensor(node), weights = -1;
    double depth = 1, columns, batch = (double)graph->batch;
    const struct graph_shape *shape;

    if (is_product(node))
        find_operands(node, &tensor, &weights);
    shape = &graph->tensors[tensor].shape;
    if (!graph->tensors[tensor].batched) {
        extents[0] = extents[1] = extents[2] = 1;
        extents[3] = at_least_one((double)graph_shape_elements(shape) / tasks);
        return;
    }
    columns = shape->rank > 1 ? (double)shape->extent[1] : 1;
    if (is_product(node)) {
        columns = (double)graph->tensors[weights].shape.extent[0];
        depth = (double)graph_shape_elements(&graph->tensors[weights].shape) / columns;
    } else if (has_window(node)) {
        depth = node->attributes.conv.kernel[0] * node->attributes.conv.kernel[1];
    }
    extents[0] = at_least_one(batch / tasks);
    extents[1] = at_least_one((double)graph_shape_elements(shape) / batch / columns);
    extents[2] = at_least_one(depth);
    extents[3] = columns;
}

static double work_of(const struct graph *graph, const struct graph_node *node)
{
    struct cost cost = graph_node_cost(graph, node);

    if (graph_node_operator(node)->is_free) /* free elsewhere, but on this device it copies */
        return 2.0 * sizeof(float) *
               (double)graph_shape_elements(&graph->tensors[node->input[0]].shape);
    return is_product(node) ? cost.flops : cost.bytes;
}

void operator_call_describe(const struct graph *graph, int32_t node,
                            const struct node_description *description, struct operator_call *call,
                            double *repetitions)
{
    const struct graph_node *own = &graph->nodes[node];

    *repetitions = description->absorbed ? 0 : (double)description->tasks / description->lanes;
    *call = (struct operator_call){.work = work_of(graph, own) / description->tasks};
    describe_kind(graph, own, description->method, call->kind);
    describe_extents(graph, own, description->tasks, call->extents);
}
