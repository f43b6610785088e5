/* spatial.c: launches pools whose windows follow from the size of the result, images made larger or
 * smaller, group norm, and what is done to whole channels (kernels/general.h). */
#include "engine/backends/cuda/general.h"
#include "engine/backends/cuda/kernels/general.h"

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

static bool is_channels_last(const struct graph *graph, int32_t tensor)
{
    return graph->tensors[tensor].shape.rank == 4;
}

/* Of [batch, channels, …]. */
static int64_t pixels_of(const struct graph *graph, int32_t tensor)
{
    const struct graph_shape *shape = &graph->tensors[tensor].shape;

    return graph_shape_elements(shape) / shape->extent[0] / shape->extent[1];
}

/* ---- adaptive pools ---- */

int adaptive_pool_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_pool pool =
        image_describe_pool(program, node, node->input[0], node->output[0]);
    const struct cuda_array x = program_array(program, node->input[0]);
    const struct cuda_array y = program_array(program, node->output[0]);
    uint8_t *position =
        node->output_count > 1 ? (uint8_t *)program->address[node->output[1]] : NULL;
    cudaStream_t stream = program->device->stream;

    return checked(node,
                   node->op == OP_ADAPTIVE_MAX_POOL2D
                       ? cuda_adaptive_max(&pool, x, y, position, stream)
                       : cuda_adaptive_average(&pool, x, y, stream),
                   error);
}

int adaptive_pool_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_pool pool =
        image_describe_pool(program, node, node->output[0], node->input[0]);
    const struct cuda_array dy = program_array(program, node->input[0]);
    const struct cuda_array dx = program_array(program, node->output[0]);
    cudaStream_t stream = program->device->stream;

    return checked(
        node,
        node->op == OP_ADAPTIVE_MAX_POOL2D_BACKWARD
            ? cuda_adaptive_max_backward(
                  &pool, dy, (const uint8_t *)program->address[node->input[1]], dx, stream)
            : cuda_adaptive_average_backward(&pool, dy, dx, stream),
        error);
}

/* ---- larger or smaller ---- */

int resize_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const bool back = node->op == OP_RESIZE2D_BACKWARD;
    const int64_t *from =
        program->graph->tensors[back ? node->output[0] : node->input[0]].shape.extent;
    const int64_t *to =
        program->graph->tensors[back ? node->input[0] : node->output[0]].shape.extent;
    const struct cuda_resize resize = {
        .images = from[0],
        .channels = from[1],
        .from = {from[2], from[3]},
        .to = {to[2], to[3]},
        .step = {node->attributes.resize.step[0], node->attributes.resize.step[1]},
        .mode = node->attributes.resize.mode};
    const struct cuda_array source = program_array(program, node->input[0]);
    const struct cuda_array result = program_array(program, node->output[0]);
    cudaStream_t stream = program->device->stream;

    return checked(node,
                   back ? cuda_resize_backward(&resize, source, result, stream)
                        : cuda_resize(&resize, source, result, stream),
                   error);
}

/* ---- whole channels ---- */

/* A number for each channel is combined with all of its pixels. */
static struct cuda_broadcast describe_channels(const struct graph *graph, int32_t images)
{
    const int64_t pixels = pixels_of(graph, images);
    const bool last = is_channels_last(graph, images);

    return (struct cuda_broadcast){.how = {.kind = BROADCAST_ADD,
                                           .outer = last ? pixels : 1,
                                           .middle = graph->tensors[images].shape.extent[1],
                                           .inner = last ? 1 : pixels},
                                   .batch = graph->batch,
                                   .shared = true};
}

int channel_bias_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_broadcast channels = describe_channels(program->graph, node->input[0]);

    return checked(node,
                   cuda_broadcast(&channels, program_array(program, node->input[0]),
                                  program_array(program, node->input[1]),
                                  program_array(program, node->output[0]), program->device->stream),
                   error);
}

int channel_bias_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_broadcast channels = describe_channels(program->graph, node->input[0]);
    const struct cuda_array nothing = {.at = NULL};

    return checked(node,
                   cuda_broadcast_backward_second(
                       &channels, program_array(program, node->input[0]), nothing, nothing,
                       program_accumulates(program, node, 0),
                       program_array(program, node->output[0]),
                       (float *)(void *)program->workspace[index], program->device->stream),
                   error);
}

int channel_dropout_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *images = &program->graph->tensors[node->output[0]].shape;
    const int64_t pixels = pixels_of(program->graph, node->output[0]);
    const bool last = is_channels_last(program->graph, node->output[0]) && pixels > 1;
    const struct cuda_dropout_shape shape = {
        .row = pixels, .channels = last ? images->extent[1] : 0, .pixels = pixels};

    return checked(node,
                   cuda_dropout(program->step_scalars, node->attributes.dropout.dropout_stream,
                                node->attributes.dropout.probability, &shape,
                                program_array(program, node->input[0]),
                                program_array(program, node->output[0]),
                                graph_shape_elements(images), program->device->stream),
                   error);
}

/* ---- group norm ---- */

/* The shape alone. `x`: the operand. */
static struct cuda_group_norm describe_norm(const struct graph *graph,
                                            const struct graph_node *node, int32_t x)
{
    const int64_t pixels = pixels_of(graph, x);

    return (struct cuda_group_norm){.batch = graph->batch,
                                    .channels = graph->tensors[x].shape.extent[1],
                                    .pixels = pixels,
                                    /* channels that are single numbers lie side by side, too */
                                    .channels_last = is_channels_last(graph, x) || pixels == 1,
                                    .groups = node->attributes.group_norm.groups,
                                    .epsilon = node->attributes.group_norm.epsilon};
}

/* Outside of training the moments are in the workspace, before those of pieces. */
int group_norm_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_group_norm norm = describe_norm(program->graph, node, node->input[0]);
    float *workspace = (float *)(void *)program->workspace[index];
    const bool saves = node->output_count > 1;

    norm.x = program_array(program, node->input[0]);
    norm.weight = program_floats(program, node->input[1]);
    norm.bias = program_floats(program, node->input[2]);
    norm.mean = saves ? program_floats(program, node->output[1]) : workspace;
    norm.inverse_std =
        saves ? program_floats(program, node->output[2]) : workspace + norm.batch * norm.groups;
    norm.scratch = saves ? workspace : workspace + 2 * norm.batch * norm.groups;
    return checked(
        node,
        cuda_group_norm(&norm, program_array(program, node->output[0]), program->device->stream),
        error);
}

int group_norm_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_group_norm norm = describe_norm(program->graph, node, node->input[1]);

    norm.dy = program_array(program, node->input[0]);
    norm.x = program_array(program, node->input[1]);
    norm.weight = program_floats(program, node->input[2]);
    norm.mean = program_floats(program, node->input[3]);
    norm.inverse_std = program_floats(program, node->input[4]);
    norm.dx = program_array(program, node->output[0]);
    norm.dweight = program_floats(program, node->output[1]);
    norm.dbias = program_floats(program, node->output[2]);
    norm.accumulate_weight = program_accumulates(program, node, 1);
    norm.accumulate_bias = program_accumulates(program, node, 2);
    norm.scratch = (float *)(void *)program->workspace[index];
    return checked(node, cuda_group_norm_backward(&norm, program->device->stream), error);
}

size_t spatial_workspace(const struct graph *graph, const struct graph_node *node)
{
    struct cuda_group_norm norm;
    struct cuda_broadcast channels;

    switch (node->op) {
    case OP_GROUP_NORM:
        norm = describe_norm(graph, node, node->input[0]);
        return cuda_group_norm_pieces(&norm) +
               (node->output_count > 1 ? 0 : (size_t)(2 * norm.batch * norm.groups)) *
                   sizeof(float);
    case OP_GROUP_NORM_BACKWARD:
        norm = describe_norm(graph, node, node->input[1]);
        return cuda_group_norm_scratch(&norm);
    case OP_CHANNEL_BIAS_BACKWARD:
        channels = describe_channels(graph, node->input[0]);
        return cuda_broadcast_scratch(&channels);
    default:
        return 0;
    }
}
