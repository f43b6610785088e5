#version 460
#extension GL_GOOGLE_include_directive : require
/* range.comp: the smallest and largest numbers of parts of a tensor; or, FOLLOW, one workgroup
 * moves the running range towards that of all parts, as PyTorch's MovingAverageMinMaxObserver
 * does. */
#include "common.glsl"
#include "quantization.glsl"

layout(constant_id = 1) const uint FOLLOW = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, parts, range;
    uint count; /* of x, or of the parts */
};
TYPED(x, 0)

const float RANGE_MOMENTUM = 0.01; /* PyTorch's averaging_constant */

void follow(vec2 found)
{
    const vec2 before = vec2(range.at[0], range.at[1]);
    const vec2 after = is_known(before) ? before + RANGE_MOMENTUM * (found - before) : found;

    if (!is_finite(found.x) || !is_finite(found.y))
        return; /* the loss will tell */
    range.at[0] = after.x;
    range.at[1] = after.y;
}

void main()
{
    float least = INFINITY, most = -INFINITY;

    FOR_EACH_ELEMENT(i, count)
    {
        least = min(least, FOLLOW != 0 ? parts.at[2 * i] : GET(x, i));
        most = max(most, FOLLOW != 0 ? parts.at[2 * i + 1] : GET(x, i));
    }
    least = -workgroup_maximum(-least);
    most = workgroup_maximum(most);
    if (gl_LocalInvocationID.x > 0)
        return;
    if (FOLLOW != 0) {
        follow(vec2(least, most));
    } else {
        parts.at[2 * gl_WorkGroupID.x] = least;
        parts.at[2 * gl_WorkGroupID.x + 1] = most;
    }
}
