#version 460
#extension GL_GOOGLE_include_directive : require
/* batch_norm.comp: y = (x - mean) inverse_std weight + bias. In training the moments are joined from
 * those of parts, and the running ones follow; else they are known. The gradient of a frozen norm is
 * the same without mean and bias. */
#include "common.glsl"
#include "channels.glsl"

layout(constant_id = 2) const uint MOMENTS = BATCH_NORM_JOINED;

layout(push_constant, scalar) uniform Push
{
    Floats x, weight, bias;
    Floats mean, variance; /* running, or mean and inverse_std themselves */
    Floats y, batch_mean, batch_inverse_std, moments;
    Channels shape;
    uint moments_part, parts; /* of the moments */
    float epsilon, momentum;
};

struct Moments {
    float mean, inverse_std;
};

/* The squares around the common mean are those around a part's own and those of the distance of the
 * two means (Chan, Golub and LeVeque 1983). */
Moments join_moments(uint c)
{
    const uint numbers = shape.samples * shape.pixels;
    float center = 0.0, square = 0.0, joined;

    for (uint part = 0; part < parts; part++) {
        const uint own = min(moments_part, numbers - part * moments_part);

        center += (moments.at[part * shape.channels + c] - moments.at[c]) * float(own);
    }
    center = moments.at[c] + center / float(numbers);
    for (uint part = 0; part < parts; part++) {
        const uint at = part * shape.channels + c;
        const uint own = min(moments_part, numbers - part * moments_part);
        const float distance = moments.at[at] - center;

        square += moments.at[parts * shape.channels + at] + distance * distance * float(own);
    }
    joined = 1.0 / sqrt(square / float(numbers) + epsilon);
    if (gl_WorkGroupID.y == 0 && gl_LocalInvocationID.x < ACROSS) {
        batch_mean.at[c] = center;
        batch_inverse_std.at[c] = joined;
        mean.at[c] += momentum * (center - mean.at[c]);
        variance.at[c] += momentum * (square / float(numbers - 1) - variance.at[c]);
    }
    return Moments(center, joined);
}

Moments moments_of(uint c)
{
    if (c >= shape.channels)
        return Moments(0.0, 0.0);
    switch (MOMENTS) {
    case BATCH_NORM_JOINED:
        return join_moments(c);
    case BATCH_NORM_KNOWN:
        return Moments(mean.at[c], variance.at[c]);
    case BATCH_NORM_RUNNING:
        return Moments(mean.at[c], 1.0 / sqrt(variance.at[c] + epsilon));
    default:
        return Moments(0.0, 1.0 / sqrt(variance.at[c] + epsilon));
    }
}

void main()
{
    FOR_EACH_CHANNEL(c, shape.channels)
    {
        const Moments own = moments_of(c);
        const float factor = c < shape.channels ? own.inverse_std * weight.at[c] : 0.0;
        const float offset = MOMENTS != BATCH_NORM_FROZEN && c < shape.channels ? bias.at[c] : 0.0;

        FOR_EACH_NUMBER(place, shape, c)
        y.at[place] = (x.at[place] - own.mean) * factor + offset;
    }
}
