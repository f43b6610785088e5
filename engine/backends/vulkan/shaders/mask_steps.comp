#version 460
#extension GL_GOOGLE_include_directive : require
/* mask_steps.comp: steps behind the end of a sequence become 0; y may lie in the place of x. */
#include "common.glsl"
#include "lengths.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x; /* [batch, steps, features] */
    Integers lengths;
    Floats y;
    uint count, steps, features;
};
TYPED(x, 0) TYPED(y, 2)

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint row = i / features;

        PUT(y, i, row % steps < length_within(lengths.at[row / steps], steps) ? GET(x, i) : 0.0);
    }
}
