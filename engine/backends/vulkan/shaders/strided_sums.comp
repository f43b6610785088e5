#version 460
#extension GL_GOOGLE_include_directive : require
/* strided_sums.comp: sums over rows that lie `stride` numbers apart. A workgroup has COLUMNS of
 * their columns, and adds up several rows at a time. */
#include "common.glsl"

layout(constant_id = 1) const uint ACCUMULATE = 0;
layout(constant_id = 2) const uint COLUMNS = 16; /* a power of two, at most WORKGROUP */

layout(push_constant, scalar) uniform Push
{
    Floats x, sums;
    uint rows, stride, columns;
};

void main()
{
    const uint own = gl_LocalInvocationID.x, at_once = WORKGROUP / COLUMNS;

    FOR_EACH_ROW(block, (columns + COLUMNS - 1) / COLUMNS)
    {
        const uint column = block * COLUMNS + own % COLUMNS;
        float sum = 0.0;

        if (column < columns)
            for (uint r = own / COLUMNS; r < rows; r += at_once)
                sum += x.at[r * stride + column];
        workgroup_values[own] = sum;
        barrier();
        for (uint distance = at_once / 2; distance > 0; distance /= 2) {
            if (own < distance * COLUMNS)
                workgroup_values[own] += workgroup_values[own + distance * COLUMNS];
            barrier();
        }
        if (own < COLUMNS && column < columns)
            sums.at[column] =
                workgroup_values[own] + (ACCUMULATE != 0 ? sums.at[column] : 0.0);
        barrier();
    }
}
