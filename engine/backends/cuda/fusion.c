/* fusion.c: changes the program so that a batch norm computes neighbouring nodes along with its own
 * work (engine/graph/fusion.h).
 *
 * An absorbed node launches nothing. Its results are stored where the absorbing node's results are.
 * What an absorbed backward node reads lives until the absorbing node runs (node_step). All of them
 * are stored in one type. */
#include "engine/backends/cuda/cuda.h"

#include <stdlib.h>

bool program_is_free(const struct backend_program *program, int32_t node)
{
    return program->operators[node] == cuda_operator_of(program->graph->nodes[node].op) &&
           program->node_step[node] == node;
}

static bool is_free(const void *context, int32_t node)
{
    return program_is_free(context, node);
}

static bool stored_alike(const void *context, int32_t a, int32_t b)
{
    const struct backend_program *program = context;

    return program->stored[a] == program->stored[b];
}

static struct fusion_abilities find_abilities(const void *context, int32_t index)
{
    const struct backend_program *program = context;
    const struct graph_node *node = &program->graph->nodes[index];
    bool backward = node->op == OP_BATCH_NORM_BACKWARD;

    if ((!backward && !graph_node_is_batch_norm(node)) || !norm_can_fuse(program, index))
        return (struct fusion_abilities){0};
    if (!stored_alike(program, node->input[0], node->output[0]) ||
        (backward && !stored_alike(program, node->input[0], node->input[1])))
        return (struct fusion_abilities){.normalises_addend = !backward};
    return (struct fusion_abilities){
        .activations = FUSION_ACTIVATION(ACTIVATION_RELU) | FUSION_ACTIVATION(ACTIVATION_SILU) |
                       FUSION_ACTIVATION(ACTIVATION_HARDSWISH) | FUSION_ACTIVATION(ACTIVATION_GELU),
        .adds = true,
        .adds_always = true,
        .normalises_addend = !backward};
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

static int kind_of(const struct backend_program *program, int32_t node)
{
    return (int)program->graph->nodes[node].attributes.activation;
}

static void fuse_forward(struct backend_program *program, int32_t index,
                         const struct fusion *fusion)
{
    struct norm_fusion *norm = &program->fusions[index];

    norm->moments_alone = fusion->moments_alone;
    norm->addend = fusion->addend;
    norm->second = fusion->second;
    if (fusion->second >= 0)
        program->tensor_bytes[program->graph->nodes[fusion->second].output[0]] = 0;
    if (fusion->sum >= 0)
        absorb_forward(program, index, fusion->sum);
    if (fusion->activation >= 0) {
        norm->activation = kind_of(program, fusion->activation);
        absorb_forward(program, index, fusion->activation);
    }
}

/* Chooses where the resulting gradient is stored: in place of an incoming gradient, if one may be
 * overwritten. */
static void place_gradient(struct backend_program *program, const struct fusion *fusion)
{
    const struct graph *graph = program->graph;
    const struct graph_node *behind = &graph->nodes[fusion->activation_backward];
    int32_t made = behind->output[0];
    const int32_t overwritten = graph_overwritten_gradient(graph, fusion);

    if (overwritten >= 0 && program->alias[made] < 0)
        place_with(program, made, overwritten);
    if (fusion->gradient_sum >= 0) /* the sum of the gradients is never stored */
        place_with(program, behind->input[0], made);
}

static void fuse_backward(struct backend_program *program, int32_t index,
                          const struct fusion *fusion)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct norm_fusion *norm = &program->fusions[index];

    if (fusion->activation_backward >= 0) {
        norm->result = fusion->saved;
        if (fusion->norm >= 0) {
            norm->activation = kind_of(program, fusion->activation_backward);
            norm->bias = program->graph->nodes[fusion->norm].input[2];
        }
        for (int i = 0; i < 2; i++)
            norm->incoming[i] = fusion->incoming[i];
        absorb_backward(program, index, fusion->activation_backward);
        if (fusion->gradient_sum >= 0)
            absorb_backward(program, index, fusion->gradient_sum);
        place_gradient(program, fusion);
    }
    if (fusion->overwrites)
        place_with(program, node->output[0], node->input[1]);
}

int program_fuse_norms(struct backend_program *program, struct error *error)
{
    const struct fusion_rules rules = {program, find_abilities, is_free, stored_alike};
    const struct graph *graph = program->graph;
    struct fusion *found = calloc((size_t)graph->node_count + 1, sizeof *found);

    if (!found)
        return error_no_memory(error, "the program");
    for (int32_t i = 0; i < graph->node_count; i++)
        program->fusions[i] = (struct norm_fusion){.activation = -1,
                                                   .addend = -1,
                                                   .second = -1,
                                                   .bias = -1,
                                                   .result = -1,
                                                   .incoming = {-1, -1}};
    graph_find_fusions(graph, &rules, found);
    for (int32_t i = 0; i < graph->node_count; i++)
        fuse_forward(program, i, &found[i]);
    for (int32_t i = 0; i < graph->node_count; i++)
        fuse_backward(program, i, &found[i]);
    free(found);
    return 0;
}
