#version 460
#extension GL_GOOGLE_include_directive : require
/* channel_sums.comp: of each channel and part the sum of dy and, where asked for, of dy times x
 * less the channel's mean. The products lie behind the sums of all parts. */
#include "common.glsl"
#include "channels.glsl"

layout(constant_id = 2) const uint HAS_PRODUCTS = 0;
layout(constant_id = 3) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats dy, x, mean, sums;
    Channels shape;
    uint parts, of_mean; /* how many there are; channels that share a mean */
};
TYPED(dy, 0) TYPED(x, 1)

void main()
{
    FOR_EACH_CHANNEL(c, shape.channels)
    {
        const float center = HAS_PRODUCTS != 0 && c < shape.channels ? mean.at[c / of_mean] : 0.0;
        const uint at = gl_WorkGroupID.y * shape.channels + c;
        float sum = 0.0, product = 0.0;

        FOR_EACH_NUMBER(cursor, shape, c)
        {
            const float d = GET(dy, cursor.place);

            sum += d;
            if (HAS_PRODUCTS != 0)
                product += d * (GET(x, cursor.place) - center);
        }
        sum = channel_sum(sum);
        if (HAS_PRODUCTS != 0)
            product = channel_sum(product);
        if (gl_LocalInvocationID.x < ACROSS && c < shape.channels) {
            sums.at[at] = sum + (ACCUMULATE != 0 ? sums.at[at] : 0.0);
            if (HAS_PRODUCTS != 0)
                sums.at[parts * shape.channels + at] = product;
        }
    }
}
