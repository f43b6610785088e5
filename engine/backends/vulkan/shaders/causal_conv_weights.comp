#version 460
#extension GL_GOOGLE_include_directive : require
/* causal_conv_weights.comp: the gradients by weight and bias, summed over a part of the rows. An
 * invocation has a channel. */
#include "causal_conv.glsl"

void main()
{
    const uint channel = gl_WorkGroupID.x * WORKGROUP + gl_LocalInvocationID.x;
    const uint part = gl_WorkGroupID.y, place = part * channels * (KERNEL + 1);
    const uint begin = part * rows_of_part, end = min(begin + rows_of_part, count / channels);
    float weights[KERNEL], total = 0.0;

    if (channel >= channels)
        return;
    [[unroll]] for (uint k = 0; k < KERNEL; k++)
        weights[k] = 0.0;
    for (uint row = begin; row < end; row++) {
        const uint i = row * channels + channel, now = step_of(row);
        const float g = GET(gradient, i);

        total += g;
        [[unroll]] for (uint k = 0; k < KERNEL; k++) {
            const uint distance = KERNEL - 1 - k;

            if (distance <= now)
                weights[k] += g * GET(x, earlier(i, distance));
        }
    }
    for (uint k = 0; k < KERNEL; k++)
        sums.at[place + channel * KERNEL + k] = weights[k];
    sums.at[place + channels * KERNEL + channel] = total;
}
