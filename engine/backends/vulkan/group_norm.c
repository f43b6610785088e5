/* group_norm.c: normalisation of groups of channels of each sample, and its gradient. The numbers
 * of a group lie side by side, and so do those of each of its channels: both are rows. */
#include "engine/backends/vulkan/channels.h"
#include "engine/backends/vulkan/operators.h"

/* The groups of all samples, and their channels. */
struct groups {
    int64_t samples, channels, pixels, of_group; /* channels of a sample, of a group */
    struct channels groups, rows;                /* a row: a channel of a sample */
};

static struct groups groups_of(const struct graph *graph, const struct graph_node *node)
{
    const struct channels channels = channels_of(graph, node->output[0]);
    const int64_t of_group = channels.channels / node->attributes.group_norm.groups;
    const int64_t count = channels.samples * node->attributes.group_norm.groups;

    return (struct groups){
        .samples = channels.samples,
        .channels = channels.channels,
        .pixels = channels.pixels,
        .of_group = of_group,
        .groups = channels_of_rows(count, of_group * channels.pixels),
        .rows = channels_of_rows(channels.samples * channels.channels, channels.pixels)};
}

/* Of each part the moments of a group; of the gradient the sums of a row. */
size_t group_norm_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct groups groups = groups_of(graph, node);

    return 2 * channel_sums_workspace(node->op == OP_GROUP_NORM ? &groups.groups : &groups.rows);
}

int group_norm_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct groups groups = groups_of(program->graph, node);
    const struct channels divided = channels_divide(groups.groups);
    const bool keeps = node->output_count > 1;
    const struct {
        VkDeviceAddress x, weight, bias, y, mean, inverse_std, moments;
        struct channels_push shape;
        uint32_t moments_part, channels, pixels;
        float epsilon;
    } push = {.x = program_address(program, node->input[0]),
              .weight = program_address(program, node->input[1]),
              .bias = program_address(program, node->input[2]),
              .y = program_address(program, node->output[0]),
              .mean = keeps ? program_address(program, node->output[1]) : 0,
              .inverse_std = keeps ? program_address(program, node->output[2]) : 0,
              .moments = program->workspace[index],
              .shape = channels_push(&divided),
              .moments_part = (uint32_t)groups.groups.part,
              .channels = (uint32_t)groups.channels,
              .pixels = (uint32_t)groups.pixels,
              .epsilon = node->attributes.group_norm.epsilon};
    const struct launch launch = {.shader = SHADER_group_norm,
                                  .constants = {CHANNELS_WORKGROUP, divided.across, keeps},
                                  .constant_count = 3,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 7,
                                  .groups = {channels_groups(&divided), divided.parts}};
    int r = record_channel_moments(recorder, &groups.groups, push.x, push.moments, error);

    if (r < 0)
        return r;
    record_barrier(recorder);
    return record_launch(recorder, &launch, error);
}

enum { DY, X, WEIGHT, MEAN, INVERSE_STD };

static int record_data(struct recorder *recorder, int32_t index, const struct groups *groups,
                       struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct channels divided = channels_divide(groups->groups);
    const struct {
        VkDeviceAddress dy, x, weight, mean, inverse_std, dx, sums;
        struct channels_push shape;
        uint32_t channels, pixels, parts, of_group;
    } push = {.dy = program_address(program, node->input[DY]),
              .x = program_address(program, node->input[X]),
              .weight = program_address(program, node->input[WEIGHT]),
              .mean = program_address(program, node->input[MEAN]),
              .inverse_std = program_address(program, node->input[INVERSE_STD]),
              .dx = program_address(program, node->output[0]),
              .sums = program->workspace[index],
              .shape = channels_push(&divided),
              .channels = (uint32_t)groups->channels,
              .pixels = (uint32_t)groups->pixels,
              .parts = (uint32_t)groups->rows.parts,
              .of_group = (uint32_t)groups->of_group};
    const struct launch launch = {.shader = SHADER_group_norm_backward,
                                  .constants = {CHANNELS_WORKGROUP, divided.across},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 7,
                                  .groups = {channels_groups(&divided), divided.parts}};

    return record_launch(recorder, &launch, error);
}

static int record_parameters(struct recorder *recorder, int32_t index, const struct groups *groups,
                             struct error *error)
{
    enum { ACROSS = 16 };
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct {
        VkDeviceAddress inverse_std, sums, dweight, dbias;
        uint32_t samples, channels, parts, of_group;
    } push = {.inverse_std = program_address(program, node->input[INVERSE_STD]),
              .sums = program->workspace[index],
              .dweight = program_address(program, node->output[1]),
              .dbias = program_address(program, node->output[2]),
              .samples = (uint32_t)groups->samples,
              .channels = (uint32_t)groups->channels,
              .parts = (uint32_t)groups->rows.parts,
              .of_group = (uint32_t)groups->of_group};
    const struct launch launch = {
        .shader = SHADER_group_norm_parameters,
        .constants = {CHANNELS_WORKGROUP, ACROSS, (push.dweight != 0) | (push.dbias != 0) << 1,
                      (uint32_t)record_accumulates(recorder, node, 1) |
                          (uint32_t)record_accumulates(recorder, node, 2) << 1},
        .constant_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {record_groups(groups->channels, ACROSS)}};

    return record_launch(recorder, &launch, error);
}

int group_norm_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct groups groups = groups_of(program->graph, node);
    const struct products products = {.dy = program_address(program, node->input[DY]),
                                      .x = program_address(program, node->input[X]),
                                      .mean = program_address(program, node->input[MEAN]),
                                      .of_mean = (uint32_t)groups.of_group};
    int r = record_channel_products(recorder, &groups.rows, &products, program->workspace[index],
                                    error);

    if (r < 0)
        return r;
    record_barrier(recorder);
    r = record_data(recorder, index, &groups, error);
    return r < 0 ? r : record_parameters(recorder, index, &groups, error);
}
