#version 460
#extension GL_GOOGLE_include_directive : require
/* causal_conv.comp: each channel over the steps before it, with SiLU where asked for; or, GRADIENT,
 * the gradient by what SiLU is applied to. */
#include "causal_conv.glsl"

layout(constant_id = 4) const uint GRADIENT = 0;

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint channel = i % channels, now = step_of(i / channels);
        float sum = bias.at[channel], factor;

        for (uint k = 0; k < KERNEL; k++) {
            const uint distance = KERNEL - 1 - k;

            if (distance <= now)
                sum += weight.at[channel * KERNEL + k] * GET(x, earlier(i, distance));
        }
        factor = 1.0 / (1.0 + exp(-sum));
        PUT(y, i,
            GRADIENT != 0 ? GET(dy, i) * factor * (1.0 + sum * (1.0 - factor))
            : SILU != 0   ? sum * factor
                          : sum);
    }
}
