/* fusion.c: nodes that a neighbour's kernel does along with its own, so that what passes between
 * them is neither written nor read:
 *
 *   linear -> activation, convolution -> ReLU                   the layer applies the activation
 *   batch norm [-> add] [-> ReLU, SiLU, hardswish]              one pass forward
 *   activation backward -> batch norm backward                  the gradient by the activation's
 *       input is made from x within both passes; nothing is stored, nor is batch norm's result
 * where only the activation reads it [add ->] ReLU backward -> batch norm backward where others
 * read the gradient, too (residual blocks), or the sum behind batch norm is not kept: batch norm's
 * first pass makes and stores it
 *
 * An absorbed node adds no steps; its results take the place of the absorbing node's, and what an
 * absorbed backward node reads lives until then (node_step). */
#include "engine/backends/cpu/program.h"

#include <stdlib.h>

/* The kinds that batch norm's kernels apply. */
static bool batch_norm_applies(enum activation_kind kind)
{
    return kind == ACTIVATION_RELU || kind == ACTIVATION_SILU || kind == ACTIVATION_HARDSWISH;
}

static void place_with(struct backend_program *program, int32_t tensor, int32_t other)
{
    program->root[tensor] = program->root[other];
    program->alias[tensor] = program->root[other];
}

/* The node's result is that of `index`. */
static void absorb_forward(struct backend_program *program, int32_t index, int32_t node)
{
    program->nodes[node].absorbed = true;
    place_with(program, program->graph->nodes[node].output[0],
               program->graph->nodes[index].output[0]);
}

/* The node is done when `index` is. */
static void absorb_backward(struct backend_program *program, int32_t index, int32_t node)
{
    program->nodes[node].absorbed = true;
    program->node_step[node] = index;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The sum behind batch norm, where the other summand is there already. Returns the last result. */
static int32_t absorb_sum(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    int32_t y = graph->nodes[index].output[0], reader = graph_single_reader(graph, y), other;
    const struct graph_node *sum;

    if (reader < 0 || graph->nodes[reader].op != OP_ADD)
        return y;
    sum = &graph->nodes[reader];
    other = sum->input[sum->input[0] == y];
    if (other == y || graph->tensors[other].producer > index ||
        !program->graph->tensors[other].batched)
        return y;
    program->nodes[index].addend = other;
    absorb_forward(program, index, reader);
    return sum->output[0];
}

static void absorb_activation(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    int32_t y = graph->nodes[index].output[0], reader;
    enum graph_op op = graph->nodes[index].op;
    bool linear =
        operator_functions_of(program->device->operators, graph, &graph->nodes[index])->bind ==
        linear_bind;
    bool norm = graph_node_is_batch_norm(&graph->nodes[index]);
    enum activation_kind kind;

    if (!linear && op != OP_CONV2D && !norm)
        return;
    if (norm)
        y = absorb_sum(program, index);
    reader = graph_single_reader(graph, y);
    if (reader < 0 || graph->nodes[reader].op != OP_ACTIVATION)
        return;
    kind = graph->nodes[reader].attributes.activation;
    if (!linear && kind != ACTIVATION_RELU && !(norm && batch_norm_applies(kind)))
        return;
    program->nodes[index].fused = (int)kind;
    absorb_forward(program, index, reader);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* SiLU's and hardswish's gradients are made from batch norm's result. Where batch norm backward
 * makes that again, the activation alone reads it, and is absorbed, too. */
static void drop_result(struct backend_program *program, int32_t norm, int32_t activation_backward)
{
    const struct graph *graph = program->graph;
    int32_t y = graph->nodes[norm].output[0], first = graph_next_reader(graph, y, 0);

    if (y == graph->output || first < 0 || graph->nodes[first].op != OP_ACTIVATION ||
        graph_next_reader(graph, y, first + 1) != activation_backward ||
        graph_next_reader(graph, y, activation_backward + 1) >= 0)
        return;
    program->nodes[norm].fused = (int)graph->nodes[first].attributes.activation;
    absorb_forward(program, norm, first);
}

/* activation backward -> batch norm backward, from x. */
static bool absorb_slope(struct backend_program *program, int32_t index, int32_t activation)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index], *behind = &graph->nodes[activation];
    enum activation_kind kind = behind->attributes.activation;
    int32_t dy = behind->input[0], norm;

    if (!batch_norm_applies(kind) || graph_single_reader(graph, node->input[1]) != index ||
        !graph_gradient_can_be_overwritten(graph, dy))
        return false;
    norm = graph_batch_norm_behind(graph, node, kind, behind->input[1]);
    if (norm < 0)
        return false;
    program->nodes[index].fused = (int)kind;
    program->nodes[index].incoming[0] = dy;
    program->nodes[index].bias = graph->nodes[norm].input[2];
    absorb_backward(program, index, activation);
    place_with(program, node->input[1], dy);
    if (kind != ACTIVATION_RELU)
        drop_result(program, norm, activation);
    return true;
}

/* [add ->] ReLU backward -> batch norm backward, which is the first to read the gradient. */
static void absorb_mask(struct backend_program *program, int32_t index, int32_t activation)
{
    const struct graph *graph = program->graph;
    const struct graph_node *behind = &graph->nodes[activation];
    struct node_plan *plan = &program->nodes[index];
    int32_t dy = behind->input[0], masked = behind->output[0], sum = graph->tensors[dy].producer;

    if (behind->attributes.activation != ACTIVATION_RELU ||
        graph_next_reader(graph, masked, 0) != index || masked == graph->input_gradient)
        return;
    plan->fused = ACTIVATION_RELU;
    plan->saved = behind->input[1];
    plan->incoming[0] = dy;
    absorb_backward(program, index, activation);
    if (sum >= 0 && graph->nodes[sum].op == OP_ADD && graph->nodes[sum].phase == GRAPH_BACKWARD &&
        graph_single_reader(graph, dy) == activation) {
        for (int i = 0; i < 2; i++)
            plan->incoming[i] = graph->nodes[sum].input[i];
        absorb_backward(program, index, sum);
    }
    for (int i = 0; i < 2; i++)
        if (plan->incoming[i] >= 0 && program->alias[masked] < 0 &&
            graph_gradient_can_be_overwritten(graph, plan->incoming[i]))
            place_with(program, masked, plan->incoming[i]);
    if (plan->incoming[1] >= 0) /* never stored */
        place_with(program, dy, masked);
}

static void fuse_backward(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index];
    int32_t dy = node->input[1], behind = graph->tensors[dy].producer;

    if (behind >= 0 && graph->nodes[behind].op == OP_ACTIVATION_BACKWARD &&
        !absorb_slope(program, index, behind))
        absorb_mask(program, index, behind);
    if (graph_gradient_can_be_overwritten(graph, dy))
        place_with(program, node->output[0], dy);
}

void program_fuse(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        program->node_step[i] = i;
        absorb_activation(program, i);
    }
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_BATCH_NORM_BACKWARD)
            fuse_backward(program, i);
}
