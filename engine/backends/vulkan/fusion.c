/* fusion.c: finds which activations and sums, or gradients of these, a node computes along with its
 * own work (engine/graph/fusion.h). An absorbed node launches nothing. Its result lies where that
 * of the node lies which has absorbed it. What an absorbed gradient reads lives until the node runs
 * that has absorbed it (node_step). */
#include "engine/graph/fusion.h"

#include "engine/backends/vulkan/vulkan.h"

#include <stdlib.h>

/* Activations whose derivative activate_backward() of activations.glsl takes of the operand; that
 * of ReLU is the same of the result. */
#define DERIVED_FROM_OPERAND                                                   \
    (FUSION_ACTIVATION(ACTIVATION_RELU) | FUSION_ACTIVATION(ACTIVATION_SILU) | \
     FUSION_ACTIVATION(ACTIVATION_GELU) | FUSION_ACTIVATION(ACTIVATION_HARDSWISH))

static bool is_free(const void *context, int32_t node)
{
    const struct backend_program *program = context;

    return !program->fusions[node].absorbed;
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

    if (node->op == OP_LINEAR || node->op == OP_CONV2D)
        return (struct fusion_abilities){.activations = FUSION_ANY_ACTIVATION};
    if (graph_node_is_batch_norm(node))
        return (struct fusion_abilities){.activations = FUSION_ANY_ACTIVATION, .adds = true};
    if (node->op == OP_BATCH_NORM_BACKWARD &&
        stored_alike(program, node->input[0], node->input[1]) &&
        stored_alike(program, node->input[0], node->output[0]))
        return (struct fusion_abilities){
            .activations = DERIVED_FROM_OPERAND, .adds = true, .adds_always = true};
    return (struct fusion_abilities){0};
}

static void place_with(struct backend_program *program, int32_t tensor, int32_t other)
{
    while (program->alias[other] >= 0)
        other = program->alias[other];
    program->alias[tensor] = other;
    program->tensor_bytes[tensor] = 0;
}

static void absorb(struct backend_program *program, int32_t index, int32_t node)
{
    const struct graph_node *nodes = program->graph->nodes;

    program->fusions[node].absorbed = true;
    place_with(program, nodes[node].output[0], nodes[index].output[0]);
}

static uint32_t activation_of(const struct backend_program *program, int32_t node)
{
    return 1 + (uint32_t)program->graph->nodes[node].attributes.activation;
}

static void fuse_forward(struct backend_program *program, int32_t index, const struct fusion *found)
{
    struct vulkan_fusion *fusion = &program->fusions[index];

    fusion->addend = found->addend;
    if (found->sum >= 0)
        absorb(program, index, found->sum);
    if (found->activation >= 0) {
        fusion->activation = activation_of(program, found->activation);
        absorb(program, index, found->activation);
    }
}

static void absorb_backward(struct backend_program *program, int32_t index, int32_t node)
{
    program->fusions[node].absorbed = true;
    program->node_step[node] = index;
}

/* The gradient lies in place of one that comes in, if that may be overwritten. */
static void place_gradient(struct backend_program *program, const struct fusion *found)
{
    const struct graph_node *behind = &program->graph->nodes[found->activation_backward];
    const int32_t made = behind->output[0];
    const int32_t overwritten = graph_overwritten_gradient(program->graph, found);

    if (overwritten >= 0 && program->alias[made] < 0)
        place_with(program, made, overwritten);
    if (found->gradient_sum >= 0) /* the sum of the gradients is never stored */
        place_with(program, behind->input[0], made);
}

static void fuse_backward(struct backend_program *program, int32_t index,
                          const struct fusion *found)
{
    struct vulkan_fusion *fusion = &program->fusions[index];

    if (found->activation_backward < 0)
        return;
    fusion->activation = activation_of(program, found->activation_backward);
    fusion->result = found->saved;
    if (found->norm >= 0)
        fusion->bias = program->graph->nodes[found->norm].input[2];
    for (int i = 0; i < 2; i++)
        fusion->incoming[i] = found->incoming[i];
    absorb_backward(program, index, found->activation_backward);
    if (found->gradient_sum >= 0)
        absorb_backward(program, index, found->gradient_sum);
    place_gradient(program, found);
}

int program_fuse(struct backend_program *program, struct error *error)
{
    const struct fusion_rules rules = {program, find_abilities, is_free, stored_alike};
    const struct graph *graph = program->graph;
    struct fusion *found = calloc((size_t)graph->node_count + 1, sizeof *found);

    if (!found)
        return error_no_memory(error, "the program");
    for (int32_t i = 0; i < graph->node_count; i++)
        program->fusions[i] =
            (struct vulkan_fusion){.addend = -1, .incoming = {-1, -1}, .bias = -1, .result = -1};
    for (int32_t i = 0; i < graph->node_count; i++)
        program->node_step[i] = i;
    graph_find_fusions(graph, &rules, found);
    for (int32_t i = 0; i < graph->node_count; i++)
        fuse_forward(program, i, &found[i]);
    for (int32_t i = 0; i < graph->node_count; i++)
        fuse_backward(program, i, &found[i]);
    free(found);
    return 0;
}
