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
TYPED(x, 0) TYPED(y, 1)

void main()
{
    FOR_EACH_ELEMENT(i, count)
    PUT(y, i, factor * GET(x, i / (middle * inner) * inner + i % inner));
}
