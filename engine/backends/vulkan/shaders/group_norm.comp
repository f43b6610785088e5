#version 460
#extension GL_GOOGLE_include_directive : require
/* group_norm.comp: y = (x - mean) inverse_std weight + bias, with moments of each sample's group of
 * channels, whose numbers lie side by side: a group is a channel of channels.glsl. */
#include "common.glsl"
#include "channels.glsl"
#include "moments.glsl"

layout(constant_id = 2) const uint KEEPS_MOMENTS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, weight, bias, y, mean, inverse_std, moments;
    Channels shape;
    uint moments_part;     /* the part of shape that moments were found of */
    uint channels, pixels; /* of a sample; of a channel */
    float epsilon;
};
TYPED(x, 0) TYPED(y, 3)

void main()
{
    FOR_EACH_CHANNEL(group, shape.channels)
    {
        const Moments joined =
            join_moments(moments, shape.channels, group, shape.pixels, moments_part);
        const float inverse = 1.0 / sqrt(joined.square / float(shape.pixels) + epsilon);

        if (KEEPS_MOMENTS != 0 && gl_WorkGroupID.y == 0 && gl_LocalInvocationID.x == 0) {
            mean.at[group] = joined.mean;
            inverse_std.at[group] = inverse;
        }
        FOR_EACH_NUMBER(cursor, shape, group)
        {
            const uint c = cursor.place / pixels % channels;

            PUT(y, cursor.place,
                (GET(x, cursor.place) - joined.mean) * (inverse * weight.at[c]) + bias.at[c]);
        }
    }
}
