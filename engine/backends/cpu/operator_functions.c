/* operator_functions.c: finds the row of the table of operators.c that computes a node. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/operator.h"
#include "engine/graph/optimizer.h"

static bool is_pixel(const struct graph *graph, int32_t tensor)
{
    const int64_t *extent = graph->tensors[tensor].shape.extent;

    return extent[2] == 1 && extent[3] == 1;
}

/* Whether a convolution, or its gradient, has a 1x1 kernel and 1x1 images. */
static bool is_convolution_of_pixels(const struct graph *graph, const struct graph_node *node)
{
    const struct conv_attributes *a = &node->attributes.conv;
    bool weights = graph_node_operator(node)->product == PRODUCT_BACKWARD_WEIGHTS;

    return a->groups == 1 && a->kernel[0] == 1 && a->kernel[1] == 1 && a->padding[0] == 0 &&
           a->padding[1] == 0 && is_pixel(graph, node->input[0]) &&
           is_pixel(graph, weights ? node->input[1] : node->output[0]);
}

const struct operator_functions *operator_functions_of(const struct operator_table *table,
                                                       const struct graph *graph,
                                                       const struct graph_node *node)
{
    static const enum graph_op linear[] = {
        [PRODUCT_FORWARD] = OP_LINEAR,
        [PRODUCT_BACKWARD_DATA] = OP_LINEAR_BACKWARD_DATA,
        [PRODUCT_BACKWARD_WEIGHTS] = OP_LINEAR_BACKWARD_WEIGHTS,
    };
    const struct graph_operator *descriptor = graph_node_operator(node);

    if (descriptor->cost_class == COST_CONVOLUTION && node->op != OP_CONV2D_INT8 &&
        is_convolution_of_pixels(graph, node))
        return &table->by_operator[linear[descriptor->product]];
    if (graph_node_updates_matrix(graph, node))
        return &table->muon;
    if (graph_node_scales_by_norms(graph, node))
        return &table->lamb;
    return &table->by_operator[node->op];
}
