#version 460
#extension GL_GOOGLE_include_directive : require
/* recurrent.comp: one step of LSTM or GRU. Behind the end of a sequence the state stays, and the
 * results are 0. engine/graph/operators/recurrent.c has the formulas. */
#include "recurrent.glsl"

layout(constant_id = 5) const uint HAS_STATE = 0; /* before the step; else it is 0 */
layout(constant_id = 6) const uint KEEPS_GATES = 0;

layout(push_constant, scalar) uniform Push
{
    Floats inputs, weight, bias; /* [batch, steps, gates, hidden], [gates, hidden, hidden] */
    Integers lengths;
    Floats before, after; /* the states, [batch, hidden] */
    Floats content, content_after; /* of an LSTM's cells; it may be one array */
    Floats y, gates, cells;
    Floats unused;
    uint batch, steps, hidden, time;
};
TYPED(inputs, 0) TYPED(y, 8) TYPED(gates, 9) TYPED(cells, 10)

/* Fours of each piece, and how many of them an invocation loads. */
const uint STATE_FOURS = ROWS_EACH * SIDE * FOURS, WEIGHT_FOURS = GATES * SIDE * FOURS;
const uint LOADS_STATE = (STATE_FOURS + WORKGROUP - 1) / WORKGROUP;
const uint LOADS_WEIGHT = (WEIGHT_FOURS + WORKGROUP - 1) / WORKGROUP;

shared vec4 tile_state[ROWS_EACH * SIDE * LINE];
shared vec4 tile_weight[GATES * SIDE * LINE];
vec4 next_state[LOADS_STATE], next_weight[LOADS_WEIGHT];

void fetch_tiles(uint first_row, uint first_unit, uint first_k)
{
    [[unroll]] for (uint load = 0; load < LOADS_STATE; load++) {
        const uint i = gl_LocalInvocationID.x + load * WORKGROUP;
        const uint row = first_row + i / FOURS, k = first_k + i % FOURS * 4;

        next_state[load] = i < STATE_FOURS && row < batch
                               ? get_four(before, row * hidden + k, left_of(k, hidden))
                               : vec4(0.0);
    }
    [[unroll]] for (uint load = 0; load < LOADS_WEIGHT; load++) {
        const uint i = gl_LocalInvocationID.x + load * WORKGROUP;
        const uint gate = i / (SIDE * FOURS), unit = first_unit + i / FOURS % SIDE;
        const uint k = first_k + i % FOURS * 4;

        next_weight[load] =
            i < WEIGHT_FOURS && unit < hidden
                ? get_four(weight, (gate * hidden + unit) * hidden + k, left_of(k, hidden))
                : vec4(0.0);
    }
}

void store_tiles()
{
    [[unroll]] for (uint load = 0; load < LOADS_STATE; load++) {
        const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

        if (i < STATE_FOURS)
            tile_state[i / FOURS * LINE + i % FOURS] = next_state[load];
    }
    [[unroll]] for (uint load = 0; load < LOADS_WEIGHT; load++) {
        const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

        if (i < WEIGHT_FOURS)
            tile_weight[i / FOURS * LINE + i % FOURS] = next_weight[load];
    }
}

void finish_lstm(uint row, uint unit, float sums[4])
{
    const uint state = row * hidden + unit, line = row * steps + time;
    const uint from = line * 4 * hidden + unit;
    const float i = sigmoid(sums[0] + GET(inputs, from) + bias.at[unit]);
    const float f = sigmoid(sums[1] + GET(inputs, from + hidden) + bias.at[hidden + unit]);
    const float g = hyperbolic_tangent(sums[2] + GET(inputs, from + 2 * hidden) +
                                       bias.at[2 * hidden + unit]);
    const float o = sigmoid(sums[3] + GET(inputs, from + 3 * hidden) + bias.at[3 * hidden + unit]);
    const float c = f * (HAS_STATE != 0 ? content.at[state] : 0.0) + i * g;
    const float h = o * hyperbolic_tangent(c);

    content_after.at[state] = c;
    after.at[state] = h;
    PUT(y, line * hidden + unit, h);
    if (KEEPS_GATES != 0) {
        PUT(gates, from, i);
        PUT(gates, from + hidden, f);
        PUT(gates, from + 2 * hidden, g);
        PUT(gates, from + 3 * hidden, o);
        PUT(cells, line * hidden + unit, c);
    }
}

void finish_gru(uint row, uint unit, float sums[4])
{
    const uint state = row * hidden + unit, line = row * steps + time;
    const uint from = line * 3 * hidden + unit, to = line * SAVED * hidden + unit;
    const float r = sigmoid(sums[0] + GET(inputs, from) + bias.at[unit]);
    const float z = sigmoid(sums[1] + GET(inputs, from + hidden) + bias.at[hidden + unit]);
    const float s = sums[2] + bias.at[2 * hidden + unit];
    const float n = hyperbolic_tangent(GET(inputs, from + 2 * hidden) + r * s);
    const float h = n + z * ((HAS_STATE != 0 ? before.at[state] : 0.0) - n);

    after.at[state] = h;
    PUT(y, line * hidden + unit, h);
    if (KEEPS_GATES != 0) {
        PUT(gates, to, r);
        PUT(gates, to + hidden, z);
        PUT(gates, to + 2 * hidden, n);
        PUT(gates, to + 3 * hidden, s);
    }
}

void finish_padding(uint row, uint unit)
{
    const uint state = row * hidden + unit, line = row * steps + time;

    after.at[state] = HAS_STATE != 0 ? before.at[state] : 0.0;
    if (CELL == LSTM)
        content_after.at[state] = HAS_STATE != 0 ? content.at[state] : 0.0;
    PUT(y, line * hidden + unit, 0.0);
    if (KEEPS_GATES == 0)
        return;
    for (uint g = 0; g < SAVED; g++)
        PUT(gates, (line * SAVED + g) * hidden + unit, 0.0);
    if (CELL == LSTM)
        PUT(cells, line * hidden + unit, 0.0);
}

void main()
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;
    const uint first_unit = gl_WorkGroupID.x * SIDE, unit = first_unit + column;

    FOR_EACH_TILE(first_row)
    {
        float sums[ROWS_EACH * 4];

        [[unroll]] for (uint i = 0; i < ROWS_EACH * 4; i++)
            sums[i] = 0.0;
        if (HAS_STATE != 0)
            fetch_tiles(first_row, first_unit, 0);
        for (uint first_k = 0; HAS_STATE != 0 && first_k < hidden; first_k += DEPTH) {
            barrier();
            store_tiles();
            barrier();
            if (first_k + DEPTH < hidden)
                fetch_tiles(first_row, first_unit, first_k + DEPTH);
            for (uint k = 0; k < FOURS; k++) {
                vec4 states[ROWS_EACH];

                [[unroll]] for (uint i = 0; i < ROWS_EACH; i++)
                    states[i] = tile_state[(row + i * SIDE) * LINE + k];
                [[unroll]] for (uint g = 0; g < GATES; g++) {
                    const vec4 factors = tile_weight[(g * SIDE + column) * LINE + k];

                    [[unroll]] for (uint i = 0; i < ROWS_EACH; i++)
                        add_products(sums[i * 4 + g], states[i], factors);
                }
            }
        }
        [[unroll]] for (uint i = 0; i < ROWS_EACH; i++) {
            const uint own = first_row + row + i * SIDE;
            float of_row[4];

            for (uint g = 0; g < 4; g++)
                of_row[g] = sums[i * 4 + g];
            if (own >= batch || unit >= hidden)
                continue;
            if (HAS_LENGTHS != 0 && int(time) >= lengths.at[own])
                finish_padding(own, unit);
            else if (CELL == LSTM)
                finish_lstm(own, unit, of_row);
            else
                finish_gru(own, unit, of_row);
        }
    }
}
