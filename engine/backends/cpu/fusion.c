/* fusion.c: changes the program so that a node computes neighbouring nodes along with its own work
 * (engine/graph/fusion.h). The rows of operators.c say which neighbours a node can absorb.
 *
 * An absorbed node adds no steps. Its results take the place of the absorbing node's results. What
 * an absorbed backward node reads lives until the absorbing node runs (node_step). */
#include "engine/backends/cpu/program.h"

#include <stdlib.h>

static struct fusion_abilities find_abilities(const void *context, int32_t node)
{
    const struct backend_program *program = context;

    return operator_functions_of(program->device->operators, program->graph,
                                 &program->graph->nodes[node])
        ->fuses;
}

static void place_with(struct backend_program *program, int32_t tensor, int32_t other)
{
    program->root[tensor] = program->root[other];
    program->alias[tensor] = program->root[other];
}

/* Absorbs `node` into `index`, whose result is then that of `node`. */
static void absorb_forward(struct backend_program *program, int32_t index, int32_t node)
{
    program->nodes[node].absorbed = true;
    place_with(program, program->graph->nodes[node].output[0],
               program->graph->nodes[index].output[0]);
}

/* Absorbs `node` into `index`, which runs in its stead. */
static void absorb_work(struct backend_program *program, int32_t index, int32_t node)
{
    program->nodes[node].absorbed = true;
    program->node_step[node] = index;
}

static int kind_of(const struct backend_program *program, int32_t node)
{
    return (int)program->graph->nodes[node].attributes.activation;
}

static void fuse_forward(struct backend_program *program, int32_t index,
                         const struct fusion *fusion)
{
    if (fusion->sum >= 0) {
        program->nodes[index].addend = fusion->addend;
        absorb_forward(program, index, fusion->sum);
    }
    if (fusion->activation >= 0) {
        program->nodes[index].fused = kind_of(program, fusion->activation);
        absorb_forward(program, index, fusion->activation);
    }
}

/* Chooses where the resulting gradient is stored, if it is: in place of an incoming gradient that
 * may be overwritten. */
static void place_gradient(struct backend_program *program, const struct fusion *fusion)
{
    const struct graph_node *behind = &program->graph->nodes[fusion->activation_backward];
    int32_t made = behind->output[0];
    const int32_t overwritten = graph_overwritten_gradient(program->graph, fusion);

    if (overwritten >= 0 && program->alias[made] < 0)
        place_with(program, made, overwritten);
    if (fusion->gradient_sum >= 0) /* the sum of the gradients is never stored */
        place_with(program, behind->input[0], made);
}

static void fuse_backward(struct backend_program *program, int32_t index,
                          const struct fusion *fusion)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct node_plan *plan = &program->nodes[index];

    if (fusion->activation_backward >= 0) {
        plan->fused = kind_of(program, fusion->activation_backward);
        plan->saved = fusion->saved;
        plan->bias = fusion->norm >= 0 ? program->graph->nodes[fusion->norm].input[2] : -1;
        for (int i = 0; i < 2; i++)
            plan->incoming[i] = fusion->incoming[i];
        absorb_work(program, index, fusion->activation_backward);
        if (fusion->gradient_sum >= 0)
            absorb_work(program, index, fusion->gradient_sum);
        place_gradient(program, fusion);
    }
    if (fusion->overwrites)
        place_with(program, node->output[0], node->input[1]);
}

/* Whether only the node reads the tensor, within the program or from outside. */
static bool has_one_reader(const struct graph *graph, int32_t tensor)
{
    int readers = tensor == graph->output;

    for (int32_t i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            readers += graph->nodes[i].input[k] == tensor;
    return readers == 1;
}

/* Whether the recurrent layer has a kernel for the product of rows of x. */
static bool recurrent_reads(const struct backend_program *program, const struct graph_node *node,
                            int32_t x)
{
    const struct graph_tensor *tensors = program->graph->tensors;
    int64_t units = tensors[node->input[1]].shape.extent[1];

    return tensors[x].type == TENSOR_FLOAT32 ||
           (tensors[x].type == TENSOR_BFLOAT16 && tensors[x].shape.extent[2] % 2 == 0 &&
            recurrent_uses_amx(program, units));
}

/* Absorbs the linear layer in front of a recurrent layer, which then computes its product in
 * parts. Integers lie by gates then, so that no other layer may read them. */
static void fuse_recurrent(struct backend_program *program, int32_t index)
{
    const struct graph *graph = program->graph;
    const struct graph_node *node = &graph->nodes[index], *layer;
    int32_t number;

    if (node->op != OP_RECURRENT && node->op != OP_RECURRENT_INT8)
        return;
    number = graph->tensors[node->input[0]].producer;
    layer = number < 0 ? NULL : &graph->nodes[number];
    if (!layer || (layer->op != OP_LINEAR && layer->op != OP_LINEAR_INT8) ||
        layer->phase != node->phase || program->nodes[number].fused >= 0 ||
        !recurrent_reads(program, node, layer->input[0]) ||
        !has_one_reader(graph, node->input[0]) ||
        (layer->op == OP_LINEAR_INT8 && !has_one_reader(graph, layer->input[1])))
        return;
    program->nodes[index].input_layer = number;
    absorb_work(program, index, number);
}

int program_fuse(struct backend_program *program, struct error *error)
{
    const struct fusion_rules rules = {.context = program, .abilities = find_abilities};
    const struct graph *graph = program->graph;
    struct fusion *fusions = calloc((size_t)graph->node_count + 1, sizeof *fusions);

    if (!fusions)
        return error_no_memory(error, "the program");
    graph_find_fusions(graph, &rules, fusions);
    for (int32_t i = 0; i < graph->node_count; i++) {
        program->node_step[i] = i;
        fuse_forward(program, i, &fusions[i]);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        fuse_backward(program, i, &fusions[i]);
        fuse_recurrent(program, i);
    }
    free(fusions);
    return 0;
}
