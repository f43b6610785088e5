#version 460
#extension GL_GOOGLE_include_directive : require
/* row_norm_weights.comp: the gradients of a norm's weight and bias: of each part of the rows, the
 * sums of dy times the normalised row, and of dy. A workgroup has COLUMNS columns of a part. */
#include "common.glsl"

layout(constant_id = 1) const uint CENTRED = 0;

layout(push_constant, scalar) uniform Push
{
    Floats dy, x, inverse, mean, sums;
    uint rows, width, rows_of_part;
};
TYPED(dy, 0) TYPED(x, 1)

const uint COLUMNS = 32, AT_ONCE = WORKGROUP / COLUMNS;

/* The sum over the invocations that share a column, which the first of them gets. */
float column_sum(float value)
{
    const uint own = gl_LocalInvocationID.x;

    workgroup_values[own] = value;
    barrier();
    for (uint distance = AT_ONCE / 2; distance > 0; distance /= 2) {
        if (own < distance * COLUMNS)
            workgroup_values[own] += workgroup_values[own + distance * COLUMNS];
        barrier();
    }
    value = workgroup_values[own % COLUMNS];
    barrier();
    return value;
}

void main()
{
    const uint own = gl_LocalInvocationID.x, part = gl_WorkGroupID.y;
    const uint column = gl_WorkGroupID.x * COLUMNS + own % COLUMNS;
    const uint begin = part * rows_of_part, end = min(begin + rows_of_part, rows);
    float weights = 0.0, biases = 0.0;

    if (column < width)
        for (uint r = begin + own / COLUMNS; r < end; r += AT_ONCE) {
            const float gradient = GET(dy, r * width + column);
            const float center = CENTRED != 0 ? mean.at[r] : 0.0;

            weights += gradient * ((GET(x, r * width + column) - center) * inverse.at[r]);
            biases += gradient;
        }
    weights = column_sum(weights);
    biases = column_sum(biases);
    if (own < COLUMNS && column < width) {
        sums.at[part * 2 * width + column] = weights;
        sums.at[part * 2 * width + width + column] = biases;
    }
}
