#version 460
#extension GL_GOOGLE_include_directive : require
/* column_sums.comp: the sums of a matrix' columns. A workgroup has COLUMNS of them, and adds up
 * several rows at a time. */
#include "common.glsl"

layout(constant_id = 1) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, sums;
    uint rows, columns;
};

const uint COLUMNS = 16;

void main()
{
    const uint own = gl_LocalInvocationID.x, at_once = WORKGROUP / COLUMNS;
    const uint column = gl_WorkGroupID.x * COLUMNS + own % COLUMNS;
    float sum = 0.0;

    if (column < columns)
        for (uint r = own / COLUMNS; r < rows; r += at_once)
            sum += x.at[r * columns + column];
    workgroup_values[own] = sum;
    barrier();
    for (uint distance = at_once / 2; distance > 0; distance /= 2) {
        if (own < distance * COLUMNS)
            workgroup_values[own] += workgroup_values[own + distance * COLUMNS];
        barrier();
    }
    if (own < COLUMNS && column < columns)
        sums.at[column] = workgroup_values[own] + (ACCUMULATE != 0 ? sums.at[column] : 0.0);
}
