#version 460
#extension GL_GOOGLE_include_directive : require
/* triplet_loss_backward.comp: the gradient of the mean triplet loss. A workgroup has a sample. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, saved, dx;
    Scalars scalars;
    uint rows, features;
};

void main()
{
    const uint width = 2 * rows + 1;
    float triplets = 0.0, scale;

    for (uint r = gl_LocalInvocationID.x; r < rows; r += WORKGROUP)
        triplets += saved.at[r * width + 2 * rows];
    triplets = workgroup_sum(triplets);
    scale = triplets > 0.0 ? scalars.loss_factor / triplets : 0.0;
    FOR_EACH_ROW(i, rows)
    {
        for (uint f = gl_LocalInvocationID.x; f < features; f += WORKGROUP) {
            float sum = 0.0;

            for (uint k = 0; k < rows; k++) {
                const float pull = saved.at[i * width + k] + saved.at[k * width + i];

                if (pull != 0.0)
                    sum += pull * (x.at[i * features + f] - x.at[k * features + f]);
            }
            dx.at[i * features + f] = sum * scale;
        }
    }
}
