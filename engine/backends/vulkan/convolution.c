/* convolution.c: convolutions of images and their gradients by the data: products on tiles, whose
 * operand is never unfolded in memory, or sums by the definition where a group has few channels. */
#include "engine/backends/vulkan/convolution_tiles.h"
#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/operators.h"

#include <stdio.h>

enum {
    DIRECT_SUM_CHANNELS = 64, /* of which an invocation adds up so many at most */
    GRID_MAX = 65535          /* workgroups along an axis, on every device */
};

struct pass {
    struct convolution conv;
    bool backward;
    VkDeviceAddress source, weight, bias, target;
    /* places for the weights and the source as cooperative matrices read them */
    VkDeviceAddress packed, last;
    uint32_t activation; /* of the result: 1 + enum activation_kind; 0: none */
};

struct pass_push {
    VkDeviceAddress source, weight, bias, target;
    struct convolution conv;
};

static int record_direct(struct recorder *recorder, const struct pass *pass, struct error *error)
{
    const struct convolution *conv = &pass->conv;
    const struct pass_push push = {pass->source, pass->weight, pass->bias, pass->target, *conv};
    const uint32_t *extent = pass->backward ? conv->from : conv->to;
    const int64_t count = (int64_t)conv->samples * conv->groups *
                          (pass->backward ? conv->from_channels : conv->to_channels) * extent[0] *
                          extent[1];
    const struct launch launch = {
        .shader = SHADER_convolution_direct,
        .constants = {CONVOLUTION_WORKGROUP, pass->backward, pass->bias != 0, pass->activation},
        .constant_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 4,
        .groups = {record_groups(count, CONVOLUTION_WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

/* The weights of a group by taps, in 16 bits: those of one tap lie side by side. */
size_t convolution_workspace(const struct graph *graph, const struct graph_node *node)
{
    const int64_t weights = graph_shape_elements(&graph->tensors[node->input[1]].shape);

    return graph->compute_type == TENSOR_FLOAT32 ? 0 : (size_t)weights * sizeof(uint16_t);
}

static int pack_weights(struct recorder *recorder, const struct pass *pass, struct error *error)
{
    const struct convolution *conv = &pass->conv;
    const int64_t rows = (int64_t)conv->to_channels * conv->from_channels;
    const int64_t taps = (int64_t)conv->kernel[0] * conv->kernel[1];

    return taps == 1 ? record_copy(recorder, pass->weight, pass->packed, conv->groups * rows, error)
                     : record_transpose(recorder, pass->weight, pass->packed, conv->groups, rows,
                                        taps, error);
}

/* A pass as products [m, k] [k, n], and the tiles that these can have. */
struct tiled_pass {
    const struct pass *pass;
    int64_t m, n, k, products;
    const struct vulkan_matrices *matrices;
    struct tile tiles[WAYS_MAX];
};

static int record_by_tile(struct recorder *recorder, const void *work, int way, struct error *error)
{
    const struct tiled_pass *tiled = work;
    const struct pass *pass = tiled->pass;
    const struct tile *tile = &tiled->tiles[way];
    const struct pass_push push = {tile->last ? pass->last : pass->source,
                                   tiled->matrices ? pass->packed : pass->weight, pass->bias,
                                   pass->target, pass->conv};
    struct launch launch = {
        .shader = SHADER_convolution,
        .matrices = tiled->matrices,
        .constants = {CONVOLUTION_WORKGROUP, tile->m, tile->n, tile->k, pass->backward,
                      pass->bias != 0, tile->last, pass->activation},
        .constant_count = 8,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 4,
        .groups = {record_groups(tiled->n, tile->n), divide_up(tiled->m, tile->m),
                   at_most(tiled->products, GRID_MAX)}};

    int r = 0;

    if (tile->last)
        r = convolution_record_last(recorder, &pass->conv, !pass->backward, pass->source,
                                    pass->last, error);
    if (tiled->matrices) {
        launch.constants[0] = matrices_divide(tiled->matrices, tile->m, tile->n, launch.waves);
        record_barrier(recorder); /* behind the packing */
    }
    return r < 0 ? r : record_launch(recorder, &launch, error);
}

/* What decides how fast a tile of cooperative matrices is. */
static void write_key(const struct recorder *recorder, const void *work, char key[CHOICES_KEY_MAX])
{
    const struct tiled_pass *tiled = work;
    const struct convolution *conv = &tiled->pass->conv;

    snprintf(key, CHOICES_KEY_MAX, "conv%s,%lldx%lldx%lldx%lld,%ux%u,%u.%u,%u.%u,%s%s",
             tiled->pass->backward ? "-backward" : "", (long long)tiled->m, (long long)tiled->n,
             (long long)tiled->k, (long long)tiled->products, conv->kernel[0], conv->kernel[1],
             conv->stride[0], conv->stride[1], conv->dilation[0], conv->dilation[1],
             tensor_type_to_string(recorder->program->graph->compute_type),
             convolution_has_eights(conv) ? ",eights" : "");
}

/* Lists tiles of cooperative matrices, those of a source as it is first. */
static int list_pass_tiles(struct tiled_pass *tiled)
{
    const struct vulkan_matrices *matrices = tiled->matrices;
    struct tile first = convolution_matrix_tile(matrices, tiled->m, tiled->n, tiled->k);
    int count = convolution_list_tiles(matrices, tiled->m, tiled->n, first, tiled->tiles);

    first.last = convolution_has_eights(&tiled->pass->conv) && matrices_take_eights(matrices) &&
                 tiled->pass->source & ADDRESS_OF_HALVES;
    if (first.last)
        count += convolution_list_tiles(matrices, tiled->m, tiled->n, first, tiled->tiles + count);
    return count;
}

static int record_tiles(struct recorder *recorder, const struct pass *pass, struct error *error)
{
    const struct convolution *conv = &pass->conv;
    const uint32_t *extent = pass->backward ? conv->from : conv->to;
    const uint32_t *spacing = pass->backward ? conv->stride : (uint32_t[]){1, 1};
    struct tiled_pass tiled = {.pass = pass,
                               .m = pass->backward ? conv->from_channels : conv->to_channels,
                               .n = conv->samples * divide_up(extent[0], spacing[0]) *
                                    divide_up(extent[1], spacing[1]),
                               .k = pass->backward ? conv->to_channels : conv->from_channels,
                               .products = (int64_t)conv->groups * spacing[0] * spacing[1],
                               .matrices = matrices_of(recorder, pass->source, pass->weight)};
    struct ways ways = {
        .work = &tiled, .record = record_by_tile, .write_key = write_key, .count = 1};
    int r = 0;

    if (tiled.matrices) {
        ways.count = list_pass_tiles(&tiled);
        r = pack_weights(recorder, pass, error);
    } else {
        tiled.tiles[0] = convolution_tile(tiled.m, tiled.n, tiled.products);
        if (tiled.k <= CONVOLUTION_SIDE)
            tiled.tiles[0].k = tiled.k <= 4 ? 4 : tiled.k <= 8 ? 8 : CONVOLUTION_SIDE;
    }
    convolution_name_tiles(&ways, tiled.tiles);
    return r < 0 ? r : record_fastest(recorder, &ways, error);
}

static int record_pass(struct recorder *recorder, const struct pass *pass, struct error *error)
{
    const struct convolution *conv = &pass->conv;
    const uint32_t m = pass->backward ? conv->from_channels : conv->to_channels;
    const uint32_t k = pass->backward ? conv->to_channels : conv->from_channels;

    return m <= CONVOLUTION_DIRECT_CHANNELS && k <= DIRECT_SUM_CHANNELS
               ? record_direct(recorder, pass, error)
               : record_tiles(recorder, pass, error);
}

int convolution_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct pass pass = {
        .conv = convolution_of(program->graph, node, node->input[0], node->output[0]),
        .source = program_address(program, node->input[0]),
        .weight = program_address(program, node->input[1]),
        .bias = program_address(program, node->input[2]),
        .target = program_address(program, node->output[0]),
        .packed = program->workspace[index] | ADDRESS_OF_HALVES,
        .last = convolution_last_place(program, index),
        .activation = program->fusions[index].activation};

    return record_pass(recorder, &pass, error);
}

int convolution_backward_data_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct pass pass = {
        .conv = convolution_of(program->graph, node, node->output[0], node->input[0]),
        .backward = true,
        .source = program_address(program, node->input[0]),
        .weight = program_address(program, node->input[1]),
        .target = program_address(program, node->output[0]),
        .packed = program->workspace[index] | ADDRESS_OF_HALVES,
        .last = convolution_last_place(program, index)};

    return record_pass(recorder, &pass, error);
}
