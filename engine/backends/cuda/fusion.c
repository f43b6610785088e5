/* fusion.c: nodes that a batch norm does along with its own work, so that what passes between them
 * is neither written nor read:
 *
 *   batch norm [-> add] [-> ReLU, SiLU, hardswish]              one pass forward
 *   batch norm -> add of another's result, which nobody else reads: the second one's pass reads the
 *       operands of both
 *   activation backward -> batch norm backward                  the gradient by the activation's
 *       operand is made from x in both passes; nothing is stored
 *   add -> ReLU backward -> batch norm backward                 the same, but that the first pass
 *       stores the gradient by batch norm's result
 *   [add ->] ReLU backward -> batch norm backward               where others read that gradient,
 * too (residual blocks), or the sum behind batch norm is not kept: its first pass makes and stores
 * it
 *
 * An absorbed node launches nothing. Its results lie where the absorbing node's do, and what an
 * absorbed backward node reads lives until then (node_step). All are stored in one type. */
#include "engine/backends/cuda/cuda.h"

/* Nobody has taken the node's work over. */
static bool is_free(const struct backend_program *program, int32_t node)
{
    return program->operators[node] == cuda_operator_of(program->graph->nodes[node].op) &&
           program->node_step[node] == node;
}

static bool norm_applies(enum activation_kind kind)
{
    return kind == ACTIVATION_RELU || kind == ACTIVATION_SILU || kind == ACTIVATION_HARDSWISH;
}

static bool stored_alike(const struct backend_program *program, int32_t a, int32_t b)
{
    return program->stored[a] == program->stored[b];
}

static void place_with(struct backend_program *program, int32_t tensor, int32_t other)
{
    while (program->alias[other] >= 0)
        other = program->alias[other];
    program->alias[tensor] = other;
    program->tensor_bytes[tensor] = 0;
}

static void absorb_forward(struct backend_program *program, int32_t index, int32_t node)
{
    program->operators[node] = cuda_nothing;
    place_with(program, program->graph->nodes[node].output[0],
               program->graph->nodes[index].output[0]);
}

static void absorb_backward(struct backend_program *program, int32_t index, int32_t node)
{
    program->operators[node] = cuda_nothing;
    program->node_step[node] = index;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The node that alone reads y and may be done with it, or -1. */
static int32_t follower(const struct backend_program *program, int32_t index, int32_t y,
                        enum graph_op op)
{
    const struct graph *graph = program->graph;
    int32_t reader = graph_single_reader(graph, y);

    if (reader < 0 || graph->nodes[reader].op != op || !is_free(program, reader) ||
        graph->nodes[reader].phase != graph->nodes[index].phase ||
        !stored_alike(program, graph->nodes[reader].output[0], y))
        return -1;
    return reader;
}

/* Where the other summand is a batch norm's result that only the sum reads, and that one's operand
 * is kept anyhow, the sum takes the operand and normalises it along. */
static void absorb_second(struct backend_program *program, int32_t index, int32_t sum,
                          int32_t other)
{
    const struct graph *graph = program->graph;
    int32_t second = graph->tensors[other].producer, x;

    if (second < 0 || graph->nodes[second].op != OP_BATCH_NORM || !is_free(program, second) ||
        graph->nodes[second].output_count < 3 || !norm_can_fuse(program, second) ||
        program->fusions[second].addend >= 0 || program->fusions[second].activation >= 0 ||
        graph_single_reader(graph, other) != sum || graph->nodes[index].op != OP_BATCH_NORM ||
        graph->nodes[index].output_count < 3)
        return;
    x = graph->nodes[second].input[0];
    if (!stored_alike(program, x, other) || graph_next_reader(graph, x, index + 1) < 0)
        return;
    program->fusions[index].addend = x;
    program->fusions[index].second = second;
    program->fusions[second].moments_alone = true;
    program->tensor_bytes[other] = 0;
}

/* The sum behind batch norm, where the other summand is there already. Returns the last result. */
static int32_t absorb_sum(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    int32_t y = graph->nodes[index].output[0], other;
    int32_t reader = follower(program, index, y, OP_ADD);
    const struct graph_node *sum;

    if (reader < 0)
        return y;
    sum = &graph->nodes[reader];
    other = sum->input[sum->input[0] == y];
    if (other == y || graph->tensors[other].producer > index || !stored_alike(program, other, y))
        return y;
    program->fusions[index].addend = other;
    absorb_second(program, index, reader, other);
    absorb_forward(program, index, reader);
    return sum->output[0];
}

static void fuse_forward(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    enum activation_kind kind;
    int32_t reader;

    if (!stored_alike(program, node->input[0], node->output[0]) || !norm_can_fuse(program, index))
        return;
    reader = follower(program, index, absorb_sum(program, index), OP_ACTIVATION);
    if (reader < 0)
        return;
    kind = program->graph->nodes[reader].attributes.activation;
    if (!norm_applies(kind))
        return;
    program->fusions[index].activation = (int)kind;
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
        !is_free(program, first) || !stored_alike(program, graph->nodes[first].output[0], y) ||
        graph_next_reader(graph, y, first + 1) != activation_backward ||
        graph_next_reader(graph, y, activation_backward + 1) >= 0)
        return;
    program->fusions[norm].activation = (int)graph->nodes[first].attributes.activation;
    absorb_forward(program, norm, first);
}

/* The sum whose result only the node `activation` reads is done with it. */
static void absorb_gradient_sum(struct backend_program *program, int32_t index, int32_t activation)
{
    const struct graph *graph = program->graph;
    struct norm_fusion *fusion = &program->fusions[index];
    int32_t dy = graph->nodes[activation].input[0], sum = graph->tensors[dy].producer;

    if (sum < 0 || graph->nodes[sum].op != OP_ADD || graph->nodes[sum].phase != GRAPH_BACKWARD ||
        !is_free(program, sum) || graph_single_reader(graph, dy) != activation)
        return;
    for (int i = 0; i < 2; i++)
        if (!stored_alike(program, graph->nodes[sum].input[i], dy))
            return;
    for (int i = 0; i < 2; i++)
        fusion->incoming[i] = graph->nodes[sum].input[i];
    absorb_backward(program, index, sum);
}

/* What was absorbed is made where one of the incoming gradients lies, if one may be taken over. */
static void place_gradient(struct backend_program *program, int32_t index, int32_t activation)
{
    const struct graph *graph = program->graph;
    const struct graph_node *behind = &graph->nodes[activation];
    const struct norm_fusion *fusion = &program->fusions[index];
    int32_t masked = behind->output[0];

    for (int i = 0; i < 2; i++)
        if (fusion->incoming[i] >= 0 && program->alias[masked] < 0 &&
            graph_gradient_can_be_overwritten(graph, fusion->incoming[i]))
            place_with(program, masked, fusion->incoming[i]);
    if (fusion->incoming[1] >= 0) /* the sum is never stored */
        place_with(program, behind->input[0], masked);
}

/* activation backward -> batch norm backward, from x. */
static bool absorb_slope(struct backend_program *program, int32_t index, int32_t activation)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index], *behind = &graph->nodes[activation];
    enum activation_kind kind = behind->attributes.activation;
    int32_t dy = behind->input[0], norm;

    if (!norm_applies(kind) || graph_single_reader(graph, node->input[1]) != index ||
        !graph_gradient_can_be_overwritten(graph, dy))
        return false;
    norm = graph_batch_norm_behind(graph, node, kind, behind->input[1]);
    if (norm < 0)
        return false;
    program->fusions[index].activation = (int)kind;
    program->fusions[index].incoming[0] = dy;
    program->fusions[index].bias = graph->nodes[norm].input[2];
    absorb_backward(program, index, activation);
    if (kind == ACTIVATION_RELU)
        absorb_gradient_sum(program, index, activation);
    place_gradient(program, index, activation);
    if (kind != ACTIVATION_RELU)
        drop_result(program, norm, activation);
    return true;
}

/* [add ->] ReLU backward -> batch norm backward, which is the first to read the gradient. */
static void absorb_mask(struct backend_program *program, int32_t index, int32_t activation)
{
    const struct graph *graph = program->graph;
    const struct graph_node *behind = &graph->nodes[activation];
    struct norm_fusion *fusion = &program->fusions[index];
    int32_t dy = behind->input[0], masked = behind->output[0];

    if (behind->attributes.activation != ACTIVATION_RELU ||
        graph_next_reader(graph, masked, 0) != index || masked == graph->input_gradient ||
        !stored_alike(program, behind->input[1], masked))
        return;
    fusion->result = behind->input[1];
    fusion->incoming[0] = dy;
    absorb_backward(program, index, activation);
    absorb_gradient_sum(program, index, activation);
    place_gradient(program, index, activation);
}

static void fuse_backward(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index];
    int32_t dy = node->input[1], behind = graph->tensors[dy].producer;

    if (!stored_alike(program, node->input[0], dy) ||
        !stored_alike(program, node->input[0], node->output[0]) || !norm_can_fuse(program, index))
        return;
    if (behind >= 0 && graph->nodes[behind].op == OP_ACTIVATION_BACKWARD &&
        is_free(program, behind) && stored_alike(program, graph->nodes[behind].input[0], dy) &&
        !absorb_slope(program, index, behind))
        absorb_mask(program, index, behind);
    if (graph_gradient_can_be_overwritten(graph, dy))
        place_with(program, node->output[0], dy);
}

void program_fuse_norms(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++)
        program->fusions[i] = (struct norm_fusion){.activation = -1,
                                                   .addend = -1,
                                                   .second = -1,
                                                   .bias = -1,
                                                   .result = -1,
                                                   .incoming = {-1, -1}};
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph_node_is_batch_norm(&graph->nodes[i]))
            fuse_forward(program, i);
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_BATCH_NORM_BACKWARD)
            fuse_backward(program, i);
}
