#version 460
#extension GL_GOOGLE_include_directive : require
/* sum_parts.comp: adds up sums that workgroups left of parts: parts [parts, count]. */
#include "common.glsl"

layout(constant_id = 1) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats parts_sums, sums;
    uint count, parts;
};

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        float sum = 0.0;

        for (uint part = 0; part < parts; part++)
            sum += parts_sums.at[part * count + i];
        sums.at[i] = sum + (ACCUMULATE != 0 ? sums.at[i] : 0.0);
    }
}
