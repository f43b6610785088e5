/* normalization.c: batch norm, with the operations that fusion.c has fused with it. */
#include "engine/backends/cuda/cuda.h"

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

/* Describes what both directions have in common. */
static struct cuda_batch_norm describe_norm(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *shape = &program->graph->tensors[node->input[0]].shape;
    struct cuda_batch_norm norm = {.x = program_array(program, node->input[0]),
                                   .rows = shape->extent[0],
                                   .channels = shape->extent[1],
                                   .pixels = 1,
                                   .epsilon = node->attributes.batch_norm.epsilon,
                                   .momentum = node->attributes.batch_norm.momentum,
                                   .multiprocessors = program->device->multiprocessors,
                                   .overlaps = program->device->code_major >= 9,
                                   .partial = (float *)program->scratch,
                                   .arrivals = program->control->arrivals,
                                   .activation = program->fusions[index].activation};
    int64_t *inner = program_is_channels_last(program, node->input[0]) ? &norm.rows : &norm.pixels;

    for (int i = 2; i < shape->rank; i++)
        *inner *= shape->extent[i];
    return norm;
}

bool norm_can_fuse(const struct backend_program *program, int32_t index)
{
    const struct cuda_batch_norm norm = describe_norm(program, index);

    return cuda_batch_norm_is_fast(&norm);
}

/* Describes the normalisation that the addend gets first. */
static void describe_second(const struct backend_program *program, int32_t index,
                            struct cuda_batch_norm *norm)
{
    const struct graph_node *node = &program->graph->nodes[index];

    norm->second.weight = program_floats(program, node->input[1]);
    norm->second.bias = program_floats(program, node->input[2]);
    norm->second.mean = program_floats(program, node->output[1]);
    norm->second.inverse_std = program_floats(program, node->output[2]);
}

int norm_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_batch_norm norm = describe_norm(program, index);
    bool again = node->op == OP_BATCH_NORM_APPLY;
    bool train = !again && node->attributes.batch_norm.training;
    cudaStream_t stream = program->device->stream;

    norm.weight = program_floats(program, node->input[1]);
    norm.bias = program_floats(program, node->input[2]);
    norm.y = program_array(program, node->output[0]);
    norm.addend = program_array(program, program->fusions[index].addend);
    if (again) {
        norm.mean = program_floats(program, node->input[3]);
        norm.inverse_std = program_floats(program, node->input[4]);
    } else {
        norm.running_mean = program_floats(program, node->input[3]);
        norm.running_variance = program_floats(program, node->input[4]);
    }
    if (train) {
        norm.mean = program_floats(program, node->output[1]);
        norm.inverse_std = program_floats(program, node->output[2]);
    }
    if (program->fusions[index].second >= 0)
        describe_second(program, program->fusions[index].second, &norm);
    if (program->fusions[index].moments_alone)
        return checked(node, cuda_batch_norm_moments(&norm, stream), error);
    return checked(node,
                   train ? cuda_batch_norm_train(&norm, stream)
                         : cuda_batch_norm_apply(&norm, !again, stream),
                   error);
}

int norm_frozen_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_batch_norm norm = describe_norm(program, index);

    norm.weight = program_floats(program, node->input[1]);
    norm.running_variance = program_floats(program, node->input[2]);
    norm.y = program_array(program, node->output[0]);
    return checked(node, cuda_batch_norm_apply(&norm, true, program->device->stream), error);
}

int norm_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct norm_fusion *fusion = &program->fusions[index];
    struct cuda_batch_norm norm = describe_norm(program, index);
    struct cuda_batch_norm_gradient gradient = {
        .dy =
            program_array(program, fusion->incoming[0] < 0 ? node->input[1] : fusion->incoming[0]),
        .other = program_array(program, fusion->incoming[1]),
        .result = program_array(program, fusion->result),
        .masked = program_array(program, node->input[1]),
        .dx = program_array(program, node->output[0]),
        .dweight = program_floats(program, node->output[1]),
        .dbias = program_floats(program, node->output[2]),
        .accumulate = program->run.accumulate};

    norm.weight = program_floats(program, node->input[2]);
    norm.bias = program_floats(program, fusion->bias);
    norm.mean = program_floats(program, node->input[3]);
    norm.inverse_std = program_floats(program, node->input[4]);
    return checked(node, cuda_batch_norm_backward(&norm, &gradient, program->device->stream),
                   error);
}
