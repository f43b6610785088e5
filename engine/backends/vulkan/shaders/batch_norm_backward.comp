#version 460
#extension GL_GOOGLE_include_directive : require
/* batch_norm_backward.comp: the gradients of a batch norm, from the sums that channel_sums.comp
 * left of each part. */
#include "common.glsl"
#include "channels.glsl"

layout(constant_id = 2) const uint HAS_PARAMETERS = 3; /* 1: dweight is wanted, 2: dbias */
layout(constant_id = 3) const uint ACCUMULATE = 0;     /* 1: dweight is added to, 2: dbias */
layout(constant_id = 4) const uint BEHIND = 0;
layout(constant_id = 5) const uint ACTIVATION = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, dy, weight, mean, inverse_std, dx, dweight, dbias, sums;
    Floats second, bias; /* with BEHIND */
    Channels shape;
    uint parts;
};
TYPED(x, 0) TYPED(dy, 1) TYPED(dx, 5) TYPED(second, 9)
#include "behind.glsl"

void main()
{
    const float share = 1.0 / float(shape.samples * shape.pixels);

    FOR_EACH_CHANNEL(c, shape.channels)
    {
        float sum = 0.0, product = 0.0, center = 0.0, inverse = 0.0, factor = 0.0, offset = 0.0;

        if (c < shape.channels) {
            for (uint part = 0; part < parts; part++) {
                sum += sums.at[part * shape.channels + c];
                product += sums.at[(parts + part) * shape.channels + c];
            }
            center = mean.at[c];
            inverse = inverse_std.at[c];
            factor = weight.at[c] * inverse;
            offset = (BEHIND & BEHIND_OPERAND) != 0 ? bias.at[c] : 0.0;
            product *= inverse;
            if (gl_WorkGroupID.y == 0 && gl_LocalInvocationID.x < ACROSS) {
                if ((HAS_PARAMETERS & 1) != 0)
                    dweight.at[c] = product + ((ACCUMULATE & 1) != 0 ? dweight.at[c] : 0.0);
                if ((HAS_PARAMETERS & 2) != 0)
                    dbias.at[c] = sum + ((ACCUMULATE & 2) != 0 ? dbias.at[c] : 0.0);
            }
        }
        FOR_EACH_NUMBER(cursor, shape, c)
        {
            const float distance = GET(x, cursor.place) - center;
            const float d = behind_operand(incoming_at(cursor.place), distance * factor + offset);

            PUT(dx, cursor.place,
                (d - sum * share - distance * (inverse * product * share)) * factor);
        }
    }
}
