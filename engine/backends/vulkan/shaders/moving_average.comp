#version 460
#extension GL_GOOGLE_include_directive : require
/* moving_average.comp: moves an average towards its value, as torch.lerp() does, which starts from
 * the nearer end. */
#include "common.glsl"

layout(constant_id = 1) const uint SUMMED = 0; /* the update may be skipped */
layout(constant_id = 2) const uint COPIES = 0; /* the average follows its value at once */

layout(push_constant, scalar) uniform Push
{
    Floats average, value;
    Scalars scalars;
    Control control;
    uint count;
};

void main()
{
    const float share = COPIES != 0 ? 1.0 : scalars.average_share, rest = 1.0 - share;

    if (SUMMED != 0 && control.skipped != 0)
        return;
    FOR_EACH_ELEMENT(i, count)
    {
        const float a = average.at[i], v = value.at[i];

        average.at[i] = share < 0.5 ? a + share * (v - a) : v - rest * (v - a);
    }
}
