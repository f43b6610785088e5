#version 460
#extension GL_GOOGLE_include_directive : require
/* repeat.comp: y[o, k, i] = factor x[o, i]: the gradient of a sum over the middle axis. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    uint count, middle, inner;
    float factor;
};

void main()
{
    FOR_EACH_ELEMENT(i, count)
    y.at[i] = factor * x.at[i / (middle * inner) * inner + i % inner];
}
