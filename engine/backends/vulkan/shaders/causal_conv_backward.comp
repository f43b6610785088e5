#version 460
#extension GL_GOOGLE_include_directive : require
/* causal_conv_backward.comp: the gradient by x: a step has a part in those behind it. */
#include "causal_conv.glsl"

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint channel = i % channels, now = step_of(i / channels);
        float sum = 0.0;

        for (uint distance = 0; distance < KERNEL; distance++)
            if (now + distance < length)
                sum += weight.at[channel * KERNEL + KERNEL - 1 - distance] *
                       GET(gradient, later(i, distance));
        PUT(dx, i, sum);
    }
}
