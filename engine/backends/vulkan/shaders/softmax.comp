#version 460
#extension GL_GOOGLE_include_directive : require
/* softmax.comp: e^x over the sum of e^x, a workgroup for each row; or, BACKWARD, its gradient,
 * where x is that by the result, and y the result. */
#include "common.glsl"

layout(constant_id = 1) const uint BACKWARD = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, y, result;
    uint rows, width;
};
TYPED(x, 0) TYPED(y, 1) TYPED(result, 2)

void forward(uint first)
{
    float maximum = -INFINITY, sum = 0.0;

    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
        maximum = max(maximum, GET(x, first + i));
    maximum = workgroup_maximum(maximum);
    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
        sum += exp(GET(x, first + i) - maximum);
    sum = workgroup_sum(sum);
    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
        PUT(result, first + i, exp(GET(x, first + i) - maximum) / sum);
}

void backward(uint first)
{
    float sum = 0.0;

    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
        sum += GET(x, first + i) * GET(y, first + i);
    sum = workgroup_sum(sum);
    for (uint i = gl_LocalInvocationID.x; i < width; i += WORKGROUP)
        PUT(result, first + i, GET(y, first + i) * (GET(x, first + i) - sum));
}

void main()
{
    FOR_EACH_ROW(row, rows)
    {
        if (BACKWARD != 0)
            backward(row * width);
        else
            forward(row * width);
    }
}
