#version 460
#extension GL_GOOGLE_include_directive : require
/* add_positions.comp: y = x + positions, which are the same for each sample. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, positions, y;
    uint all, count; /* numbers of the batch, and of a sample */
};
TYPED(x, 0) TYPED(y, 2)

void main()
{
    FOR_EACH_ELEMENT(i, all)
    PUT(y, i, GET(x, i) + positions.at[i % count]);
}
