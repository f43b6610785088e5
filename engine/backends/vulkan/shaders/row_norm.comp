#version 460
#extension GL_GOOGLE_include_directive : require
/* row_norm.comp: layer norm (CENTRED) and RMS norm, a workgroup for each row; of x, or of x and a
 * residual, whose sum it stores. */
#include "common.glsl"

layout(constant_id = 1) const uint CENTRED = 0;
layout(constant_id = 2) const uint HAS_BIAS = 0;
layout(constant_id = 3) const uint HAS_RESIDUAL = 0;
layout(constant_id = 4) const uint KEEPS_MOMENTS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, weight, bias, residual, y, sum, inverse, mean;
    uint rows, width;
    float epsilon;
};
TYPED(x, 0) TYPED(residual, 3) TYPED(y, 4) TYPED(sum, 5)

/* What is normalised. */
float value_at(uint i)
{
    return HAS_RESIDUAL != 0 ? GET(sum, i) : GET(x, i);
}

void main()
{
    const uint own = gl_LocalInvocationID.x;

    FOR_EACH_ROW(row, rows)
    {
        const uint first = row * width;
        float total = 0.0, center = 0.0, squares = 0.0, factor;

        for (uint i = own; i < width; i += WORKGROUP) {
            if (HAS_RESIDUAL != 0)
                PUT(sum, first + i, GET(x, first + i) + GET(residual, first + i));
            total += value_at(first + i);
        }
        if (CENTRED != 0)
            center = workgroup_sum(total) / float(width);
        for (uint i = own; i < width; i += WORKGROUP) {
            const float distance = value_at(first + i) - center;

            squares += distance * distance;
        }
        factor = 1.0 / sqrt(workgroup_sum(squares) / float(width) + epsilon);
        for (uint i = own; i < width; i += WORKGROUP)
            PUT(y, first + i, (value_at(first + i) - center) * factor * weight.at[i] +
                              (HAS_BIAS != 0 ? bias.at[i] : 0.0));
        if (KEEPS_MOMENTS != 0 && own == 0) {
            inverse.at[row] = factor;
            if (CENTRED != 0)
                mean.at[row] = center;
        }
    }
}
