#version 460
#extension GL_GOOGLE_include_directive : require
/* group_norm_backward.comp: dx of a group norm, from the sums that channel_sums.comp left of each
 * channel of each sample. dx may be in the place of dy. */
#include "common.glsl"
#include "channels.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats dy, x, weight, mean, inverse_std, dx, sums;
    Channels shape;               /* groups of all samples */
    uint channels, pixels, parts; /* of a sample; of a channel; of the sums */
    uint of_group;                /* channels of a group */
};
TYPED(dy, 0) TYPED(x, 1) TYPED(dx, 5)

void main()
{
    const uint rows = shape.channels * of_group;
    const float share = 1.0 / float(shape.pixels);

    FOR_EACH_CHANNEL(group, shape.channels)
    {
        const float center = mean.at[group], inverse = inverse_std.at[group];
        float sum = 0.0, product = 0.0;

        for (uint k = gl_LocalInvocationID.x; k < of_group * parts; k += WORKGROUP) {
            const uint row = group * of_group + k % of_group, part = k / of_group;
            const float factor = weight.at[row % channels];

            sum += factor * sums.at[part * rows + row];
            product += factor * sums.at[(parts + part) * rows + row];
        }
        sum = workgroup_sum(sum) * share;
        product = workgroup_sum(product) * share * inverse * inverse;
        FOR_EACH_NUMBER(cursor, shape, group)
        {
            const float factor = weight.at[cursor.place / pixels % channels];

            PUT(dx, cursor.place, (GET(dy, cursor.place) * factor - sum -
                                   (GET(x, cursor.place) - center) * product) *
                                  inverse);
        }
    }
}
