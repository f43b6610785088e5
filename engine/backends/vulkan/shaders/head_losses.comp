#version 460
#extension GL_GOOGLE_include_directive : require
/* head_losses.comp: the losses of several heads, whose logits and labels follow each other in a
 * row: their weighted sum; or, BACKWARD, the gradient by the logits. A workgroup has a row. */
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint BACKWARD = 0;
layout(constant_id = 2) const uint HEADS = 1;

/* What numbers of the loss the host has for a head (exchange.c). */
const uint HEAD_CLASSES = 0, HEAD_LABELS = 1, HEAD_IS_BINARY = 2, HEAD_WEIGHT = 3, HEAD_NUMBERS = 4;

layout(push_constant, scalar) uniform Push
{
    Floats logits;
    Integers label;
    Floats result, numbers;
    Scalars scalars;
    uint rows, classes, labels; /* of all heads together */
};

/* log of the sum of e^logit, or of a binary head the sum of log(1 + e^logit). */
float head_total(uint first, uint count, bool binary)
{
    float largest = -INFINITY, sum = 0.0;

    for (uint c = gl_LocalInvocationID.x; c < count && !binary; c += WORKGROUP)
        largest = max(largest, logits.at[first + c]);
    largest = workgroup_maximum(largest);
    for (uint c = gl_LocalInvocationID.x; c < count; c += WORKGROUP) {
        const float z = logits.at[first + c];

        sum += binary ? max(z, 0.0) + log_1p(exp(-abs(z))) : exp(z - largest);
    }
    sum = workgroup_sum(sum);
    return binary ? sum : largest + log(sum);
}

/* The head's loss, without its weight. */
float loss_of(uint first, uint first_label, uint count, uint own, bool binary)
{
    float total = head_total(first, count, binary) * (binary ? 1.0 : float(own));

    for (uint k = 0; k < own; k++) {
        const int wanted = label.at[first_label + k];
        const bool known = wanted >= 0 && wanted < int(count);

        total -= known ? logits.at[first + uint(wanted)] : NOT_A_NUMBER;
    }
    return total / float(binary ? count : own);
}

/* A label that occurs twice counts twice. */
void slopes_of(uint first, uint first_label, uint count, uint own, bool binary, float factor)
{
    const float share = factor / float(binary ? count : own);
    const float total = head_total(first, count, binary);

    for (uint c = gl_LocalInvocationID.x; c < count; c += WORKGROUP) {
        const float z = logits.at[first + c];
        float d = binary ? share / (1.0 + exp(-z)) : factor * exp(z - total);

        for (uint k = 0; k < own; k++)
            d -= label.at[first_label + k] == int(c) ? share : 0.0;
        result.at[first + c] = d;
    }
}

void main()
{
    const float scale = scalars.loss_factor / float(rows);

    FOR_EACH_ROW(row, rows)
    {
        uint first = row * classes, first_label = row * labels;
        float sum = 0.0;

        for (uint h = 0; h < HEADS; h++) {
            const uint count = uint(numbers.at[h * HEAD_NUMBERS + HEAD_CLASSES]);
            const uint own = uint(numbers.at[h * HEAD_NUMBERS + HEAD_LABELS]);
            const bool binary = numbers.at[h * HEAD_NUMBERS + HEAD_IS_BINARY] != 0.0;
            const float weight = numbers.at[h * HEAD_NUMBERS + HEAD_WEIGHT];

            if (BACKWARD != 0)
                slopes_of(first, first_label, count, own, binary, scale * weight);
            else
                sum += weight * loss_of(first, first_label, count, own, binary);
            first += count;
            first_label += own;
        }
        if (BACKWARD == 0 && gl_LocalInvocationID.x == 0)
            result.at[row] = sum;
    }
}
