#version 460
#extension GL_GOOGLE_include_directive : require
/* embedding.comp: a row of the table for each index; NaN where there is no such row. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Integers index;
    Floats weight, y;
    uint count, width, vocabulary;
};
TYPED(y, 2)

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint row = uint(index.at[i / width]); /* negative ones become large */

        PUT(y, i, row < vocabulary ? weight.at[row * width + i % width] : NOT_A_NUMBER);
    }
}
