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
TYPED(dy, 0) TYPED(x, 1) TYPED(scale, 2) TYPED(dx, 3) TYPED(dscale, 4)

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        const float factor = GET(scale, row);
        float sum = 0.0;

        for (uint i = gl_LocalInvocationID.x; i < pixels; i += WORKGROUP) {
            const uint at = row * pixels + i;
            const float d = GET(dy, at);

            sum += d * GET(x, at);
            PUT(dx, at, d * factor);
        }
        sum = workgroup_sum(sum);
        if (gl_LocalInvocationID.x == 0)
            PUT(dscale, row, sum);
    }
}
