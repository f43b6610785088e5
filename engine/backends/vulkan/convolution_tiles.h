/* convolution_tiles.h: what the passes of a convolution share: its extents as shaders take them,
 * the tiles of its products, and operands whose channels lie side by side. */
#pragma once

#include "engine/backends/vulkan/ways.h"

enum {
    CONVOLUTION_SIDE = 16, /* invocations along each axis of a tile: tiles.glsl */
    CONVOLUTION_WORKGROUP = CONVOLUTION_SIDE * CONVOLUTION_SIDE,
    CONVOLUTION_DIRECT_CHANNELS = 4 /* at most so many of a group are done by the definition */
};

/* As the shaders have it: convolution.glsl. */
struct convolution {
    uint32_t samples, groups, from_channels, to_channels;
    uint32_t from[2], to[2], kernel[2], stride[2], padding[2], dilation[2];
};

/* The convolution from x to y, or from dx to dy. */
struct convolution convolution_of(const struct graph *graph, const struct graph_node *node,
                                  int32_t x, int32_t y);

static inline int64_t divide_up(int64_t number, int64_t divisor)
{
    return (number + divisor - 1) / divisor;
}

static inline int64_t at_most(int64_t number, int64_t most)
{
    return number > most ? most : number;
}

struct tile {
    uint32_t m, n, k;
    bool last; /* of operands whose channels lie side by side */
};

/* The tile for a product [m, n] of which there are `products`. */
struct tile convolution_tile(int64_t m, int64_t n, int64_t products);
/* The same for cooperative matrices, where no other one is known to be faster. */
struct tile convolution_matrix_tile(const struct vulkan_matrices *matrices, int64_t m, int64_t n,
                                    int64_t k);
/* Lists tiles for a product [m, n] from the first one on: its sides may be twice as long where they
 * are not larger than the product. There are at most four; returns how many. */
int convolution_list_tiles(const struct vulkan_matrices *matrices, int64_t m, int64_t n,
                           struct tile first, struct tile *tiles);
void convolution_name_tiles(struct ways *ways, const struct tile *tiles);

/* ---- operands whose channels lie side by side ---- */

/* Whether channels of a group, on both sides, are multiples of eight, as they are read then. */
bool convolution_has_eights(const struct convolution *conv);
size_t convolution_align_last(size_t bytes);
/* Bytes of a tensor in 16 bits. */
size_t convolution_last_bytes(const struct graph *graph, int32_t tensor);
/* Where they lie: behind the rest of a node's workspace. */
VkDeviceAddress convolution_last_place(const struct backend_program *program, int32_t index);
/* Copies samples of x, or of y, so that the channels of a pixel lie side by side. */
int convolution_record_last(struct recorder *recorder, const struct convolution *conv, bool of_x,
                            VkDeviceAddress from, VkDeviceAddress to, struct error *error);
