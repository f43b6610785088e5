/* images.c: pools and channel scales. */
#include "engine/backends/cuda/cuda.h"

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

struct cuda_pool image_describe_pool(const struct backend_program *program,
                                     const struct graph_node *node, int32_t large, int32_t small)
{
    const struct graph_shape *in = &program->graph->tensors[large].shape;
    const struct graph_shape *out = &program->graph->tensors[small].shape;
    const struct conv_attributes *a = &node->attributes.conv;

    return (struct cuda_pool){.images = in->extent[0],
                              .channels = in->extent[1],
                              .height = in->extent[2],
                              .width = in->extent[3],
                              .out_height = out->extent[2],
                              .out_width = out->extent[3],
                              .kernel = {a->kernel[0], a->kernel[1]},
                              .stride = {a->stride[0], a->stride[1]},
                              .padding = {a->padding[0], a->padding[1]}};
}

int max_pool_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_pool pool =
        image_describe_pool(program, node, node->input[0], node->output[0]);
    char *position = node->output_count > 1 ? program->address[node->output[1]] : NULL;

    return checked(node,
                   cuda_max_pool(&pool, program_array(program, node->input[0]),
                                 program_array(program, node->output[0]), (uint8_t *)position,
                                 program->device->stream),
                   error);
}

int max_pool_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_pool pool =
        image_describe_pool(program, node, node->output[0], node->input[0]);
    int32_t bias_gradient = program->image_fusions[index].bias_gradient;
    int r = checked(node,
                    cuda_max_pool_backward(&pool, program_array(program, node->input[0]),
                                           (const uint8_t *)program->address[node->input[1]],
                                           program_array(program, node->output[0]),
                                           program->device->stream),
                    error);

    return r < 0 || bias_gradient < 0 ? r
                                      : channel_sum_run(program, index, node->input[0],
                                                        node->input[1], bias_gradient, error);
}

int average_pool_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_pool pool =
        image_describe_pool(program, node, node->input[0], node->output[0]);

    return checked(node,
                   cuda_average_pool(&pool, program_array(program, node->input[0]),
                                     program_array(program, node->output[0]),
                                     program->device->stream),
                   error);
}

int average_pool_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_pool pool =
        image_describe_pool(program, node, node->output[0], node->input[0]);

    return checked(node,
                   cuda_average_pool_backward(&pool, program_array(program, node->input[0]),
                                              program_array(program, node->output[0]),
                                              program->device->stream),
                   error);
}

/* The activation that the node computes along with its own work. Forward `tensor` is its result,
 * backward what it saved. */
static struct cuda_gate describe_gate(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int32_t gate = program->image_fusions[index].gate;
    const struct graph_node *activation = &program->graph->nodes[gate < 0 ? index : gate];

    if (gate < 0)
        return (struct cuda_gate){.kind = -1};
    return (struct cuda_gate){.kind = (int)activation->attributes.activation,
                              .tensor = program_array(program, node->op == OP_CHANNEL_SCALE
                                                                   ? activation->output[0]
                                                                   : activation->input[1])};
}

int channel_scale_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_layout layout = program_layout(program, node->input[0]);
    int32_t gate = program->image_fusions[index].gate;
    int32_t scale = gate < 0 ? node->input[1] : program->graph->nodes[gate].input[0];

    return checked(node,
                   cuda_channel_scale(program_array(program, node->input[0]),
                                      program_array(program, scale), describe_gate(program, index),
                                      program_array(program, node->output[0]),
                                      program->graph->batch, layout.pixels, layout.channels,
                                      program->device->stream),
                   error);
}

int channel_scale_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct image_fusion *fusion = &program->image_fusions[index];
    const struct cuda_layout layout = program_layout(program, node->input[0]);
    int32_t dscale =
        fusion->gate < 0 ? node->output[1] : program->graph->nodes[fusion->gate].output[0];

    return checked(node,
                   cuda_channel_scale_backward(
                       program_array(program, node->input[0]),
                       program_array(program, node->input[1]),
                       program_array(program, node->input[2]), describe_gate(program, index),
                       program_array(program, fusion->sums_alone ? -1 : node->output[0]),
                       program_array(program, dscale), program->graph->batch, layout.pixels,
                       layout.channels, program->device->stream),
                   error);
}
