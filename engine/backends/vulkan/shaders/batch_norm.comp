#version 460
#extension GL_GOOGLE_include_directive : require
/* batch_norm.comp: y = act((x - mean) inverse_std weight + bias + addend). In training the moments
 * are joined from those of parts, and the running ones follow; else they are known. The gradient of
 * a frozen norm is the same without mean and bias. */
#include "common.glsl"
#include "activations.glsl"
#include "channels.glsl"
#include "moments.glsl"

layout(constant_id = 2) const uint MOMENTS = BATCH_NORM_JOINED;
layout(constant_id = 3) const uint ACTIVATION = 0; /* 1 + its number; 0: none */
layout(constant_id = 4) const uint HAS_ADDEND = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, weight, bias;
    Floats mean, variance; /* running, or mean and inverse_std themselves */
    Floats y, batch_mean, batch_inverse_std, moments, addend;
    Channels shape;
    uint moments_part; /* the part of shape that moments were found of */
    float epsilon, momentum;
};
TYPED(x, 0) TYPED(y, 5) TYPED(addend, 9)

/* What the channel is normalised with. */
struct Applied {
    float mean, inverse_std;
};

Applied join_batch(uint c)
{
    const uint numbers = shape.samples * shape.pixels;
    const Moments joined = join_moments(moments, shape.channels, c, numbers, moments_part);
    const float inverse = 1.0 / sqrt(joined.square / float(numbers) + epsilon);

    if (gl_WorkGroupID.y == 0 && gl_LocalInvocationID.x < ACROSS) {
        batch_mean.at[c] = joined.mean;
        batch_inverse_std.at[c] = inverse;
        mean.at[c] += momentum * (joined.mean - mean.at[c]);
        variance.at[c] += momentum * (joined.square / float(numbers - 1) - variance.at[c]);
    }
    return Applied(joined.mean, inverse);
}

Applied applied_of(uint c)
{
    if (c >= shape.channels)
        return Applied(0.0, 0.0);
    switch (MOMENTS) {
    case BATCH_NORM_JOINED:
        return join_batch(c);
    case BATCH_NORM_KNOWN:
        return Applied(mean.at[c], variance.at[c]);
    case BATCH_NORM_RUNNING:
        return Applied(mean.at[c], 1.0 / sqrt(variance.at[c] + epsilon));
    default:
        return Applied(0.0, 1.0 / sqrt(variance.at[c] + epsilon));
    }
}

void main()
{
    FOR_EACH_CHANNEL(c, shape.channels)
    {
        const Applied own = applied_of(c);
        const float factor = c < shape.channels ? own.inverse_std * weight.at[c] : 0.0;
        const float offset = MOMENTS != BATCH_NORM_FROZEN && c < shape.channels ? bias.at[c] : 0.0;

        FOR_EACH_NUMBER(cursor, shape, c)
        PUT(y, cursor.place,
            activated(ACTIVATION, (GET(x, cursor.place) - own.mean) * factor + offset +
                                      (HAS_ADDEND != 0 ? GET(addend, cursor.place) : 0.0)));
    }
}
