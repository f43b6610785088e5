#version 460
#extension GL_GOOGLE_include_directive : require
/* window_lengths.comp: how many steps sequences have behind a convolution or a pool, at least 1. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Integers lengths, windows;
    uint batch;
    int more, stride;
};

void main()
{
    FOR_EACH_ELEMENT(i, batch)
    windows.at[i] = max(max(lengths.at[i] + more, 0) / stride, 1);
}
