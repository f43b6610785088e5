/* autodiff.c: the backward part of a graph: reverse-mode differentiation, one rule per operator
 * (Griewank and Walther, "Evaluating Derivatives", 2nd ed. 2008, chapter 3). Within a layer the
 * gradient of the weights comes before that of the data, so that the layer's input dies before the
 * gradient by it is made. */
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What is known while the nodes are walked backwards, per tensor of the forward part. */
struct differentiation {
    struct graph *graph;
    bool *needed;      /* a gradient by it reaches a parameter (or the samples, when wanted) */
    int32_t *gradient; /* so far, -1 */
};

/* The new gradient tensor of `tensor`: that of a parameter, of the samples, or of an activation. */
static int32_t gradient_append(struct differentiation *d, int32_t tensor)
{
    struct graph *graph = d->graph;
    struct graph_tensor of = graph->tensors[tensor];
    bool own = of.role == TENSOR_PARAMETER;
    int32_t id = graph_append_tensor(graph, own ? TENSOR_GRADIENT : TENSOR_ACTIVATION,
                                     TENSOR_FLOAT32, &of.shape, of.batched, "%s.gradient", of.name);

    if (id >= 0 && own)
        graph->tensors[id].parameter = tensor;
    return id;
}

/* Hands `gradient` to `tensor`; one that has a gradient already gets the sum. */
static void gradient_give(struct differentiation *d, int32_t tensor, int32_t gradient)
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

/* Appends the backward node of `forward` (a copy: the array may move) with `inputs`; its outputs
 * are new gradients of `targets`, where absent ones (-1) are left out. */
static void backward_append(struct differentiation *d, const struct graph_node *forward,
                            enum graph_op op, const int32_t *inputs, int input_count,
                            const int32_t *targets, int target_count)
{
    struct graph *graph = d->graph;
    int32_t gradients[GRAPH_OUTPUTS_MAX];
    struct graph_node *node;

    for (int i = 0; i < target_count; i++)
        gradients[i] = targets[i] >= 0 ? gradient_append(d, targets[i]) : -1;
    node = graph_append_node(graph, op, GRAPH_BACKWARD, forward->name);
    if (!node)
        return;
    node->attributes = forward->attributes;
    for (int i = 0; i < input_count; i++)
        graph_node_input(node, inputs[i]);
    for (int i = 0; i < target_count; i++)
        if (gradients[i] >= 0)
            graph_node_output(graph, node, gradients[i]);
    for (int i = 0; i < target_count; i++)
        if (gradients[i] >= 0)
            gradient_give(d, targets[i], gradients[i]);
}

/* Linear and convolution: x weight bias? -> y. */
static void differentiate_weighted(struct differentiation *d, const struct graph_node *node,
                                   int32_t dy, enum graph_op weights, enum graph_op data)
{
    const int32_t x = node->input[0], weight = node->input[1];

    backward_append(d, node, weights, (int32_t[]){x, dy}, 2, &node->input[1], 2);
    if (d->needed[x])
        backward_append(d, node, data, (int32_t[]){dy, weight}, 2, &x, 1);
}

static void differentiate_batch_norm(struct differentiation *d, const struct graph_node *node,
                                     int32_t dy)
{
    const int32_t x = node->input[0], weight = node->input[1], bias = node->input[2];
    const int32_t inputs[] = {x, dy, weight, node->output[1], node->output[2]};

    /* dx is always an output: it falls out of the same pass, and the order stays fixed */
    backward_append(d, node, OP_BATCH_NORM_BACKWARD, inputs, 5, (int32_t[]){x, weight, bias}, 3);
}

static void differentiate_activation(struct differentiation *d, const struct graph_node *node,
                                     int32_t dy)
{
    enum activation_kind kind = node->attributes.activation;
    bool saves_input =
        kind == ACTIVATION_SILU || kind == ACTIVATION_GELU || kind == ACTIVATION_HARDSWISH;
    const int32_t inputs[] = {dy, saves_input ? node->input[0] : node->output[0]};

    backward_append(d, node, OP_ACTIVATION_BACKWARD, inputs, 2, node->input, 1);
}

static void differentiate_node(struct differentiation *d, const struct graph_node *node, int32_t dy)
{
    const int32_t *x = &node->input[0];

    switch (node->op) {
    case OP_LINEAR:
        differentiate_weighted(d, node, dy, OP_LINEAR_BACKWARD_WEIGHTS, OP_LINEAR_BACKWARD_DATA);
        break;
    case OP_CONV2D:
        differentiate_weighted(d, node, dy, OP_CONV2D_BACKWARD_WEIGHTS, OP_CONV2D_BACKWARD_DATA);
        break;
    case OP_MAX_POOL2D:
        backward_append(d, node, OP_MAX_POOL2D_BACKWARD, (int32_t[]){dy, node->output[1]}, 2, x, 1);
        break;
    case OP_AVERAGE_POOL2D:
        backward_append(d, node, OP_AVERAGE_POOL2D_BACKWARD, &dy, 1, x, 1);
        break;
    case OP_BATCH_NORM:
        differentiate_batch_norm(d, node, dy);
        break;
    case OP_ACTIVATION:
        differentiate_activation(d, node, dy);
        break;
    case OP_EMBEDDING:
        backward_append(d, node, OP_EMBEDDING_BACKWARD, (int32_t[]){*x, dy}, 2, &node->input[1], 1);
        break;
    case OP_DROPOUT:
        backward_append(d, node, OP_DROPOUT_BACKWARD, &dy, 1, x, 1);
        break;
    case OP_ADD: /* both summands get dy itself */
        for (int i = 0; i < 2; i++)
            if (d->needed[node->input[i]])
                gradient_give(d, node->input[i], dy);
        break;
    case OP_CHANNEL_SCALE:
        backward_append(d, node, OP_CHANNEL_SCALE_BACKWARD,
                        (int32_t[]){dy, node->input[0], node->input[1]}, 3, node->input, 2);
        break;
    case OP_RESHAPE:
        backward_append(d, node, OP_RESHAPE, &dy, 1, x, 1);
        break;
    case OP_CROSS_ENTROPY:
        backward_append(d, node, OP_CROSS_ENTROPY_BACKWARD,
                        (int32_t[]){*x, node->input[1], node->output[0]}, 3, x, 1);
        break;
    case OP_MSE:
        backward_append(d, node, OP_MSE_BACKWARD, node->input, 2, x, 1);
        break;
    case OP_LINEAR_BACKWARD_DATA:
    case OP_LINEAR_BACKWARD_WEIGHTS:
    case OP_CONV2D_BACKWARD_DATA:
    case OP_CONV2D_BACKWARD_WEIGHTS:
    case OP_MAX_POOL2D_BACKWARD:
    case OP_AVERAGE_POOL2D_BACKWARD:
    case OP_BATCH_NORM_APPLY: /* none before graph_recompute() */
    case OP_BATCH_NORM_BACKWARD:
    case OP_ACTIVATION_BACKWARD:
    case OP_EMBEDDING_BACKWARD:
    case OP_DROPOUT_BACKWARD:
    case OP_CHANNEL_SCALE_BACKWARD:
    case OP_CROSS_ENTROPY_BACKWARD:
    case OP_MSE_BACKWARD:
    case OP_OPTIMIZER:
    case OP_MOVING_AVERAGE:
    case OP_CAST: /* none before graph_lower_precision() */
    case OP_COUNT:
        break;
    }
}

static void mark_needed(struct differentiation *d)
{
    struct graph *graph = d->graph;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        d->needed[i] = graph->tensors[i].role == TENSOR_PARAMETER;
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
        for (int32_t i = forward_count; i-- > 0;) {
            struct graph_node node = graph->nodes[i]; /* the array moves as it grows */
            bool is_loss = node.op == OP_CROSS_ENTROPY || node.op == OP_MSE;
            int32_t dy = is_loss || !node.output_count ? -1 : d.gradient[node.output[0]];

            if (d.needed[node.input[0]] ||
                (node.input_count > 1 && node.input[1] >= 0 && d.needed[node.input[1]]))
                if (is_loss || dy >= 0)
                    differentiate_node(&d, &node, dy);
        }
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
