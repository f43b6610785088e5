#version 460
#extension GL_GOOGLE_include_directive : require
/* channel_sums.comp: of each channel and part the sum of dy and, where asked for, of dy times x
 * less the channel's mean. The products lie behind the sums of all parts. dy may first go through
 * what lies behind a batch norm (behind.glsl). */
#include "common.glsl"
#include "channels.glsl"

layout(constant_id = 2) const uint HAS_PRODUCTS = 0;
layout(constant_id = 3) const uint ACCUMULATE = 0;
layout(constant_id = 4) const uint BEHIND = 0;
layout(constant_id = 5) const uint ACTIVATION = 0;

layout(push_constant, scalar) uniform Push
{
    Floats dy, x, mean, sums;
    Floats second, result, stored, inverse_std, weight, bias; /* with BEHIND */
    Channels shape;
    uint parts, of_mean; /* how many there are; channels that share a mean */
};
TYPED(dy, 0) TYPED(x, 1) TYPED(second, 4) TYPED(result, 5) TYPED(stored, 6)
#include "behind.glsl"

void main()
{
    FOR_EACH_CHANNEL(c, shape.channels)
    {
        const float center = HAS_PRODUCTS != 0 && c < shape.channels ? mean.at[c / of_mean] : 0.0;
        const uint at = gl_WorkGroupID.y * shape.channels + c;
        const bool has_operand = (BEHIND & BEHIND_OPERAND) != 0 && c < shape.channels;
        const float scale = has_operand ? inverse_std.at[c] * weight.at[c] : 0.0;
        const float offset = has_operand ? bias.at[c] : 0.0;
        float sum = 0.0, product = 0.0;

        FOR_EACH_NUMBER(cursor, shape, c)
        {
            const float distance = HAS_PRODUCTS != 0 ? GET(x, cursor.place) - center : 0.0;
            float d = behind_operand(incoming_at(cursor.place), distance * scale + offset);

            if ((BEHIND & BEHIND_RESULT) != 0) {
                d = GET(result, cursor.place) > 0.0 ? d : 0.0;
                PUT(stored, cursor.place, d);
            }
            sum += d;
            product += d * distance;
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
