#version 460
#extension GL_GOOGLE_include_directive : require
/* gradient_factor.comp: one workgroup makes of the partial sums the factor of the update's
 * gradients, and decides whether the update is skipped. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Control control;
    Results results;
    Scalars scalars;
    uint count; /* partial sums */
};

void main()
{
    float largest = 0.0, sum = 0.0, scale, norm, factor = scalars.unscale;
    bool finite;

    for (uint i = gl_LocalInvocationID.x; i < count; i += WORKGROUP)
        largest = max(largest, control.squares[i].x);
    scale = workgroup_maximum(largest);
    for (uint i = gl_LocalInvocationID.x; i < count; i += WORKGROUP) {
        const float part = scale > 0.0 ? control.squares[i].x / scale : 1.0;

        sum += part * part * control.squares[i].y;
    }
    sum = workgroup_sum(sum);
    if (gl_LocalInvocationID.x > 0)
        return;
    finite = is_finite(sum);
    norm = scale * sqrt(sum);
    if (scalars.clip_norm > 0.0) {
        const float clip = scalars.clip_norm / (norm * scalars.unscale + 1e-6);

        factor = clip < 1.0 ? clip * scalars.unscale : finite ? scalars.unscale : NOT_A_NUMBER;
    }
    control.gradient_factor = factor;
    control.skipped = int(scalars.finite_alone != 0 && !finite);
    results.skipped = control.skipped;
}
