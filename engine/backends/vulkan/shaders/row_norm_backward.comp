#version 460
#extension GL_GOOGLE_include_directive : require
/* row_norm_backward.comp: the gradient of layer norm (CENTRED) and RMS norm by the row that was
 * normalised, a workgroup for each row. */
#include "common.glsl"

layout(constant_id = 1) const uint CENTRED = 0;
layout(constant_id = 2) const uint HAS_SUM = 0; /* the row has another gradient, which is added */

layout(push_constant, scalar) uniform Push
{
    Floats dy, x, weight, inverse, dsum, mean, dx;
    uint rows, width;
};
TYPED(dy, 0) TYPED(x, 1) TYPED(dsum, 4) TYPED(dx, 6)

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        const uint first = row * width;
        const float factor = inverse.at[row], center = CENTRED != 0 ? mean.at[row] : 0.0;
        float sum = 0.0, product = 0.0, offset = 0.0, slope;

        for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) {
            const float scaled = GET(dy, first + i) * weight.at[i];

            sum += scaled;
            product += scaled * (GET(x, first + i) - center);
        }
        if (CENTRED != 0)
            offset = -factor * workgroup_sum(sum) / float(width);
        slope = -factor * factor * factor * workgroup_sum(product) / float(width);
        for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
            PUT(dx, first + i, GET(dy, first + i) * weight.at[i] * factor +
                               (GET(x, first + i) - center) * slope + offset +
                               (HAS_SUM != 0 ? GET(dsum, first + i) : 0.0));
    }
}
