/* batch_norm.c: batch normalisation and its gradient. A first pass leaves the moments, or sums, of
 * parts of each channel; each workgroup of the second joins those of its channel. */
#include "engine/backends/vulkan/channels.h"
#include "engine/backends/vulkan/operators.h"

/* As batch_norm.comp has it. */
struct norm_push {
    VkDeviceAddress x, weight, bias, mean, variance, y, batch_mean, batch_inverse_std, moments,
        addend;
    struct channels_push shape;
    uint32_t moments_part;
    float epsilon, momentum;
    uint32_t unused;
};

/* Of each channel and part two numbers; none where the moments are known. */
size_t batch_norm_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct channels channels = channels_of(graph, node->input[0]);

    return node->op == OP_BATCH_NORM_BACKWARD ||
                   (node->op == OP_BATCH_NORM && node->attributes.batch_norm.training)
               ? 2 * channel_sums_workspace(&channels)
               : 0;
}

static int record_norm(struct recorder *recorder, const struct channels *channels, uint32_t moments,
                       uint32_t activation, struct norm_push *push, struct error *error)
{
    const struct channels divided = channels_divide(*channels);
    const struct launch launch = {
        .shader = SHADER_batch_norm,
        .constants = {CHANNELS_WORKGROUP, channels->across, moments, activation, push->addend != 0},
        .constant_count = 5,
        .push = push,
        .push_bytes = sizeof *push,
        .addresses = 10,
        .groups = {channels_groups(&divided), divided.parts}};

    push->shape = channels_push(&divided);
    push->moments_part = (uint32_t)channels->part;
    return record_launch(recorder, &launch, error);
}

/* OP_BATCH_NORM and OP_BATCH_NORM_APPLY. */
int batch_norm_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct channels channels = channels_of(program->graph, node->input[0]);
    const struct vulkan_fusion *fusion = &program->fusions[index];
    const bool learns = node->op == OP_BATCH_NORM && node->attributes.batch_norm.training;
    struct norm_push push = {.x = program_address(program, node->input[0]),
                             .weight = program_address(program, node->input[1]),
                             .bias = program_address(program, node->input[2]),
                             .mean = program_address(program, node->input[3]),
                             .variance = program_address(program, node->input[4]),
                             .y = program_address(program, node->output[0]),
                             .batch_mean = learns ? program_address(program, node->output[1]) : 0,
                             .batch_inverse_std =
                                 learns ? program_address(program, node->output[2]) : 0,
                             .moments = program->workspace[index],
                             .addend = program_address(program, fusion->addend),
                             .epsilon = node->attributes.batch_norm.epsilon,
                             .momentum = node->attributes.batch_norm.momentum};
    int r = learns ? record_channel_moments(recorder, &channels, push.x, push.moments, error) : 0;

    if (r < 0)
        return r;
    if (learns)
        record_barrier(recorder);
    return record_norm(recorder, &channels,
                       learns                            ? BATCH_NORM_JOINED
                       : node->op == OP_BATCH_NORM_APPLY ? BATCH_NORM_KNOWN
                                                         : BATCH_NORM_RUNNING,
                       fusion->activation, &push, error);
}

int batch_norm_frozen_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct channels channels = channels_of(program->graph, node->input[0]);
    struct norm_push push = {.x = program_address(program, node->input[0]),
                             .weight = program_address(program, node->input[1]),
                             .variance = program_address(program, node->input[2]),
                             .y = program_address(program, node->output[0]),
                             .epsilon = node->attributes.batch_norm.epsilon};

    return record_norm(recorder, &channels, BATCH_NORM_FROZEN, 0, &push, error);
}

/* The gradient that a batch norm's own is computed from. */
static struct products describe_products(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct vulkan_fusion *fusion = &program->fusions[index];
    struct products products = {.x = program_address(program, node->input[0]),
                                .dy = program_address(program, node->input[1]),
                                .mean = program_address(program, node->input[3]),
                                .of_mean = 1,
                                .weight = program_address(program, node->input[2]),
                                .inverse_std = program_address(program, node->input[4])};

    if (fusion->incoming[0] < 0)
        return products;
    products.dy = program_address(program, fusion->incoming[0]);
    products.second = program_address(program, fusion->incoming[1]);
    products.bias = program_address(program, fusion->bias);
    products.result = program_address(program, fusion->result);
    products.stored = products.result ? program_address(program, node->input[1]) : 0;
    products.activation = fusion->activation;
    return products;
}

/* The second pass reads what the first has stored, if it has. */
static void read_stored(struct products *products)
{
    if (!products->stored)
        return;
    products->dy = products->stored;
    products->second = products->result = 0;
}

int batch_norm_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct channels channels = channels_of(program->graph, node->input[0]);
    const struct channels divided = channels_divide(channels);
    const VkDeviceAddress sums = program->workspace[index];
    struct products products = describe_products(program, index);
    int r = record_channel_products(recorder, &channels, &products, sums, error);

    read_stored(&products);
    const struct {
        VkDeviceAddress x, dy, weight, mean, inverse_std, dx, dweight, dbias, sums, second, bias;
        struct channels_push shape;
        uint32_t parts, unused;
    } push = {.x = products.x,
              .dy = products.dy,
              .weight = products.weight,
              .mean = products.mean,
              .inverse_std = products.inverse_std,
              .dx = program_address(program, node->output[0]),
              .dweight = program_address(program, node->output[1]),
              .dbias = program_address(program, node->output[2]),
              .sums = sums,
              .second = products.second,
              .bias = products.bias,
              .shape = channels_push(&divided),
              .parts = (uint32_t)channels.parts};
    const struct launch launch = {
        .shader = SHADER_batch_norm_backward,
        .constants = {CHANNELS_WORKGROUP, channels.across,
                      (push.dweight != 0) | (push.dbias != 0) << 1,
                      (uint32_t)record_accumulates(recorder, node, 1) |
                          (uint32_t)record_accumulates(recorder, node, 2) << 1,
                      products_behind(&products), products.activation},
        .constant_count = 6,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 11,
        .groups = {channels_groups(&divided), divided.parts}};

    if (r < 0)
        return r;
    record_barrier(recorder);
    return record_launch(recorder, &launch, error);
}
