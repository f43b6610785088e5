#version 460
#extension GL_GOOGLE_include_directive : require
/* time_pool_backward.comp: the gradient by all steps of a sequence from that by one vector. */
#include "common.glsl"
#include "lengths.glsl"

layout(constant_id = 1) const uint KIND = TIME_POOL_MEAN;
layout(constant_id = 2) const uint HAS_LENGTHS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats dy;
    Integers lengths;
    Floats dx; /* [batch, steps, features] */
    Integers position;
    uint batch, steps, features, count;
};
TYPED(dy, 0) TYPED(dx, 2)

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint row = i / features, sequence = row / steps, t = row % steps;
        const uint at = sequence * features + i % features;
        const uint length =
            HAS_LENGTHS != 0 ? length_within(lengths.at[sequence], steps) : steps;
        float gradient = 0.0;

        if (KIND == TIME_POOL_MEAN && t < length)
            gradient = GET(dy, at) / float(length);
        else if ((KIND == TIME_POOL_LAST && t == length - 1) || (KIND == TIME_POOL_FIRST && t == 0))
            gradient = GET(dy, at);
        else if (KIND == TIME_POOL_MAXIMUM && int(t) == position.at[at])
            gradient = GET(dy, at);
        PUT(dx, i, gradient);
    }
}
