#version 460
#extension GL_GOOGLE_include_directive : require
/* recurrent_backward.comp: one step of LSTM or GRU back. The gradient by the state comes from the
 * step behind: what its product gave, times the weights. dinput of an LSTM may lie in the place of
 * the gates. */
#include "recurrent.glsl"

layout(constant_id = 5) const uint HAS_BEHIND = 0; /* there is a step behind this one */
layout(constant_id = 6) const uint HAS_FIRST = 0;  /* memory before the first step; else it is 0 */

layout(push_constant, scalar) uniform Push
{
    Floats gates, weight, dy, memory; /* memory: an LSTM's cells, a GRU's y */
    Integers lengths;
    Floats memory_first;
    Floats behind, here; /* [batch, gates, hidden]: gradients by the product's results */
    Floats carried;      /* [batch, hidden] */
    Floats dinput;       /* [batch, steps, gates, hidden] */
    Floats unused[2];
    uint batch, steps, hidden, time;
};
TYPED(gates, 0) TYPED(dy, 2) TYPED(memory, 3) TYPED(dinput, 9)

/* Fours of each piece, and how many of them an invocation loads. Those of the gradient lie along
 * the depth, those of the weights along the units. */
const uint GRADIENT_FOURS = ROWS_EACH * SIDE * FOURS, WEIGHT_FOURS = SIDE * FOURS;
const uint LOADS_GRADIENT = (GRADIENT_FOURS + WORKGROUP - 1) / WORKGROUP;
const uint LOADS_WEIGHT = (WEIGHT_FOURS + WORKGROUP - 1) / WORKGROUP;

shared vec4 tile_gradient[ROWS_EACH * SIDE * LINE];
shared vec4 tile_weight[SIDE * LINE]; /* [unit][k] */
vec4 next_gradient[LOADS_GRADIENT], next_weight[LOADS_WEIGHT];

/* The depth in its piece, and the first unit, of four weights that the invocation loads. */
uvec2 weights_in_piece(uint load)
{
    const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

    return uvec2(i / (SIDE / 4), i % (SIDE / 4) * 4);
}

void fetch_tiles(uint first_row, uint first_unit, uint first_k)
{
    const uint sum = GATES * hidden;

    [[unroll]] for (uint load = 0; load < LOADS_GRADIENT; load++) {
        const uint i = gl_LocalInvocationID.x + load * WORKGROUP;
        const uint row = first_row + i / FOURS, k = first_k + i % FOURS * 4;

        next_gradient[load] = i < GRADIENT_FOURS && row < batch
                                  ? get_four(behind, row * sum + k, left_of(k, sum))
                                  : vec4(0.0);
    }
    [[unroll]] for (uint load = 0; load < LOADS_WEIGHT; load++) {
        const uvec2 at = weights_in_piece(load);
        const uint k = first_k + at.x, unit = first_unit + at.y;

        next_weight[load] = at.x < DEPTH && k < sum
                                ? get_four(weight, k * hidden + unit, left_of(unit, hidden))
                                : vec4(0.0);
    }
}

void store_tiles()
{
    [[unroll]] for (uint load = 0; load < LOADS_GRADIENT; load++) {
        const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

        if (i < GRADIENT_FOURS)
            tile_gradient[i / FOURS * LINE + i % FOURS] = next_gradient[load];
    }
    [[unroll]] for (uint load = 0; load < LOADS_WEIGHT; load++) {
        const uvec2 at = weights_in_piece(load);

        if (at.x < DEPTH)
            [[unroll]] for (uint j = 0; j < 4; j++)
                tile_weight[(at.y + j) * LINE + at.x / 4][at.x % 4] = next_weight[load][j];
    }
}

void store(uint row, uint unit, float gradient[4], float last)
{
    const uint to = (row * steps + time) * GATES * hidden + unit;
    const uint place = row * GATES * hidden + unit;

    for (uint g = 0; g < GATES; g++) {
        PUT(dinput, to + g * hidden, gradient[g]);
        here.at[place + g * hidden] = g + 1 < GATES ? gradient[g] : last;
    }
}

/* What the cells, or the state, were before the step. */
float memory_before(uint row, uint unit, uint length)
{
    const uint line = row * steps + time;
    const bool first = REVERSE ? time == length - 1 : time == 0;

    if (first)
        return HAS_FIRST != 0 ? memory_first.at[row * hidden + unit] : 0.0;
    return GET(memory, (REVERSE ? line + 1 : line - 1) * hidden + unit);
}

void back_lstm(uint row, uint unit, float sum, uint length)
{
    const uint state = row * hidden + unit, line = row * steps + time;
    const uint from = line * SAVED * hidden + unit;
    const float i = GET(gates, from), f = GET(gates, from + hidden);
    const float g = GET(gates, from + 2 * hidden), o = GET(gates, from + 3 * hidden);
    const float squashed = hyperbolic_tangent(GET(memory, line * hidden + unit));
    const float dh = GET(dy, line * hidden + unit) + sum;
    const float dc = (HAS_BEHIND != 0 ? carried.at[state] : 0.0) +
                     dh * o * (1.0 - squashed * squashed);
    float gradient[4];

    gradient[0] = dc * g * i * (1.0 - i);
    gradient[1] = dc * memory_before(row, unit, length) * f * (1.0 - f);
    gradient[2] = dc * i * (1.0 - g * g);
    gradient[3] = dh * squashed * o * (1.0 - o);
    carried.at[state] = dc * f;
    store(row, unit, gradient, gradient[3]);
}

void back_gru(uint row, uint unit, float sum, uint length)
{
    const uint state = row * hidden + unit, line = row * steps + time;
    const uint from = line * SAVED * hidden + unit;
    const float r = GET(gates, from), z = GET(gates, from + hidden);
    const float n = GET(gates, from + 2 * hidden), s = GET(gates, from + 3 * hidden);
    const float dh = GET(dy, line * hidden + unit) + sum +
                     (HAS_BEHIND != 0 ? carried.at[state] : 0.0);
    const float dn = dh * (1.0 - z) * (1.0 - n * n);
    float gradient[4];

    gradient[0] = dn * s * r * (1.0 - r);
    gradient[1] = dh * (memory_before(row, unit, length) - n) * z * (1.0 - z);
    gradient[2] = dn;
    gradient[3] = 0.0;
    carried.at[state] = dh * z;
    store(row, unit, gradient, dn * r);
}

/* Behind the end of a sequence: no gradient. */
void back_padding(uint row, uint unit)
{
    float gradient[4];

    for (uint g = 0; g < 4; g++)
        gradient[g] = 0.0;
    if (HAS_BEHIND == 0)
        carried.at[row * hidden + unit] = 0.0;
    store(row, unit, gradient, 0.0);
}

void main()
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;
    const uint first_unit = gl_WorkGroupID.x * SIDE, unit = first_unit + column;

    FOR_EACH_TILE(first_row)
    {
        float sums[ROWS_EACH];

        [[unroll]] for (uint i = 0; i < ROWS_EACH; i++)
            sums[i] = 0.0;
        if (HAS_BEHIND != 0)
            fetch_tiles(first_row, first_unit, 0);
        for (uint first_k = 0; HAS_BEHIND != 0 && first_k < GATES * hidden; first_k += DEPTH) {
            barrier();
            store_tiles();
            barrier();
            if (first_k + DEPTH < GATES * hidden)
                fetch_tiles(first_row, first_unit, first_k + DEPTH);
            for (uint k = 0; k < FOURS; k++) {
                const vec4 factors = tile_weight[column * LINE + k];

                [[unroll]] for (uint i = 0; i < ROWS_EACH; i++)
                    add_products(sums[i], tile_gradient[(row + i * SIDE) * LINE + k], factors);
            }
        }
        [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) {
            const uint own = first_row + row + i * SIDE;
            uint length = steps;

            if (own >= batch || unit >= hidden)
                continue;
            if (HAS_LENGTHS != 0)
                length = uint(clamp(lengths.at[own], 0, int(steps)));
            if (time >= length)
                back_padding(own, unit);
            else if (CELL == LSTM)
                back_lstm(own, unit, sums[i], length);
            else
                back_gru(own, unit, sums[i], length);
        }
    }
}
