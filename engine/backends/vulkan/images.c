/* images.c: a factor or an addend for each channel of images, and images of another height and
 * width; and their gradients. */
#include "engine/backends/vulkan/channels.h"
#include "engine/backends/vulkan/operators.h"

/* shaders/resize.glsl has these numbers */
_Static_assert(RESIZE_NEAREST == 0 && RESIZE_BILINEAR == 1 && RESIZE_BILINEAR_CORNERS == 2,
               "as in resize.glsl");

enum { WORKGROUP = 256, ROW_WORKGROUP = 64 };

/* OP_CHANNEL_SCALE and OP_CHANNEL_BIAS. */
int channel_pointwise_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct channels channels = channels_of(program->graph, node->output[0]);
    const int64_t count = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress x, numbers, y;
        uint32_t count, pixels, channels, unused;
    } push = {.x = program_address(program, node->input[0]),
              .numbers = program_address(program, node->input[1]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .pixels = (uint32_t)channels.pixels,
              .channels = (uint32_t)channels.channels};
    const struct launch launch = {.shader = SHADER_channel_pointwise,
                                  .constants = {WORKGROUP, node->op == OP_CHANNEL_BIAS},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

int channel_scale_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct channels channels = channels_of(program->graph, node->input[0]);
    const int64_t rows = channels.samples * channels.channels;
    const struct {
        VkDeviceAddress dy, x, scale, dx, dscale;
        uint32_t rows, pixels;
    } push = {.dy = program_address(program, node->input[0]),
              .x = program_address(program, node->input[1]),
              .scale = program_address(program, node->input[2]),
              .dx = program_address(program, node->output[0]),
              .dscale = program_address(program, node->output[1]),
              .rows = (uint32_t)rows,
              .pixels = (uint32_t)channels.pixels};
    const struct launch launch = {.shader = SHADER_channel_scale_backward,
                                  .constants = {ROW_WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 5,
                                  .groups = {record_groups(rows, 1)}};

    return record_launch(recorder, &launch, error);
}

size_t channel_bias_backward_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct channels channels = channels_of(graph, node->input[0]);

    return channel_sums_workspace(&channels);
}

int channel_bias_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct channels channels = channels_of(program->graph, node->input[0]);

    return record_channel_sums(recorder, &channels, program_address(program, node->input[0]),
                               program->workspace[index], program_address(program, node->output[0]),
                               record_accumulates(recorder, node, 0), error);
}

/* OP_RESIZE2D and its gradient. */
int resize_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool backward = node->op == OP_RESIZE2D_BACKWARD;
    const int32_t x = backward ? node->output[0] : node->input[0];
    const int32_t y = backward ? node->input[0] : node->output[0];
    const int64_t *from = program->graph->tensors[x].shape.extent;
    const int64_t *to = program->graph->tensors[y].shape.extent;
    const struct {
        VkDeviceAddress source, target;
        uint32_t images, from[2], to[2];
        float step[2];
        uint32_t unused;
    } push = {.source = program_address(program, node->input[0]),
              .target = program_address(program, node->output[0]),
              .images = (uint32_t)(from[0] * from[1]),
              .from = {(uint32_t)from[2], (uint32_t)from[3]},
              .to = {(uint32_t)to[2], (uint32_t)to[3]},
              .step = {node->attributes.resize.step[0], node->attributes.resize.step[1]}};
    const struct launch launch = {
        .shader = backward ? SHADER_resize_backward : SHADER_resize,
        .constants = {WORKGROUP, node->attributes.resize.mode},
        .constant_count = 2,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 2,
        .groups = {record_groups(program_elements(program, node->output[0]), WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}
