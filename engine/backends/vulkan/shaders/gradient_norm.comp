#version 460
#extension GL_GOOGLE_include_directive : require
/* gradient_norm.comp: partial sums of a gradient's squares. Each is a pair (s, q) that stands for
 * s^2 q, where s is the largest magnitude, so that squares neither overflow nor vanish (the scaled
 * sum of LAPACK's slassq). A number that is not finite leaves q = infinity. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats gradient;
    Control control;
    uint count;
    uint first; /* of the control's squares: one for each workgroup */
};

void main()
{
    float largest = 0.0, scale, sum = 0.0;
    bool finite = true;

    FOR_EACH_ELEMENT(i, count)
    {
        largest = max(largest, abs(gradient.at[i]));
        finite = finite && is_finite(gradient.at[i]);
    }
    scale = workgroup_maximum(finite ? largest : INFINITY);
    if (scale > 0.0 && is_finite(scale))
        FOR_EACH_ELEMENT(i, count)
        {
            const float part = gradient.at[i] / scale;

            sum += part * part;
        }
    sum = workgroup_sum(sum);
    if (gl_LocalInvocationID.x == 0)
        control.squares[first + gl_WorkGroupID.x] =
            is_finite(scale) ? vec2(scale, sum) : vec2(1.0, INFINITY);
}
