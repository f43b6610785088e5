#version 460
#extension GL_GOOGLE_include_directive : require
/* convolution_weights_direct.comp: the gradient by the weights, for few channels in a group: a
 * workgroup has one weight and a part of the pixels of all samples. */
#include "common.glsl"
#include "convolution.glsl"

layout(constant_id = 1) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, dy, target; /* the gradient, or that of each part */
    Convolution conv;
    uint part, parts; /* pixels of a part, and how many there are */
};
TYPED(x, 0) TYPED(dy, 1)

float sum_weight(uint group, uint to_channel, uint from_channel, uvec2 tap, uint first, uint end)
{
    const uint pixels = conv.to.x * conv.to.y, plane = conv.from.x * conv.from.y;
    float sum = 0.0;

    for (uint i = first + gl_LocalInvocationID.x; i < end; i += WORKGROUP) {
        const uint image = i / pixels * conv.groups + group, pixel = i % pixels;
        const uvec2 place = uvec2(pixel / conv.to.y, pixel % conv.to.y) * conv.stride +
                            tap * conv.dilation - conv.padding;

        if (place.x < conv.from.x && place.y < conv.from.y)
            sum += GET(dy, (image * conv.to_channels + to_channel) * pixels + pixel) *
                   GET(x, (image * conv.from_channels + from_channel) * plane +
                        place.x * conv.from.y + place.y);
    }
    return workgroup_sum(sum);
}

void main()
{
    const uint taps = conv.kernel.x * conv.kernel.y, row = conv.from_channels * taps;
    const uint weights = conv.groups * conv.to_channels * row;
    const uint end = conv.samples * conv.to.x * conv.to.y;

    FOR_EACH_ROW(i, weights * parts)
    {
        const uint channel = i % weights / row, tap = i % taps, first = i / weights * part;
        const float sum = sum_weight(channel / conv.to_channels, channel % conv.to_channels,
                                     i % row / taps,
                                     uvec2(tap / conv.kernel.y, tap % conv.kernel.y), first,
                                     min(first + part, end));

        if (gl_LocalInvocationID.x == 0)
            target.at[i] = sum + (ACCUMULATE != 0 ? target.at[i] : 0.0);
    }
}
