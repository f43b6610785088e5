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

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        const uint first = row * width;
        const float factor = inverse.at[row], center = CENTRED != 0 ? mean.at[row] : 0.0;
        float sum = 0.0, product = 0.0, offset = 0.0, slope;

        for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP) {
            const float scaled = dy.at[first + i] * weight.at[i];

            sum += scaled;
            product += scaled * (x.at[first + i] - center);
        }
        if (CENTRED != 0)
            offset = -factor * workgroup_sum(sum) / float(width);
        slope = -factor * factor * factor * workgroup_sum(product) / float(width);
        for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
            dx.at[first + i] = dy.at[first + i] * weight.at[i] * factor +
                               (x.at[first + i] - center) * slope + offset +
                               (HAS_SUM != 0 ? dsum.at[first + i] : 0.0);
    }
}
