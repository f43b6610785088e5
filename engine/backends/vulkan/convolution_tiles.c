/* convolution_tiles.c: see convolution_tiles.h. */
#include "engine/backends/vulkan/convolution_tiles.h"

#include "engine/backends/vulkan/matrices.h"
#include "engine/backends/vulkan/operators.h"

#include <stdio.h>

enum {
    TILE_MAX = 4 * CONVOLUTION_SIDE, /* side of a square tile */
    DEEP_SIDES_MAX = 96,             /* sides of a tile, added up, whose pieces fit twice as deep */
    MATRICES_DEPTH = 32,             /* of its pieces, if the sum is that long */
    TILES_WANTED = 128,              /* as many keep a large GPU busy */
    EIGHT = 8,
    LAST_ALIGNMENT = 16
};

struct convolution convolution_of(const struct graph *graph, const struct graph_node *node,
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

/* The side of a tile along an extent, at most `most`. Large tiles read each number less often, but
 * what lies outside of the extent is computed, too. */
static uint32_t tile_extent(int64_t extent, uint32_t most)
{
    uint32_t best = CONVOLUTION_SIDE;
    int64_t least = INT64_MAX;

    for (uint32_t tile = CONVOLUTION_SIDE; tile <= most; tile *= 2) {
        const int64_t cost = divide_up(extent, tile) * (tile + CONVOLUTION_SIDE);

        if (cost <= least) {
            least = cost;
            best = tile;
        }
    }
    return best;
}

/* The tile for a product [m, n] of which there are `products`. Narrow tiles are longer, so that an
 * invocation has several sums; few tiles are made smaller, so that they keep a GPU busy. */
struct tile convolution_tile(int64_t m, int64_t n, int64_t products)
{
    struct tile tile = {.m = tile_extent(m, TILE_MAX)};

    tile.n = tile_extent(n, tile.m < TILE_MAX ? 2 * TILE_MAX : TILE_MAX);
    while (tile.n > TILE_MAX / 2 &&
           products * divide_up(m, tile.m) * divide_up(n, tile.n) < TILES_WANTED)
        tile.n /= 2;
    tile.k = tile.m + tile.n <= DEEP_SIDES_MAX ? 2 * CONVOLUTION_SIDE : CONVOLUTION_SIDE;
    return tile;
}

/* The same for cooperative matrices: what their tile is where no other one is known to be faster.
 * An invocation loads pixels of one column alone, so a tile has at most as many columns as there
 * are invocations. */
struct tile convolution_matrix_tile(const struct vulkan_matrices *matrices, int64_t m, int64_t n,
                                    int64_t k)
{
    return (struct tile){
        .m = tile_extent(m, TILE_MAX),
        .n = tile_extent(n, (uint32_t)at_most(matrices_columns_max(matrices), TILE_MAX)),
        .k = k <= CONVOLUTION_SIDE ? CONVOLUTION_SIDE : MATRICES_DEPTH};
}

/* Lists tiles for a product [m, n] from the first one on, whose sides may be twice as long, where
 * they are not larger than the product. Returns how many there are. */
int convolution_list_tiles(const struct vulkan_matrices *matrices, int64_t m, int64_t n,
                           struct tile first, struct tile *tiles)
{
    int count = 0;

    for (uint32_t rows = 1; rows <= 2; rows++)
        for (uint32_t columns = 1; columns <= 2; columns++) {
            const struct tile tile = {rows * first.m, columns * first.n, first.k, first.last};
            const bool fits = tile.m < m + first.m && tile.n < n + first.n &&
                              tile.n <= matrices_columns_max(matrices);

            if (fits || (rows == 1 && columns == 1))
                tiles[count++] = tile;
        }
    return count;
}

void convolution_name_tiles(struct ways *ways, const struct tile *tiles)
{
    for (int i = 0; i < ways->count; i++)
        snprintf(ways->names[i], sizeof ways->names[i], "%s%ux%u", tiles[i].last ? "last-" : "",
                 tiles[i].m, tiles[i].n);
}

/* ---- operands whose channels lie side by side ---- */

bool convolution_has_eights(const struct convolution *conv)
{
    return conv->from_channels % EIGHT == 0 && conv->to_channels % EIGHT == 0;
}

size_t convolution_align_last(size_t bytes)
{
    return (bytes + LAST_ALIGNMENT - 1) / LAST_ALIGNMENT * LAST_ALIGNMENT;
}

size_t convolution_last_bytes(const struct graph *graph, int32_t tensor)
{
    return (size_t)graph_shape_elements(&graph->tensors[tensor].shape) * sizeof(uint16_t);
}

size_t convolution_last_workspace(const struct graph *graph, const struct graph_node *node)
{
    const bool data = node->op == OP_CONV2D_BACKWARD_DATA;
    const bool weights = node->op == OP_CONV2D_BACKWARD_WEIGHTS;
    const int32_t x = data ? node->output[0] : node->input[0];
    const int32_t y = data ? node->input[0] : weights ? node->input[1] : node->output[0];
    const struct convolution conv = convolution_of(graph, node, x, y);

    if (!convolution_has_eights(&conv))
        return 0;
    return LAST_ALIGNMENT + convolution_align_last(convolution_last_bytes(graph, node->input[0])) +
           (weights ? convolution_last_bytes(graph, node->input[1]) : 0);
}

/* Copies samples so that the channels of a pixel lie side by side. */
int convolution_record_last(struct recorder *recorder, const struct convolution *conv, bool of_x,
                            VkDeviceAddress from, VkDeviceAddress to, struct error *error)
{
    const uint32_t *extent = of_x ? conv->from : conv->to;
    const int64_t channels =
        (int64_t)conv->groups * (of_x ? conv->from_channels : conv->to_channels);

    return record_transpose(recorder, from, to, conv->samples, channels,
                            (int64_t)extent[0] * extent[1], error);
}

/* Where operands with their channels last lie: behind the rest of a node's workspace. */
VkDeviceAddress convolution_last_place(const struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const size_t before = node->op == OP_CONV2D_BACKWARD_WEIGHTS
                              ? convolution_backward_weights_workspace(program->graph, node)
                              : convolution_workspace(program->graph, node);

    return (program->workspace[index] + convolution_align_last(before)) | ADDRESS_OF_HALVES;
}
