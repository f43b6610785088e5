#version 460
#extension GL_GOOGLE_include_directive : require
/* channel_scale_backward.comp: dx = dy scale, and dscale = the sum of dy x, with a workgroup for
 * each channel of a sample. dx may be in the place of dy. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats dy, x, scale, dx, dscale;
    uint rows, pixels;
};

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        const float factor = scale.at[row];
        float sum = 0.0;

        for (uint i = gl_LocalInvocationID.x; i < pixels; i += WORKGROUP) {
            const uint at = row * pixels + i;
            const float d = dy.at[at];

            sum += d * x.at[at];
            dx.at[at] = d * factor;
        }
        sum = workgroup_sum(sum);
        if (gl_LocalInvocationID.x == 0)
            dscale.at[row] = sum;
    }
}
