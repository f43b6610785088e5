/* autodiff.c: appends the backward part of a graph by reverse-mode differentiation (Griewank and
 * Walther, "Evaluating Derivatives", 2nd ed. 2008, chapter 3). Each operator's descriptor has its
 * rule. */
#include "engine/graph/operator.h"
#include "engine/graph/operators/operators.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void mark_needed(struct differentiation *d)
{
    struct graph *graph = d->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        d->needed[i] = graph->tensors[i].role == TENSOR_PARAMETER && !graph->tensors[i].frozen;
        d->gradient[i] = -1;
    }
    if (graph->wants_input_gradient)
        d->needed[graph->input] = true;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        bool any = false;

        for (int k = 0; k < node->input_count; k++)
            any |= node->input[k] >= 0 && d->needed[node->input[k]];
        for (int k = 0; k < node->output_count; k++)
            d->needed[node->output[k]] |= any;
    }
}

static int check_differentiable(struct graph *graph)
{
    if (graph->error.code)
        return graph->error.code;
    if (!graph->training)
        return graph_fail(graph, -EINVAL, "a graph for evaluation has no backward part");
    if (graph->target < 0)
        return graph_fail(graph, -EINVAL, "the graph has no loss to differentiate");
    if (graph->nodes[graph->node_count - 1].phase != GRAPH_FORWARD)
        return graph_fail(graph, -EINVAL, "the graph is differentiated already");
    if (graph->wants_input_gradient && graph->tensors[graph->input].type != TENSOR_FLOAT32)
        return graph_fail(graph, -EINVAL, "there is no gradient by whole numbers (the samples)");
    return 0;
}

/* Appends the gradient of a node between something that needs one and the loss. */
static void differentiate_node(struct differentiation *d, int32_t index)
{
    struct graph_node node = d->graph->nodes[index]; /* a copy: the array moves as it grows */
    const struct graph_operator *descriptor = graph_node_operator(&node);
    int32_t dy = descriptor->is_loss || !node.output_count ? -1 : d->gradient[node.output[0]];
    bool needed = false;

    for (int k = 0; k < node.input_count; k++)
        needed |= node.input[k] >= 0 && d->needed[node.input[k]];
    if (!needed || (dy < 0 && !descriptor->is_loss))
        return;
    if (descriptor->differentiate)
        descriptor->differentiate(d, &node, dy);
    else
        graph_fail(d->graph, -EINVAL, "layer %s: there is no gradient through %s", node.name,
                   graph_op_to_string(node.op));
}

int graph_differentiate(struct graph *graph, struct error *error)
{
    struct differentiation d = {.graph = graph};
    int32_t forward_count = graph->node_count;

    if (check_differentiable(graph))
        return error_set(error, graph->error.code, "%s", graph->error.text);
    d.needed = calloc((size_t)graph->tensor_count, sizeof *d.needed);
    d.gradient = calloc((size_t)graph->tensor_count, sizeof *d.gradient);
    if (d.needed && d.gradient) {
        mark_needed(&d);
        for (int32_t i = forward_count; i-- > 0;)
            differentiate_node(&d, i);
        if (graph->wants_input_gradient)
            graph->input_gradient = d.gradient[graph->input];
    } else {
        graph_fail(graph, -ENOMEM, "no memory to differentiate the graph");
    }
    free(d.needed);
    free(d.gradient);
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}
