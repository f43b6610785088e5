#version 460
#extension GL_GOOGLE_include_directive : require
/* take.comp: row i of the result is row map[i] of the operand, or 0. BACKWARD: the gradient of row
 * j is the sum of those of the rows that took it, which the map lists (struct take_attributes). */
#include "common.glsl"

layout(constant_id = 1) const uint BACKWARD = 0;
layout(constant_id = 2) const uint IS_SHARED = 0;   /* all samples read the same rows */
layout(constant_id = 3) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, map, y; /* the operand, or the gradient by the result; the result, or its gradient */
    uint count; /* of y */
    uint batch, outer, from, to, inner;
};
TYPED(x, 0) TYPED(y, 2)

float taken(uint i)
{
    const uint column = i % inner, row = i / inner % to, block = i / inner / to;
    const float source = map.at[row];
    const uint from_block = IS_SHARED != 0 ? block % outer : block;

    return source < 0.0 ? 0.0 : GET(x, (from_block * from + uint(source)) * inner + column);
}

float gradient(uint i)
{
    const uint column = i % inner, row = i / inner % from, block = i / inner / from;
    const uint begin = uint(map.at[to + row]), end = uint(map.at[to + row + 1]);
    const uint samples = IS_SHARED != 0 ? batch : 1;
    float sum = 0.0;

    for (uint s = 0; s < samples; s++)
        for (uint k = begin; k < end; k++) {
            const uint taker = uint(map.at[to + from + 1 + k]);

            sum += GET(x, ((s * outer + block) * to + taker) * inner + column);
        }
    return sum;
}

void main()
{
    FOR_EACH_ELEMENT(i, count)
    PUT(y, i, BACKWARD != 0 ? gradient(i) + (ACCUMULATE != 0 ? GET(y, i) : 0.0) : taken(i));
}
