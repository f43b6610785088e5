#version 460
#extension GL_GOOGLE_include_directive : require
/* convolution_weights.comp: the gradient by the weights, as products on tiles. Rows of a tile are
 * channels of dy, columns the weights of such a channel; the sum goes over the pixels of all
 * samples. Workgroups along z have a part of that sum each.
 *
 * Cooperative matrices can read operands whose channels lie side by side (LAST), eight at a time:
 * channels of a group are multiples of eight then, and operands have 16 bits. Columns of a tile are
 * ordered by tap and channel there, else by channel and tap. */
#include "common.glsl"
#include "convolution.glsl"

layout(constant_id = 4) const uint ACCUMULATE = 0;
layout(constant_id = 5) const uint LAST = 0;
const bool A_ALONG_K = LAST == 0, B_ALONG_K = LAST == 0;
const bool A_EIGHTS = LAST != 0, B_EIGHTS = LAST != 0;
#include "tiles.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, dy, target; /* the gradient, or that of each part */
    Convolution conv;
    uint part, parts; /* pixels of a part, and how many there are */
};
TYPED(x, 0) TYPED(dy, 1)

/* How many numbers of each piece an invocation loads, in steps of LOADED rows or columns. */
const uint LOADS_M = TILE_M * TILE_K / WORKGROUP, LOADS_N = TILE_N * TILE_K / WORKGROUP;
const uint LOADED = WORKGROUP / TILE_K;

/* Of each column that the invocation loads: the channel of x, and the tap's place. */
uint channel[LOADS_N];
ivec2 offset[LOADS_N];

void find_columns(uint first_n)
{
    const uint taps = conv.kernel.x * conv.kernel.y;

    [[unroll]] for (uint i = 0; i < LOADS_N; i++) {
        const uint at_n = first_n + gl_LocalInvocationID.x / TILE_K + i * LOADED;
        const uint tap = at_n % taps;

        channel[i] = at_n / taps;
        offset[i] = ivec2(uvec2(tap / conv.kernel.y, tap % conv.kernel.y) * conv.dilation) -
                    ivec2(conv.padding);
    }
}

/* The pieces from pixel `first` of all samples to before `end`. */
void load_pieces(uint group, uint first_m, uint first, uint end)
{
    const uint own = gl_LocalInvocationID.x, depth = own % TILE_K, at = first + depth;
    const uint pixels = conv.to.x * conv.to.y, plane = conv.from.x * conv.from.y;
    const uint image = at / pixels * conv.groups + group, pixel = at % pixels;
    const ivec2 corner = ivec2(uvec2(pixel / conv.to.y, pixel % conv.to.y) * conv.stride);
    const uint from_dy = image * conv.to_channels * pixels + pixel;
    const uint from_x = image * conv.from_channels * plane;

    [[unroll]] for (uint i = 0; i < LOADS_M; i++) {
        const uint row = own / TILE_K + i * LOADED;

        tile_a[place_in_a(row, depth)] = at < end && first_m + row < conv.to_channels
                                             ? PIECE(dy, from_dy + (first_m + row) * pixels)
                                             : PIECE_NUMBER(0);
    }
    [[unroll]] for (uint i = 0; i < LOADS_N; i++) {
        const uvec2 place = uvec2(corner + offset[i]);
        const bool inside = at < end && channel[i] < conv.from_channels &&
                            place.x < conv.from.x && place.y < conv.from.y;

        tile_b[place_in_b(own / TILE_K + i * LOADED, depth)] =
            inside ? PIECE(x, from_x + channel[i] * plane + place.x * conv.from.y + place.y)
                   : PIECE_NUMBER(0);
    }
}

#ifdef MATRICES
/* Of each eight columns that the invocation loads: the first channel, and the tap's place. */
uint eight_channel[EIGHTS_B];
ivec2 eight_offset[EIGHTS_B];

void find_eights(uint first_n)
{
    [[unroll]] for (uint load = 0; load < EIGHTS_B; load++) {
        const uint at_n = first_n + place_of_eight(load, TILE_N, false).x;
        const uint tap = at_n / conv.from_channels;

        eight_channel[load] = at_n % conv.from_channels;
        eight_offset[load] =
            ivec2(uvec2(tap / conv.kernel.y, tap % conv.kernel.y) * conv.dilation) -
            ivec2(conv.padding);
        if (tap >= conv.kernel.x * conv.kernel.y)
            eight_channel[load] = conv.from_channels; /* there is none */
    }
}

void fetch_eights(uint group, uint first_m, uint first, uint end)
{
    const uint pixels = conv.to.x * conv.to.y;

    [[unroll]] for (uint load = 0; load < EIGHTS_A; load++) {
        const uvec2 at = place_of_eight(load, TILE_M, false);
        const uint pixel = first + at.y, row = first_m + at.x;
        const bool inside = at.y < TILE_K && pixel < end && row < conv.to_channels;

        next_eights_a[load] =
            inside ? EIGHT(dy, (pixel * conv.groups + group) * conv.to_channels + row) : uvec4(0);
    }
    [[unroll]] for (uint load = 0; load < EIGHTS_B; load++) {
        const uint depth = place_of_eight(load, TILE_N, false).y;
        const uint at = first + depth, pixel = at % pixels;
        const uvec2 place = uvec2(
            ivec2(uvec2(pixel / conv.to.y, pixel % conv.to.y) * conv.stride) + eight_offset[load]);
        const uint from = (at / pixels * conv.from.x + place.x) * conv.from.y + place.y;
        const bool inside = depth < TILE_K && at < end &&
                            eight_channel[load] < conv.from_channels && place.x < conv.from.x &&
                            place.y < conv.from.y;

        next_eights_b[load] =
            inside ? EIGHT(x, (from * conv.groups + group) * conv.from_channels +
                                  eight_channel[load])
                   : uvec4(0);
    }
}
#endif

/* A number of the tile goes to its place, or to that of its part. */
void put_sum(uint group, uint own_part, uint at_m, uint at_n, float sum)
{
    const uint taps = conv.kernel.x * conv.kernel.y, n = conv.from_channels * taps;
    const uint weight =
        LAST != 0 ? at_n % conv.from_channels * taps + at_n / conv.from_channels : at_n;
    const uint place = (group * conv.to_channels + at_m) * n + weight +
                       own_part * conv.groups * conv.to_channels * n;

    if (at_m < conv.to_channels && at_n < n)
        target.at[place] = sum + (ACCUMULATE != 0 ? target.at[place] : 0.0);
}

void main()
{
    const uint group = gl_WorkGroupID.z / parts, own_part = gl_WorkGroupID.z % parts;
    const uint end = min((own_part + 1) * part, conv.samples * conv.to.x * conv.to.y);
    const uint first_m = gl_WorkGroupID.y * TILE_M, first_n = gl_WorkGroupID.x * TILE_N;

    TILES_DECLARE(sum)
#ifdef MATRICES
    if (LAST != 0) {
        find_eights(first_n);
        fetch_eights(group, first_m, own_part * part, end);
        for (uint first = own_part * part; first < end; first += TILE_K) {
            store_eights_a();
            store_eights_b();
            barrier();
            if (first + TILE_K < end)
                fetch_eights(group, first_m, first + TILE_K, end);
            TILES_MULTIPLY(sum)
            barrier();
        }
    } else
#endif
    {
        find_columns(first_n);
        for (uint first = own_part * part; first < end; first += TILE_K) {
            load_pieces(group, first_m, first, end);
            barrier();
            TILES_MULTIPLY(sum)
            barrier();
        }
    }
#define PUT_SUM(row, column, number) \
    put_sum(group, own_part, first_m + (row), first_n + (column), number)
    TILES_PUT(sum, PUT_SUM)
}
