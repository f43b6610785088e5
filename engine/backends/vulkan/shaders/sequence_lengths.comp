#version 460
#extension GL_GOOGLE_include_directive : require
/* sequence_lengths.comp: the steps of each sequence up to the last that is no padding, at least 1.
 * float32 holds them exactly up to 2^24. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Integers index, lengths;
    uint batch, steps;
    int padding;
};

void main()
{
    FOR_EACH_ROW(row, batch)
    {
        float length = 1.0;

        for (uint t = gl_LocalInvocationID.x; t < steps; t += WORKGROUP)
            if (index.at[row * steps + t] != padding)
                length = float(t + 1);
        length = workgroup_maximum(length);
        if (gl_LocalInvocationID.x == 0)
            lengths.at[row] = int(length);
    }
}
