#version 460
#extension GL_GOOGLE_include_directive : require
/* recurrent_operands.comp: the operands of the gradient by a recurrent layer's weights: the state
 * before each step, and of a GRU the gradients by what the state's product gave: the reset gate
 * multiplies its part of n. */
#include "common.glsl"

layout(constant_id = 1) const uint CELL = 0; /* enum recurrent_cell (engine/graph/graph.h) */
layout(constant_id = 2) const uint REVERSE = 0;
layout(constant_id = 3) const uint HAS_FIRST = 0;

layout(push_constant, scalar) uniform Push
{
    Floats y, h0, previous, gates, dinput, gradient;
    uint count, steps, hidden;
};
TYPED(y, 0) TYPED(gates, 3) TYPED(dinput, 4)

const uint GRU = 1;

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint unit = i % hidden, line = i / hidden, time = line % steps;
        const bool first = time == (REVERSE != 0 ? steps - 1 : 0);

        if (!first)
            previous.at[i] = GET(y, REVERSE != 0 ? i + hidden : i - hidden);
        else
            previous.at[i] = HAS_FIRST != 0 ? h0.at[line / steps * hidden + unit] : 0.0;
        if (CELL == GRU) {
            const uint at = line * 3 * hidden + unit;

            gradient.at[at] = GET(dinput, at);
            gradient.at[at + hidden] = GET(dinput, at + hidden);
            gradient.at[at + 2 * hidden] =
                GET(dinput, at + 2 * hidden) * GET(gates, line * 4 * hidden + unit);
        }
    }
}
