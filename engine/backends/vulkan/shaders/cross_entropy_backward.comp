#version 460
#extension GL_GOOGLE_include_directive : require
/* cross_entropy_backward.comp: the gradient of the mean loss by the logits. */
#include "common.glsl"

layout(constant_id = 1) const uint TARGET = TARGET_LABELS;

layout(push_constant, scalar) uniform Push
{
    Floats logits, target, log_sum_exp, dlogits;
    Scalars scalars;
    Control control;
    uint rows, classes;
};

void main()
{
    const uint labels = TARGET == TARGET_TOKENS ? uint(max(control.labels, 1)) : rows;
    const float scale = scalars.loss_factor / float(labels);

    FOR_EACH_ROW(row, rows)
    {
        const float total = log_sum_exp.at[row];
        int label = -1;
        float sum = 1.0;

        if (TARGET == TARGET_PROBABILITIES) {
            sum = 0.0;
            for (uint c = gl_LocalInvocationID.x; c < classes; c += WORKGROUP)
                sum += target.at[row * classes + c];
            sum = workgroup_sum(sum);
        } else {
            label = Integers(target).at[row];
            if (TARGET == TARGET_TOKENS && label == -1)
                sum = 0.0;
        }
        for (uint c = gl_LocalInvocationID.x; c < classes; c += WORKGROUP) {
            const uint i = row * classes + c;
            const float wanted = TARGET == TARGET_PROBABILITIES ? target.at[i]
                                 : int(c) == label              ? 1.0
                                                                : 0.0;

            dlogits.at[i] = sum == 0.0 && TARGET == TARGET_TOKENS
                                ? 0.0
                                : scale * (sum * exp(logits.at[i] - total) - wanted);
        }
    }
}
