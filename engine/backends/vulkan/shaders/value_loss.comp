#version 460
#extension GL_GOOGLE_include_directive : require
/* value_loss.comp: losses of values: a row's mean; or, BACKWARD, the gradient by the prediction.
 * The formulas are those of engine/backends/cpu/kernels/value_loss.c. */
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint KIND = 0;
layout(constant_id = 2) const uint BACKWARD = 0;
layout(constant_id = 3) const uint COUNT = 0; /* of the loss' numbers */

layout(push_constant, scalar) uniform Push
{
    Floats prediction, target, result, numbers;
    Scalars scalars;
    uint rows, features, targets;
    float parameter;
};

/* Those of enum value_loss, which losses.c asserts. */
const uint MAE = 0, HUBER = 1, QUANTILE = 2, BINARY = 3, COSINE = 4, SMOOTH_L1 = 5, QUANTILES = 6;

float huber(float difference)
{
    const float size = abs(difference);

    return size <= parameter ? 0.5 * size * size : parameter * (size - 0.5 * parameter);
}

/* max(q e, (q - 1) e) of the error e. */
float pinball(float error, float quantile)
{
    return (error > 0.0 ? quantile : quantile - 1.0) * error;
}

/* In the middle where the error is 0; NaN stays. */
float pinball_slope(float error, float quantile)
{
    return error > 0.0 ? -quantile : error < 0.0 ? 1.0 - quantile : 0.5 - quantile + error;
}

float softplus(float x)
{
    return max(x, 0.0) + log_1p(exp(-abs(x)));
}

/* The weight of a label that is 1. */
float label_weight(uint feature)
{
    return COUNT == 0 ? 1.0 : numbers.at[COUNT > 1 ? feature : 0];
}

float value_of(uint feature, float x, float t)
{
    switch (KIND) {
    case MAE:
        return abs(x - t);
    case HUBER:
        return huber(x - t);
    case SMOOTH_L1:
        return huber(x - t) / parameter;
    case QUANTILE:
        return pinball(t - x, parameter);
    case QUANTILES:
        return pinball(t - x, numbers.at[feature % max(COUNT, 1)]);
    default: /* BINARY */
        return (1.0 - t) * x + (1.0 + (label_weight(feature) - 1.0) * t) * softplus(-x);
    }
}

float slope_of(uint feature, float x, float t)
{
    const float e = x - t;

    switch (KIND) {
    case MAE:
        return e > 0.0 ? 1.0 : e < 0.0 ? -1.0 : e;
    case HUBER:
        return e > parameter ? parameter : e < -parameter ? -parameter : e;
    case SMOOTH_L1:
        return e > parameter ? 1.0 : e < -parameter ? -1.0 : e / parameter;
    case QUANTILE:
        return pinball_slope(t - x, parameter);
    case QUANTILES:
        return pinball_slope(t - x, numbers.at[feature % max(COUNT, 1)]);
    default: /* BINARY */
        return (1.0 - t) / (1.0 + exp(-x)) - label_weight(feature) * t / (1.0 + exp(x));
    }
}

/* The cosine of the row and its target, and both lengths, which count at least as torch's eps. */
vec3 row_cosine(uint row)
{
    float product = 0.0, left = 0.0, right = 0.0;

    for (uint f = gl_LocalInvocationID.x; f < features; f += WORKGROUP) {
        const float a = prediction.at[row * features + f], b = target.at[row * features + f];

        product += a * b;
        left += a * a;
        right += b * b;
    }
    product = workgroup_sum(product);
    left = max(sqrt(workgroup_sum(left)), 1e-8);
    right = max(sqrt(workgroup_sum(right)), 1e-8);
    return vec3(product / (left * right), left, right);
}

void forward(uint row)
{
    float sum = 0.0;

    if (KIND == COSINE) {
        sum = 1.0 - row_cosine(row).x;
    } else {
        for (uint f = gl_LocalInvocationID.x; f < features; f += WORKGROUP) {
            /* several quantiles of a value side by side have one target */
            const uint t = KIND == QUANTILES ? f / max(COUNT, 1) : f;

            sum += value_of(f, prediction.at[row * features + f], target.at[row * targets + t]);
        }
        sum = workgroup_sum(sum) / float(features);
    }
    if (gl_LocalInvocationID.x == 0)
        result.at[row] = sum;
}

void backward(uint row)
{
    const float scale = scalars.loss_factor / float(rows), each = scale / float(features);
    vec3 cosine = vec3(0.0);

    if (KIND == COSINE)
        cosine = row_cosine(row);
    for (uint f = gl_LocalInvocationID.x; f < features; f += WORKGROUP) {
        const uint t = KIND == QUANTILES ? f / max(COUNT, 1) : f;
        const float x = prediction.at[row * features + f], wanted = target.at[row * targets + t];

        result.at[row * features + f] =
            KIND == COSINE ? scale * (cosine.x * x / cosine.y - wanted / cosine.z) / cosine.y
                           : each * slope_of(f, x, wanted);
    }
}

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        if (BACKWARD != 0)
            backward(row);
        else
            forward(row);
    }
}
