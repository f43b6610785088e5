/* convolution_weights.c: the gradients of convolutions by their weights: products on tiles, or sums
 * by the definition where groups have few channels. */
#include "engine/backends/vulkan/channels.h"
#include "engine/backends/vulkan/convolution_tiles.h"
#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/sums.h"

#include <stdio.h>

enum {
    PARTS_MAX = 256, /* of the sum over a batch */
    PART_PIXELS_MIN = 256,
    WORKGROUPS_WANTED = 1024 /* more than the largest GPUs run at once */
};

/* The sum over the pixels of a batch, divided into parts: few weights keep a GPU busy, too. */
struct weights_plan {
    bool direct;
    struct tile tile;
    int64_t weights;     /* how many */
    int64_t part, parts; /* pixels of a part, and how many there are */
};

static struct weights_plan plan_weights(const struct convolution *conv)
{
    const int64_t row = (int64_t)conv->from_channels * conv->kernel[0] * conv->kernel[1];
    const int64_t pixels = (int64_t)conv->samples * conv->to[0] * conv->to[1];
    struct weights_plan plan = {.direct = conv->to_channels <= CONVOLUTION_DIRECT_CHANNELS &&
                                          conv->from_channels <= CONVOLUTION_DIRECT_CHANNELS,
                                .tile = convolution_tile(conv->to_channels, row, INT32_MAX),
                                .weights = conv->groups * conv->to_channels * row};
    const int64_t workgroups = plan.direct
                                   ? plan.weights
                                   : conv->groups * divide_up(conv->to_channels, plan.tile.m) *
                                         divide_up(row, plan.tile.n);
    int64_t parts =
        at_most(WORKGROUPS_WANTED / workgroups, at_most(pixels / PART_PIXELS_MIN, PARTS_MAX));

    if (parts < 1)
        parts = 1;
    plan.part = divide_up(divide_up(pixels, parts), plan.tile.k) * plan.tile.k;
    plan.parts = divide_up(pixels, plan.part);
    return plan;
}

/* The parts of the weights' gradient, then those of the bias'. */
size_t convolution_backward_weights_workspace(const struct graph *graph,
                                              const struct graph_node *node)
{
    const struct convolution conv = convolution_of(graph, node, node->input[0], node->input[1]);
    const struct weights_plan plan = plan_weights(&conv);
    const struct channels channels = channels_of(graph, node->input[1]);
    const bool has_bias = node->output_count > 1 && node->output[1] >= 0;

    return (plan.parts > 1 ? (size_t)(plan.parts * plan.weights) * sizeof(float) : 0) +
           (has_bias ? channel_sums_workspace(&channels) : 0);
}

/* The gradient by the weights, and the tiles that its products can have. */
struct tiled_weights {
    const struct convolution *conv;
    const struct weights_plan *plan;
    VkDeviceAddress x, dy, target;
    VkDeviceAddress last_x, last_dy; /* places for them with their channels last */
    bool accumulate;
    const struct vulkan_matrices *matrices;
    struct tile tiles[WAYS_MAX];
};

struct weights_push {
    VkDeviceAddress x, dy, target;
    struct convolution conv;
    uint32_t part, parts;
};

static int record_weights_by_tile(struct recorder *recorder, const void *work, int way,
                                  struct error *error)
{
    const struct tiled_weights *tiled = work;
    const struct convolution *conv = tiled->conv;
    const struct tile *tile = &tiled->tiles[way];
    const struct weights_push push = {tile->last ? tiled->last_x : tiled->x,
                                      tile->last ? tiled->last_dy : tiled->dy,
                                      tiled->target,
                                      *conv,
                                      (uint32_t)tiled->plan->part,
                                      (uint32_t)tiled->plan->parts};
    const int64_t row = (int64_t)conv->from_channels * conv->kernel[0] * conv->kernel[1];
    struct launch launch = {.shader = SHADER_convolution_weights,
                            .matrices = tiled->matrices,
                            .constants = {CONVOLUTION_WORKGROUP, tile->m, tile->n, tile->k,
                                          tiled->accumulate, tile->last},
                            .constant_count = 6,
                            .push = &push,
                            .push_bytes = sizeof push,
                            .addresses = 3,
                            .groups = {divide_up(row, tile->n),
                                       divide_up(conv->to_channels, tile->m),
                                       conv->groups * tiled->plan->parts}};
    int r = 0;

    if (tiled->matrices)
        launch.constants[0] = matrices_divide(tiled->matrices, tile->m, tile->n, launch.waves);
    if (tile->last) {
        r = convolution_record_last(recorder, conv, true, tiled->x, tiled->last_x, error);
        if (r == 0)
            r = convolution_record_last(recorder, conv, false, tiled->dy, tiled->last_dy, error);
        record_barrier(recorder);
    }
    return r < 0 ? r : record_launch(recorder, &launch, error);
}

static void write_weights_key(const struct recorder *recorder, const void *work,
                              char key[CHOICES_KEY_MAX])
{
    const struct tiled_weights *tiled = work;
    const struct convolution *conv = tiled->conv;

    snprintf(key, CHOICES_KEY_MAX, "conv-weights,%ux%ux%ux%u,%ux%u,%ux%u,%u.%u,%u.%u,%s",
             conv->samples, conv->groups, conv->from_channels, conv->to_channels, conv->to[0],
             conv->to[1], conv->kernel[0], conv->kernel[1], conv->stride[0], conv->stride[1],
             conv->dilation[0], conv->dilation[1],
             tensor_type_to_string(recorder->program->graph->compute_type));
}

static int record_weights_direct(struct recorder *recorder, const struct tiled_weights *tiled,
                                 struct error *error)
{
    const struct weights_plan *plan = tiled->plan;
    const struct weights_push push = {tiled->x,
                                      tiled->dy,
                                      tiled->target,
                                      *tiled->conv,
                                      (uint32_t)plan->part,
                                      (uint32_t)plan->parts};
    const struct launch launch = {.shader = SHADER_convolution_weights_direct,
                                  .constants = {CONVOLUTION_WORKGROUP, tiled->accumulate},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(plan->weights * plan->parts, 1)}};

    return record_launch(recorder, &launch, error);
}

static int record_weights(struct recorder *recorder, struct tiled_weights *tiled,
                          struct error *error)
{
    const struct convolution *conv = tiled->conv;
    const int64_t row = (int64_t)conv->from_channels * conv->kernel[0] * conv->kernel[1];
    struct ways ways = {.work = tiled,
                        .record = record_weights_by_tile,
                        .write_key = write_weights_key,
                        .count = 1};

    if (tiled->plan->direct)
        return record_weights_direct(recorder, tiled, error);
    tiled->matrices = matrices_of(recorder, tiled->x, tiled->dy);
    tiled->tiles[0] = tiled->plan->tile;
    if (tiled->matrices) {
        struct tile first =
            convolution_matrix_tile(tiled->matrices, conv->to_channels, row, INT32_MAX);

        tiled->tiles[0] = first;
        first.last = convolution_has_eights(conv) && matrices_take_eights(tiled->matrices) &&
                     tiled->x & tiled->dy & ADDRESS_OF_HALVES;
        if (first.last)
            ways.count += convolution_list_tiles(tiled->matrices, conv->to_channels, row, first,
                                                 tiled->tiles + 1);
    }
    convolution_name_tiles(&ways, tiled->tiles);
    return record_fastest(recorder, &ways, error);
}

int convolution_backward_weights_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct convolution conv =
        convolution_of(program->graph, node, node->input[0], node->input[1]);
    const struct weights_plan plan = plan_weights(&conv);
    const struct channels channels = channels_of(program->graph, node->input[1]);
    const VkDeviceAddress dy = program_address(program, node->input[1]);
    const VkDeviceAddress dweight = program_address(program, node->output[0]);
    const bool adds = record_accumulates(recorder, node, 0), divided = plan.parts > 1;
    VkDeviceAddress workspace = program->workspace[index];
    struct tiled_weights tiled = {.conv = &conv,
                                  .plan = &plan,
                                  .x = program_address(program, node->input[0]),
                                  .dy = dy,
                                  .target = divided ? workspace : dweight,
                                  .last_x = convolution_last_place(program, index),
                                  .accumulate = adds && !divided};
    int r;

    tiled.last_dy = tiled.last_x +
                    convolution_align_last(convolution_last_bytes(program->graph, node->input[0]));
    r = record_weights(recorder, &tiled, error);

    if (r == 0 && divided) {
        record_barrier(recorder);
        r = record_sum_parts(recorder, workspace, plan.parts, plan.weights, dweight, adds, error);
        workspace += (VkDeviceAddress)(plan.parts * plan.weights) * sizeof(float);
    }
    if (r == 0 && node->output_count > 1 && node->output[1] >= 0)
        r = record_channel_sums(recorder, &channels, dy, workspace,
                                program_address(program, node->output[1]),
                                record_accumulates(recorder, node, 1), error);
    return r;
}
