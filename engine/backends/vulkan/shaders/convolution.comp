#version 460
#extension GL_GOOGLE_include_directive : require
/* convolution.comp: y = act(x * weight + bias), or the gradient by x, as products on tiles. Rows of
 * a tile are channels of the result, columns its pixels; the sum goes over the source's channels
 * and the kernel's taps. The gradient takes pixels of one phase modulo the stride at a time, so
 * that no tap of a tile falls between the pixels of dy.
 *
 * Cooperative matrices can read a source whose channels lie side by side (LAST), eight at a time:
 * channels of a group are multiples of eight then, and such a source has 16 bits. */
#include "common.glsl"
#include "activations.glsl"
#include "convolution.glsl"

layout(constant_id = 4) const uint BACKWARD = 0;
layout(constant_id = 5) const uint HAS_BIAS = 0;
layout(constant_id = 6) const uint LAST = 0;
layout(constant_id = 7) const uint ACTIVATION = 0; /* 1 + its number; 0: none */
const bool A_ALONG_K = BACKWARD == 0, B_ALONG_K = LAST != 0;
const bool A_EIGHTS = LAST != 0, B_EIGHTS = LAST != 0;
#include "tiles.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats source, weight, bias, target;
    Convolution conv;
};
TYPED(source, 0) TYPED(weight, 1) TYPED(target, 3)

/* The target's pixel that an invocation loads for. */
struct Place {
    uint image;
    int row, column; /* of the source, for tap 0 */
    bool inside;
};

Place find_place(Walk rows, Walk columns, uint at)
{
    const uint pixels = rows.count * columns.count, pixel = at % pixels;

    return Place(at / pixels, int(pixel / columns.count) * rows.scale + rows.origin,
                 int(pixel % columns.count) * columns.scale + columns.origin,
                 at < conv.samples * pixels);
}

/* The next pieces are on their way while the last ones are multiplied. */
const uint LOADS_A = (TILE_M * TILE_K + WORKGROUP - 1) / WORKGROUP;
const uint LOADS_B = (TILE_N * TILE_K + WORKGROUP - 1) / WORKGROUP;
PIECE_NUMBER next_a[LOADS_A], next_b[LOADS_B];

/* The row and the depth in its piece of a weight that the invocation loads. */
uvec2 weight_in_piece(uint load)
{
    const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

    return BACKWARD != 0 ? uvec2(i % TILE_M, i / TILE_M) : uvec2(i / TILE_K, i % TILE_K);
}

/* The place of a weight from a channel of x to one of y. Cooperative matrices read them by taps,
 * packed (convolution.c). */
uint place_in_weights(uint group, uint to, uint from, uint tap)
{
    const uint taps = conv.kernel.x * conv.kernel.y;

#ifdef MATRICES
    return ((group * taps + tap) * conv.to_channels + to) * conv.from_channels + from;
#else
    return ((group * conv.to_channels + to) * conv.from_channels + from) * taps + tap;
#endif
}

#ifdef MATRICES
Place places[EIGHTS_B]; /* of the pixels that the invocation loads eight channels of */

void find_places(Walk rows, Walk columns, uint first_n)
{
    [[unroll]] for (uint load = 0; load < EIGHTS_B; load++) {
        const uint column = place_of_eight(load, TILE_N, true).x;

        places[load] = find_place(rows, columns, first_n + column);
        if (column >= TILE_N)
            places[load].inside = false;
    }
}

void fetch_weight_eights(uint group, uint first_m, uint first_k, uint tap)
{
    const uint m = BACKWARD != 0 ? conv.from_channels : conv.to_channels;
    const uint k = BACKWARD != 0 ? conv.to_channels : conv.from_channels;

    [[unroll]] for (uint load = 0; load < EIGHTS_A; load++) {
        const uvec2 at = place_of_eight(load, TILE_M, A_ALONG_K);
        const uint at_m = first_m + at.x, at_k = first_k + at.y;
        const uint place = BACKWARD != 0 ? place_in_weights(group, at_k, at_m, tap)
                                         : place_in_weights(group, at_m, at_k, tap);

        next_eights_a[load] = at.x < TILE_M && at.y < TILE_K && at_m < m && at_k < k
                                  ? EIGHT(weight, place)
                                  : uvec4(0);
    }
}

/* The tap is so many rows and columns of the source away from the first. */
void fetch_source_eights(uint group, uint first_k, int rows, int columns)
{
    const uint k = BACKWARD != 0 ? conv.to_channels : conv.from_channels;
    const uvec2 extent = BACKWARD != 0 ? conv.to : conv.from;

    [[unroll]] for (uint load = 0; load < EIGHTS_B; load++) {
        const uint at_k = first_k + place_of_eight(load, TILE_N, true).y;
        const uint row = uint(places[load].row + rows);
        const uint column = uint(places[load].column + columns);
        const uint pixel = (places[load].image * extent.x + row) * extent.y + column;
        const bool inside =
            places[load].inside && row < extent.x && column < extent.y && at_k < k;

        next_eights_b[load] =
            inside ? EIGHT(source, (pixel * conv.groups + group) * k + at_k) : uvec4(0);
    }
}
#endif

void fetch_weights(uint group, uint first_m, uint first_k, uint tap)
{
    const uint m = BACKWARD != 0 ? conv.from_channels : conv.to_channels;
    const uint k = BACKWARD != 0 ? conv.to_channels : conv.from_channels;

    [[unroll]] for (uint load = 0; load < LOADS_A; load++) {
        const uvec2 at = weight_in_piece(load);
        const uint at_m = first_m + at.x, at_k = first_k + at.y;
        const uint place = BACKWARD != 0 ? place_in_weights(group, at_k, at_m, tap)
                                         : place_in_weights(group, at_m, at_k, tap);

        next_a[load] = at_m < m && at_k < k ? PIECE(weight, place) : PIECE_NUMBER(0);
    }
}

void fetch_source(uint group, Place place, uint first_k, int row, int column)
{
    const uint k = BACKWARD != 0 ? conv.to_channels : conv.from_channels;
    const uvec2 extent = BACKWARD != 0 ? conv.to : conv.from;
    const bool inside = place.inside && uint(row) < extent.x && uint(column) < extent.y;
    const uint from = ((place.image * conv.groups + group) * k + first_k) * extent.x * extent.y +
                      uint(row) * extent.y + uint(column);

    [[unroll]] for (uint load = 0; load < LOADS_B; load++) {
        const uint depth = (gl_LocalInvocationID.x + load * WORKGROUP) / TILE_N;

        next_b[load] = inside && first_k + depth < k
                           ? PIECE(source, from + depth * extent.x * extent.y)
                           : PIECE_NUMBER(0);
    }
}

void store_pieces()
{
#ifdef MATRICES
    if (LAST != 0) {
        store_eights_a();
        store_eights_b();
        return;
    }
#endif
    [[unroll]] for (uint load = 0; load < LOADS_A; load++) {
        const uvec2 at = weight_in_piece(load);

        if (at.x < TILE_M && at.y < TILE_K)
            tile_a[place_in_a(at.x, at.y)] = next_a[load];
    }
    [[unroll]] for (uint load = 0; load < LOADS_B; load++) {
        const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

        if (i < TILE_N * TILE_K)
            tile_b[place_in_b(i % TILE_N, i / TILE_N)] = next_b[load];
    }
}

/* A number of the tile goes to its place. */
void put_sum(uint group, Walk rows, Walk columns, uint at_m, uint at_n, float sum)
{
    const uint m = BACKWARD != 0 ? conv.from_channels : conv.to_channels;
    const uvec2 extent = BACKWARD != 0 ? conv.from : conv.to;
    const uint pixels = rows.count * columns.count, image = at_n / pixels, pixel = at_n % pixels;
    const uint row = rows.first + pixel / columns.count * rows.spacing;
    const uint column = columns.first + pixel % columns.count * columns.spacing;
    const uint channel = group * m + at_m, plane = image * conv.groups * m + channel;

    if (at_m < m && image < conv.samples)
        PUT(target, (plane * extent.x + row) * extent.y + column,
            activated(ACTIVATION, sum + (HAS_BIAS != 0 ? bias.at[channel] : 0.0)));
}

void compute_tile(uint group, Walk rows, Walk columns, uint first_n)
{
    const uint k = BACKWARD != 0 ? conv.to_channels : conv.from_channels;
    const uint first_m = gl_WorkGroupID.y * TILE_M;
    const Place place =
        find_place(rows, columns, first_n + gl_LocalInvocationID.x % TILE_N);

    /* a step has one tap and TILE_K channels */
    const uint taps = rows.taps * columns.taps, count = (k + TILE_K - 1) / TILE_K * taps;

    TILES_DECLARE(sum)
#ifdef MATRICES
    find_places(rows, columns, first_n);
#endif
    for (uint next = 0; next <= count; next++) {
        if (next > 0) {
            store_pieces();
            barrier();
        }
        if (next < count) {
            const uint tap = next % taps, h = tap / columns.taps, w = tap % columns.taps;
            const uint first_k = next / taps * TILE_K;
            const uint kernel_tap = (rows.tap_first + h * rows.tap_step) * conv.kernel.y +
                                    columns.tap_first + w * columns.tap_step;

#ifdef MATRICES
            if (LAST != 0) {
                fetch_weight_eights(group, first_m, first_k, kernel_tap);
                fetch_source_eights(group, first_k, int(h) * rows.step, int(w) * columns.step);
            } else
#endif
            {
                fetch_weights(group, first_m, first_k, kernel_tap);
                fetch_source(group, place, first_k, place.row + int(h) * rows.step,
                             place.column + int(w) * columns.step);
            }
        }
        if (next > 0) {
            TILES_MULTIPLY(sum)
            barrier();
        }
    }
#define PUT_SUM(row, column, number) \
    put_sum(group, rows, columns, first_m + (row), first_n + (column), number)
    TILES_PUT(sum, PUT_SUM)
}

void main()
{
    const uint phases = BACKWARD != 0 ? conv.stride.x * conv.stride.y : 1;

    for (uint z = gl_WorkGroupID.z; z < conv.groups * phases; z += gl_NumWorkGroups.z) {
        const uint phase = z % phases;
        Walk rows, columns;

        if (BACKWARD != 0) {
            rows = walk_backward(conv, 0, phase / conv.stride.y);
            columns = walk_backward(conv, 1, phase % conv.stride.y);
        } else {
            rows = walk_forward(conv, 0);
            columns = walk_forward(conv, 1);
        }
        for (uint first_n = gl_WorkGroupID.x * TILE_N;
             first_n < conv.samples * rows.count * columns.count;
             first_n += gl_NumWorkGroups.x * TILE_N)
            compute_tile(z / phases, rows, columns, first_n);
    }
}
