#version 460
#extension GL_GOOGLE_include_directive : require
/* both_strands.comp: each sequence, and behind it its reverse complement. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Integers x, y; /* [batch, steps], [batch, 2 steps] */
    uint count, steps, symbols;
    uint complement[8]; /* four symbols in a word */
};

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint sequence = i / steps, t = i % steps, symbol = uint(x.at[i]);

        y.at[sequence * 2 * steps + t] = int(symbol);
        y.at[(sequence + 1) * 2 * steps - 1 - t] =
            symbol < symbols ? int(complement[symbol / 4] >> symbol % 4 * 8 & 0xffu) : int(symbol);
    }
}
