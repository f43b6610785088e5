/* convolution.c: convolutions of images and their gradients: products on tiles, whose operand is
 * never unfolded in memory, or sums by the definition where a group has few channels. */
#include "engine/backends/vulkan/channels.h"
#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/ways.h"

#include <stdio.h>

enum {
    SIDE = 16, /* invocations along each axis of a tile: tiles.glsl */
    WORKGROUP = SIDE * SIDE,
    TILE_MAX = 4 * SIDE,      /* side of a square tile */
    DEEP_SIDES_MAX = 96,      /* sides of a tile, added up, whose pieces fit twice as deep */
    MATRICES_DEPTH = 32,      /* of its pieces, if the sum is that long */
    TILES_WANTED = 128,       /* as many keep a large GPU busy */
    DIRECT_CHANNELS = 4,      /* at most so many channels of a group are done by the definition */
    DIRECT_SUM_CHANNELS = 64, /* of which an invocation adds up so many at most */
    PARTS_MAX = 256,          /* of the sum over a batch */
    PART_PIXELS_MIN = 256,
    WORKGROUPS_WANTED = 1024, /* more than the largest GPUs run at once */
    GRID_MAX = 65535          /* workgroups along an axis, on every device */
};

/* As the shaders have it: convolution.glsl. */
struct convolution {
    uint32_t samples, groups, from_channels, to_channels;
    uint32_t from[2], to[2], kernel[2], stride[2], padding[2], dilation[2];
};

/* The convolution from x to y, or from dx to dy. */
static struct convolution convolution_of(const struct graph *graph, const struct graph_node *node,
                                         int32_t x, int32_t y)
{
    const struct conv_attributes *attributes = &node->attributes.conv;
    const int64_t *from = graph->tensors[x].shape.extent, *to = graph->tensors[y].shape.extent;
    struct convolution conv = {.samples = (uint32_t)from[0],
                               .groups = (uint32_t)attributes->groups,
                               .from_channels = (uint32_t)(from[1] / attributes->groups),
                               .to_channels = (uint32_t)(to[1] / attributes->groups)};

    for (int axis = 0; axis < 2; axis++) {
        conv.from[axis] = (uint32_t)from[2 + axis];
        conv.to[axis] = (uint32_t)to[2 + axis];
        conv.kernel[axis] = (uint32_t)attributes->kernel[axis];
        conv.stride[axis] = (uint32_t)attributes->stride[axis];
        conv.padding[axis] = (uint32_t)attributes->padding[axis];
        conv.dilation[axis] = (uint32_t)attributes->dilation[axis];
    }
    return conv;
}

static int64_t divide_up(int64_t number, int64_t divisor)
{
    return (number + divisor - 1) / divisor;
}

static int64_t at_most(int64_t number, int64_t most)
{
    return number > most ? most : number;
}

/* The side of a tile along an extent, at most `most`. Large tiles read each number less often, but
 * what lies outside of the extent is computed, too. */
static uint32_t tile_extent(int64_t extent, uint32_t most)
{
    uint32_t best = SIDE;
    int64_t least = INT64_MAX;

    for (uint32_t tile = SIDE; tile <= most; tile *= 2) {
        const int64_t cost = divide_up(extent, tile) * (tile + SIDE);

        if (cost <= least) {
            least = cost;
            best = tile;
        }
    }
    return best;
}

struct tile {
    uint32_t m, n, k;
};

/* The tile for a product [m, n] of which there are `products`. Narrow tiles are longer, so that an
 * invocation has several sums; few tiles are made smaller, so that they keep a GPU busy. */
static struct tile choose_tile(int64_t m, int64_t n, int64_t products)
{
    struct tile tile = {.m = tile_extent(m, TILE_MAX)};

    tile.n = tile_extent(n, tile.m < TILE_MAX ? 2 * TILE_MAX : TILE_MAX);
    while (tile.n > TILE_MAX / 2 &&
           products * divide_up(m, tile.m) * divide_up(n, tile.n) < TILES_WANTED)
        tile.n /= 2;
    tile.k = tile.m + tile.n <= DEEP_SIDES_MAX ? 2 * SIDE : SIDE;
    return tile;
}

/* The same for cooperative matrices: what their tile is where no other one is known to be faster.
 * An invocation loads pixels of one column alone, so a tile has at most as many columns as there
 * are invocations. */
static struct tile choose_matrix_tile(const struct vulkan_matrices *matrices, int64_t m, int64_t n,
                                      int64_t k)
{
    return (struct tile){
        .m = tile_extent(m, TILE_MAX),
        .n = tile_extent(n, (uint32_t)at_most(matrices_columns_max(matrices), TILE_MAX)),
        .k = k <= SIDE ? SIDE : MATRICES_DEPTH};
}

/* Lists tiles that may be faster behind the first: sides of it and, where they are not larger than
 * the product, twice as long. Returns how many there are. */
static int list_matrix_tiles(const struct vulkan_matrices *matrices, int64_t m, int64_t n,
                             struct tile tiles[WAYS_MAX])
{
    const struct tile first = tiles[0];
    int count = 1;

    for (uint32_t rows = 1; rows <= 2; rows++)
        for (uint32_t columns = rows == 1 ? 2 : 1; columns <= 2; columns++)
            if (rows * first.m < m + first.m && columns * first.n < n + first.n &&
                columns * first.n <= matrices_columns_max(matrices))
                tiles[count++] = (struct tile){rows * first.m, columns * first.n, first.k};
    return count;
}

/* ---- the convolution, and its gradient by the data ---- */

struct pass {
    struct convolution conv;
    bool backward;
    VkDeviceAddress source, weight, bias, target;
    VkDeviceAddress packed; /* a place for the weights as cooperative matrices read them */
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
    const struct launch launch = {.shader = SHADER_convolution_direct,
                                  .constants = {WORKGROUP, pass->backward, pass->bias != 0},
                                  .constant_count = 3,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 4,
                                  .groups = {record_groups(count, WORKGROUP)}};

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
    int r = taps == 1
                ? record_copy(recorder, pass->weight, pass->packed, conv->groups * rows, error)
                : record_transpose(recorder, pass->weight, pass->packed, conv->groups, rows, taps,
                                   error);

    record_barrier(recorder);
    return r;
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
    const struct pass_push push = {pass->source, tiled->matrices ? pass->packed : pass->weight,
                                   pass->bias, pass->target, pass->conv};
    struct launch launch = {
        .shader = SHADER_convolution,
        .matrices = tiled->matrices,
        .constants = {WORKGROUP, tile->m, tile->n, tile->k, pass->backward, pass->bias != 0},
        .constant_count = 6,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 4,
        .groups = {record_groups(tiled->n, tile->n), divide_up(tiled->m, tile->m),
                   at_most(tiled->products, GRID_MAX)}};

    if (tiled->matrices)
        launch.constants[0] = matrices_divide(tiled->matrices, tile->m, tile->n, launch.waves);
    return record_launch(recorder, &launch, error);
}

/* What decides how fast a tile of cooperative matrices is. */
static void write_key(const struct recorder *recorder, const void *work, char key[CHOICES_KEY_MAX])
{
    const struct tiled_pass *tiled = work;
    const struct convolution *conv = &tiled->pass->conv;

    snprintf(key, CHOICES_KEY_MAX, "conv%s,%lldx%lldx%lldx%lld,%ux%u,%u.%u,%u.%u,%s",
             tiled->pass->backward ? "-backward" : "", (long long)tiled->m, (long long)tiled->n,
             (long long)tiled->k, (long long)tiled->products, conv->kernel[0], conv->kernel[1],
             conv->stride[0], conv->stride[1], conv->dilation[0], conv->dilation[1],
             tensor_type_to_string(recorder->program->graph->compute_type));
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
        tiled.tiles[0] = choose_matrix_tile(tiled.matrices, tiled.m, tiled.n, tiled.k);
        ways.count = list_matrix_tiles(tiled.matrices, tiled.m, tiled.n, tiled.tiles);
        r = pack_weights(recorder, pass, error);
    } else {
        tiled.tiles[0] = choose_tile(tiled.m, tiled.n, tiled.products);
        if (tiled.k <= SIDE)
            tiled.tiles[0].k = tiled.k <= 4 ? 4 : tiled.k <= 8 ? 8 : SIDE;
    }
    for (int i = 0; i < ways.count; i++)
        snprintf(ways.names[i], sizeof ways.names[i], "%ux%u", tiled.tiles[i].m, tiled.tiles[i].n);
    return r < 0 ? r : record_fastest(recorder, &ways, error);
}

static int record_pass(struct recorder *recorder, const struct pass *pass, struct error *error)
{
    const struct convolution *conv = &pass->conv;
    const uint32_t m = pass->backward ? conv->from_channels : conv->to_channels;
    const uint32_t k = pass->backward ? conv->to_channels : conv->from_channels;

    return m <= DIRECT_CHANNELS && k <= DIRECT_SUM_CHANNELS ? record_direct(recorder, pass, error)
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
        .packed = program->workspace[index] | ADDRESS_OF_HALVES};

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
        .packed = program->workspace[index] | ADDRESS_OF_HALVES};

    return record_pass(recorder, &pass, error);
}

/* ---- the gradient by the weights ---- */

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
    struct weights_plan plan = {.direct = conv->to_channels <= DIRECT_CHANNELS &&
                                          conv->from_channels <= DIRECT_CHANNELS,
                                .tile = choose_tile(conv->to_channels, row, INT32_MAX),
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

static int record_weights(struct recorder *recorder, const struct convolution *conv,
                          const struct weights_plan *plan, VkDeviceAddress x, VkDeviceAddress dy,
                          VkDeviceAddress target, bool accumulate, struct error *error)
{
    const struct {
        VkDeviceAddress x, dy, target;
        struct convolution conv;
        uint32_t part, parts;
    } push = {x, dy, target, *conv, (uint32_t)plan->part, (uint32_t)plan->parts};
    const int64_t row = (int64_t)conv->from_channels * conv->kernel[0] * conv->kernel[1];
    const struct vulkan_matrices *matrices = plan->direct ? NULL : matrices_of(recorder, x, dy);
    const struct tile tile =
        matrices ? choose_matrix_tile(matrices, conv->to_channels, row, INT32_MAX) : plan->tile;
    struct launch launch = {
        .push = &push, .push_bytes = sizeof push, .addresses = 3, .matrices = matrices};

    if (plan->direct) {
        launch.shader = SHADER_convolution_weights_direct;
        launch.constants[0] = WORKGROUP;
        launch.constants[1] = accumulate;
        launch.constant_count = 2;
        launch.groups[0] = record_groups(plan->weights * plan->parts, 1);
    } else {
        const uint32_t constants[] = {WORKGROUP, tile.m, tile.n, tile.k, accumulate};

        launch.shader = SHADER_convolution_weights;
        for (int i = 0; i < 5; i++)
            launch.constants[i] = constants[i];
        launch.constant_count = 5;
        launch.groups[0] = divide_up(row, tile.n);
        launch.groups[1] = divide_up(conv->to_channels, tile.m);
        launch.groups[2] = conv->groups * plan->parts;
        if (matrices)
            launch.constants[0] = matrices_divide(matrices, tile.m, tile.n, launch.waves);
    }
    return record_launch(recorder, &launch, error);
}

int convolution_backward_weights_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct convolution conv =
        convolution_of(program->graph, node, node->input[0], node->input[1]);
    const struct weights_plan plan = plan_weights(&conv);
    const struct channels channels = channels_of(program->graph, node->input[1]);
    const VkDeviceAddress x = program_address(program, node->input[0]);
    const VkDeviceAddress dy = program_address(program, node->input[1]);
    const VkDeviceAddress dweight = program_address(program, node->output[0]);
    const bool adds = record_accumulates(recorder, node, 0), divided = plan.parts > 1;
    VkDeviceAddress workspace = program->workspace[index];
    int r = record_weights(recorder, &conv, &plan, x, dy, divided ? workspace : dweight,
                           adds && !divided, error);

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
