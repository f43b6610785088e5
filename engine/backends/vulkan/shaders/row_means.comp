#version 460
#extension GL_GOOGLE_include_directive : require
/* row_means.comp: the mean of each row, with a workgroup for it: of pools whose window is the whole
 * image. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, means;
    uint rows, width;
};
TYPED(x, 0) TYPED(means, 1)

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        float sum = 0.0;

        for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
            sum += GET(x, row * width + i);
        sum = workgroup_sum(sum);
        if (gl_LocalInvocationID.x == 0)
            PUT(means, row, sum / float(width));
    }
}
