/* image_fusion.c: changes the program so that nodes of images compute neighbouring nodes along with
 * their own work (engine/graph/image_fusion.h).
 *
 * An absorbed node launches nothing. The tensors of other nodes that a pass reads or writes count
 * as touched by its own node, so that they live until then (struct memory_request). Fusions are
 * found before the algorithms of convolutions are chosen, and applied once the sizes of tensors are
 * known. */
#include "engine/backends/cuda/cuda.h"

#include <stdlib.h>

static bool stored_alike(const void *context, int32_t a, int32_t b)
{
    const struct backend_program *program = context;

    return program->stored[a] == program->stored[b];
}

static bool convolves(const void *context, int32_t node)
{
    const struct backend_program *program = context;

    return linear_pass(program->graph, &program->graph->nodes[node]) == OP_COUNT;
}

void program_find_image_fusions(struct backend_program *program)
{
    const struct image_fusion_rules rules = {program, convolves, stored_alike,
                                             CUDA_POOL_NOWHERE - 1};

    graph_find_image_fusions(program->graph, &rules, program->image_fusions);
}

/* ---- what that changes ----------------------------------------------------------------------- */

static void touch(struct backend_program *program, int32_t tensor, int32_t node)
{
    program->touches[program->touch_count++] = (struct memory_touch){tensor, node};
}

static void absorb(struct backend_program *program, int32_t node, int32_t by)
{
    program->operators[node] = cuda_nothing;
    program->node_step[node] = by;
}

static void lie_with(struct backend_program *program, int32_t tensor, int32_t other)
{
    while (program->alias[other] >= 0)
        other = program->alias[other];
    program->alias[tensor] = other;
    program->tensor_bytes[tensor] = 0;
}

static void apply_behind_convolution(struct backend_program *program, int32_t index)
{
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct graph_node *nodes = program->graph->nodes;

    absorb(program, fusion->activation, index);
    if (fusion->pool >= 0) {
        absorb(program, fusion->pool, index);
        program->tensor_bytes[nodes[fusion->activation].output[0]] = 0;
    } else if (!fusion->keeps) {
        lie_with(program, nodes[fusion->activation].output[0], nodes[index].output[0]);
    }
    if (fusion->relu_backward >= 0) {
        absorb(program, fusion->relu_backward, fusion->pool_backward);
        lie_with(program, nodes[fusion->relu_backward].output[0],
                 nodes[fusion->pool_backward].output[0]);
    }
}

static void apply_sum(struct backend_program *program, int32_t index)
{
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct graph_node *scaled = &program->graph->nodes[fusion->scaled];
    const struct graph_node *pooled = &program->graph->nodes[fusion->pooled];

    program->operators[index] = channel_scale_sum_run;
    program->operators[fusion->pooled] = cuda_nothing;
    program->tensor_bytes[scaled->output[0]] = program->tensor_bytes[pooled->output[0]] = 0;
    touch(program, scaled->input[0], index);
    touch(program, scaled->input[2], index);
    touch(program, pooled->input[0], index);
}

int program_apply_image_fusions(struct backend_program *program, struct error *error)
{
    enum { TOUCHES_OF_NODE = 3 };
    const struct graph *graph = program->graph;

    program->touches =
        calloc((size_t)graph->node_count * TOUCHES_OF_NODE + 1, sizeof *program->touches);
    if (!program->touches)
        return error_no_memory(error, "the program");
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct image_fusion *fusion = &program->image_fusions[i];

        if (fusion->activation >= 0)
            apply_behind_convolution(program, i);
        if (fusion->scaled >= 0)
            apply_sum(program, i);
        if (fusion->bias_gradient >= 0)
            touch(program, fusion->bias_gradient, i);
        if (fusion->bias_gradient >= 0 && graph->nodes[i].op == OP_ACTIVATION_BACKWARD)
            program->operators[i] = activation_sum_run;
    }
    return 0;
}

void program_apply_gates(struct backend_program *program)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++) {
        int32_t *gate = &program->image_fusions[i].gate;
        bool backward = graph->nodes[i].op == OP_CHANNEL_SCALE_BACKWARD;

        if (*gate < 0)
            continue;
        if (!program_is_free(program, *gate)) { /* a product or a norm computes it */
            *gate = -1;
            continue;
        }
        absorb(program, *gate, i);
        if (backward)
            program->tensor_bytes[graph->nodes[i].output[1]] = 0;
        else if (graph_single_reader(graph, graph->nodes[*gate].output[0]) == i)
            program->tensor_bytes[graph->nodes[*gate].output[0]] = 0;
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static cudaError_t add_up(struct backend_program *program, struct cuda_channel_sum *sum,
                          int32_t tensor, int32_t bias_gradient)
{
    const int64_t *extent = program->graph->tensors[tensor].shape.extent;

    sum->rows = extent[0] * extent[2] * extent[3];
    sum->channels = extent[1];
    sum->accumulate = program->run.accumulate;
    sum->sum = program_floats(program, bias_gradient);
    sum->parts = (float *)program->scratch;
    sum->arrivals = program->control->arrivals;
    return cuda_channel_sum(sum, program->device->stream);
}

int channel_sum_run(struct backend_program *program, int32_t index, int32_t gradient,
                    int32_t position, int32_t bias_gradient, struct error *error)
{
    struct cuda_channel_sum sum = {
        .x = program_array(program, gradient),
        .kind = -1,
        .position = position < 0 ? NULL : (const uint8_t *)program->address[position]};
    cudaError_t status = add_up(program, &sum, gradient, bias_gradient);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, program->graph->nodes[index].name);
}

int activation_sum_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_channel_sum sum = {.x = program_array(program, node->input[0]),
                                   .kind = (int)node->attributes.activation,
                                   .saved = program_array(program, node->input[1]),
                                   .result = program_array(program, node->output[0])};
    cudaError_t status =
        add_up(program, &sum, node->output[0], program->image_fusions[index].bias_gradient);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

int channel_scale_sum_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_node *scaled = &program->graph->nodes[fusion->scaled];
    const struct graph_node *pooled = &program->graph->nodes[fusion->pooled];
    const struct cuda_layout layout = program_layout(program, node->output[0]);
    cudaError_t status = cuda_channel_scale_gradient(
        program_array(program, scaled->input[0]), program_array(program, scaled->input[2]),
        program_array(program, pooled->input[0]), program_array(program, node->output[0]),
        program->graph->batch, layout.pixels, layout.channels, program->device->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}
