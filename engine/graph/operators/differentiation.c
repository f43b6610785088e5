/* differentiation.c: helpers with which an operator's rule extends the backward part; see
 * operators.h. */
#include "engine/graph/operators/operators.h"

/* Makes the gradient tensor of `tensor`: that of a parameter, of the samples, or of an activation.
 * That of a frozen parameter is a tensor that nobody reads, where an operator computes it along
 * with others. */
static int32_t gradient_append(struct differentiation *d, int32_t tensor)
{
    struct graph *graph = d->graph;
    struct graph_tensor of = graph->tensors[tensor];
    bool own = of.role == TENSOR_PARAMETER && !of.frozen;
    int32_t id = graph_append_tensor(graph, own ? TENSOR_GRADIENT : TENSOR_ACTIVATION,
                                     TENSOR_FLOAT32, &of.shape, of.batched, "%s.gradient", of.name);

    if (id >= 0 && of.role == TENSOR_PARAMETER)
        graph->tensors[id].parameter = tensor;
    return id;
}

bool differentiation_needs(const struct differentiation *d, int32_t tensor)
{
    return d->needed[tensor];
}

void differentiation_give(struct differentiation *d, int32_t tensor, int32_t gradient)
{
    struct graph *graph = d->graph;
    struct graph_node *node;
    int32_t sum;

    if (gradient < 0)
        return;
    if (d->gradient[tensor] < 0) {
        d->gradient[tensor] = gradient;
        return;
    }
    sum = gradient_append(d, tensor);
    node = graph_append_node(graph, OP_ADD, GRAPH_BACKWARD, graph->tensors[tensor].name);
    if (!node)
        return;
    graph_node_input(node, d->gradient[tensor]);
    graph_node_input(node, gradient);
    graph_node_output(graph, node, sum);
    d->gradient[tensor] = sum;
}

static bool is_frozen(const struct differentiation *d, int32_t tensor)
{
    return tensor >= 0 && d->graph->tensors[tensor].frozen;
}

/* Whether the node would compute gradients of frozen parameters alone. */
static bool is_useless(const struct differentiation *d, const int32_t *targets, int count)
{
    bool frozen = false;

    for (int i = 0; i < count; i++) {
        if (targets[i] >= 0 && !is_frozen(d, targets[i]))
            return false;
        frozen |= is_frozen(d, targets[i]);
    }
    return frozen;
}

void differentiation_append(struct differentiation *d, const struct graph_node *forward,
                            enum graph_op op, const int32_t *inputs, int input_count,
                            const int32_t *targets, int target_count)
{
    struct graph *graph = d->graph;
    int32_t gradients[GRAPH_OUTPUTS_MAX];
    bool shared[GRAPH_OUTPUTS_MAX];
    struct graph_node *node;

    if (is_useless(d, targets, target_count))
        return;
    for (int i = 0; i < target_count; i++) {
        shared[i] = targets[i] >= 0 && d->gradient[targets[i]] >= 0 &&
                    graph->tensors[targets[i]].role == TENSOR_PARAMETER;
        gradients[i] = shared[i]         ? d->gradient[targets[i]]
                       : targets[i] >= 0 ? gradient_append(d, targets[i])
                                         : -1;
    }
    node = graph_append_node(graph, op, GRAPH_BACKWARD, forward->name);
    if (!node)
        return;
    node->attributes = forward->attributes;
    for (int i = 0; i < input_count; i++)
        graph_node_input(node, inputs[i]);
    for (int i = 0; i < target_count; i++)
        if (gradients[i] >= 0) {
            node->adds |= shared[i] ? 1u << node->output_count : 0;
            graph_node_output(graph, node, gradients[i]);
        }
    for (int i = 0; i < target_count; i++)
        if (gradients[i] >= 0 && !shared[i] && !is_frozen(d, targets[i]))
            differentiation_give(d, targets[i], gradients[i]);
}
