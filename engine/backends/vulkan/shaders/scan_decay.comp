#version 460
#extension GL_GOOGLE_include_directive : require
/* scan_decay.comp: the gradient by the logarithms of the selective scan's decays, as
 * A = -exp(A_log). */
#include "common.glsl"

layout(constant_id = 1) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats a_log, da, da_log; /* [channel][state], [state][channel], [channel][state] */
    uint channels, states;
};

void main()
{
    FOR_EACH_ELEMENT(i, channels * states)
    da_log.at[i] = da.at[i % states * channels + i / states] * -exp(a_log.at[i]) +
                   (ACCUMULATE != 0 ? da_log.at[i] : 0.0);
}
