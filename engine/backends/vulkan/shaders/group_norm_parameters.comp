#version 460
#extension GL_GOOGLE_include_directive : require
/* group_norm_parameters.comp: the gradients by weight and bias of a group norm, from the sums that
 * channel_sums.comp left of each channel of each sample. */
#include "common.glsl"
#include "channels.glsl"

layout(constant_id = 2) const uint HAS_PARAMETERS = 3; /* 1: dweight is wanted, 2: dbias */
layout(constant_id = 3) const uint ACCUMULATE = 0;     /* 1: dweight is added to, 2: dbias */

layout(push_constant, scalar) uniform Push
{
    Floats inverse_std, sums, dweight, dbias;
    uint samples, channels, parts; /* parts of the sums */
    uint of_group;                 /* channels of a group */
};

void main()
{
    const uint rows = samples * channels;

    FOR_EACH_CHANNEL(c, channels)
    {
        float sum = 0.0, product = 0.0;

        for (uint i = gl_LocalInvocationID.x / ACROSS; i < samples * parts && c < channels;
             i += ROWS) {
            const uint row = i % samples * channels + c, part = i / samples;

            sum += sums.at[part * rows + row];
            product += sums.at[(parts + part) * rows + row] * inverse_std.at[row / of_group];
        }
        sum = channel_sum(sum);
        product = channel_sum(product);
        if (gl_LocalInvocationID.x < ACROSS && c < channels) {
            if ((HAS_PARAMETERS & 1) != 0)
                dweight.at[c] = product + ((ACCUMULATE & 1) != 0 ? dweight.at[c] : 0.0);
            if ((HAS_PARAMETERS & 2) != 0)
                dbias.at[c] = sum + ((ACCUMULATE & 2) != 0 ? dbias.at[c] : 0.0);
        }
    }
}
