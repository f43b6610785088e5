#version 460
#extension GL_GOOGLE_include_directive : require
/* loss_sum.comp: one workgroup adds up the rows' losses for the host, and counts the labels. */
#include "common.glsl"

layout(constant_id = 1) const uint TARGET = TARGET_LABELS;
layout(constant_id = 2) const uint COUNTS_CORRECT = 1;

layout(push_constant, scalar) uniform Push
{
    Floats loss;
    Integers correct, label;
    Results results;
    Control control;
    uint rows;
};

void main()
{
    float sum = 0.0, right = 0.0, counted = 0.0; /* counts are exact up to 2^24 */

    for (uint r = gl_LocalInvocationID.x; r < rows; r += WORKGROUP) {
        sum += loss.at[r];
        if (COUNTS_CORRECT != 0)
            right += float(correct.at[r]);
        if (TARGET == TARGET_COUNTS)
            counted += float(correct.at[r]);
        else
            counted += TARGET != TARGET_TOKENS || label.at[r] != -1 ? 1.0 : 0.0;
    }
    sum = workgroup_sum(sum);
    right = workgroup_sum(right);
    counted = workgroup_sum(counted);
    if (gl_LocalInvocationID.x > 0)
        return;
    control.labels = int(counted);
    results.loss = sum;
    results.labels = int(counted);
    results.correct = int(right);
}
