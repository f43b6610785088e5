#version 460
#extension GL_GOOGLE_include_directive : require
/* mse.comp: the loss of a row, the mean of its squared differences; or, BACKWARD, the gradient of
 * the mean loss by the prediction. */
#include "common.glsl"

layout(constant_id = 1) const uint BACKWARD = 0;

layout(push_constant, scalar) uniform Push
{
    Floats prediction, target, result; /* the rows' losses, or the gradient */
    Scalars scalars;
    uint rows, features;
};

void main()
{
    const float scale = 2.0 * scalars.loss_factor / (float(rows) * float(features));

    FOR_EACH_ROW(row, rows)
    {
        float sum = 0.0;

        for (uint f = gl_LocalInvocationID.x; f < features; f += WORKGROUP) {
            const uint i = row * features + f;
            const float difference = prediction.at[i] - target.at[i];

            if (BACKWARD != 0)
                result.at[i] = scale * difference;
            sum += difference * difference;
        }
        if (BACKWARD == 0) {
            sum = workgroup_sum(sum) / float(features);
            if (gl_LocalInvocationID.x == 0)
                result.at[row] = sum;
        }
    }
}
