#version 460
#extension GL_GOOGLE_include_directive : require
/* cross_entropy.comp: softmax cross entropy, a workgroup for each row of logits. It leaves the
 * logarithm of the sum of e^logit, the row's loss, and whether the largest logit is the label's. */
#include "common.glsl"

layout(constant_id = 1) const uint TARGET = TARGET_LABELS;

layout(push_constant, scalar) uniform Push
{
    Floats logits, target, log_sum_exp, loss;
    Integers correct;
    uint rows, classes;
};

shared uint workgroup_places[WORKGROUP];

/* The place of the first number of the row that equals its maximum. */
uint first_place(Floats values, uint row, float maximum)
{
    const uint own = gl_LocalInvocationID.x;
    uint place = classes;

    for (uint c = own; c < classes; c += WORKGROUP)
        if (values.at[row * classes + c] == maximum && place == classes)
            place = c;
    workgroup_places[own] = place;
    barrier();
    for (uint distance = WORKGROUP / 2; distance > 0; distance /= 2) {
        if (own < distance)
            workgroup_places[own] = min(workgroup_places[own], workgroup_places[own + distance]);
        barrier();
    }
    place = workgroup_places[0];
    barrier();
    return place;
}

float row_maximum(Floats values, uint row)
{
    float maximum = -INFINITY;

    for (uint c = gl_LocalInvocationID.x; c < classes; c += WORKGROUP)
        maximum = max(maximum, values.at[row * classes + c]);
    return workgroup_maximum(maximum);
}

float row_sum_exp(uint row, float maximum)
{
    float sum = 0.0;

    for (uint c = gl_LocalInvocationID.x; c < classes; c += WORKGROUP)
        sum += exp(logits.at[row * classes + c] - maximum);
    return workgroup_sum(sum);
}

void store_label(uint row, float total, uint best)
{
    const int label = Integers(target).at[row];
    const bool known = label >= 0 && label < int(classes);
    const bool counts = TARGET != TARGET_TOKENS || label != -1;

    loss.at[row] = !counts ? 0.0
                   : known ? total - logits.at[row * classes + uint(label)]
                           : NOT_A_NUMBER;
    correct.at[row] = int(counts && known && best == uint(label));
}

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        const float maximum = row_maximum(logits, row);
        const uint best = first_place(logits, row, maximum);
        const float total = maximum + log(row_sum_exp(row, maximum));

        if (TARGET == TARGET_PROBABILITIES) {
            const uint likeliest = first_place(target, row, row_maximum(target, row));
            float sum = 0.0;

            for (uint c = gl_LocalInvocationID.x; c < classes; c += WORKGROUP)
                sum += target.at[row * classes + c] * (total - logits.at[row * classes + c]);
            sum = workgroup_sum(sum);
            if (gl_LocalInvocationID.x == 0) {
                loss.at[row] = sum;
                correct.at[row] = int(best == likeliest);
            }
        } else if (gl_LocalInvocationID.x == 0) {
            store_label(row, total, best);
        }
        if (gl_LocalInvocationID.x == 0)
            log_sum_exp.at[row] = total;
    }
}
