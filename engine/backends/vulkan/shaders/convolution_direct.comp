#version 460
#extension GL_GOOGLE_include_directive : require
/* convolution_direct.comp: a convolution, or its gradient by x, by the definition: for results of
 * few channels in a group, as depthwise convolutions have them. */
#include "common.glsl"
#include "activations.glsl"
#include "convolution.glsl"

layout(constant_id = 1) const uint BACKWARD = 0;
layout(constant_id = 2) const uint HAS_BIAS = 0;
layout(constant_id = 3) const uint ACTIVATION = 0; /* 1 + its number; 0: none */

layout(push_constant, scalar) uniform Push
{
    Floats source, weight, bias, target;
    Convolution conv;
};
TYPED(source, 0) TYPED(weight, 1) TYPED(target, 3)

/* The source's pixel along an axis for a pixel of the target and a tap; beyond the extent: none. */
uint source_at(uint axis, uint pixel, uint tap)
{
    const uint reach = tap * conv.dilation[axis];

    if (BACKWARD == 0)
        return pixel * conv.stride[axis] + reach - conv.padding[axis];
    if (pixel + conv.padding[axis] < reach ||
        (pixel + conv.padding[axis] - reach) % conv.stride[axis] != 0)
        return 0xffffffffu;
    return (pixel + conv.padding[axis] - reach) / conv.stride[axis];
}

float sum_channel(uint group, uint channel, uint from, uvec2 pixel)
{
    const uint m = BACKWARD != 0 ? conv.from_channels : conv.to_channels;
    const uint k = BACKWARD != 0 ? conv.to_channels : conv.from_channels;
    const uvec2 extent = BACKWARD != 0 ? conv.to : conv.from;
    const uint taps = conv.kernel.x * conv.kernel.y, plane = extent.x * extent.y;
    const uint first = (BACKWARD != 0 ? group * k * m + channel : (group * m + channel) * k) * taps;
    const uint next = BACKWARD != 0 ? m * taps : taps;
    float sum = 0.0;

    for (uint h = 0; h < conv.kernel.x; h++) {
        const uint row = source_at(0, pixel.x, h);

        for (uint w = 0; w < conv.kernel.y && row < extent.x; w++) {
            const uint column = source_at(1, pixel.y, w), tap = h * conv.kernel.y + w;

            for (uint c = 0; c < k && column < extent.y; c++)
                sum += GET(weight, first + c * next + tap) *
                       GET(source, from + c * plane + row * extent.y + column);
        }
    }
    return sum;
}

void main()
{
    const uint m = BACKWARD != 0 ? conv.from_channels : conv.to_channels;
    const uint k = BACKWARD != 0 ? conv.to_channels : conv.from_channels;
    const uvec2 extent = BACKWARD != 0 ? conv.from : conv.to;
    const uvec2 of_source = BACKWARD != 0 ? conv.to : conv.from;
    const uint plane = extent.x * extent.y;

    FOR_EACH_ELEMENT(i, conv.samples * conv.groups * m * plane)
    {
        const uint channel = i / plane % (conv.groups * m), group = channel / m;
        const uint image = i / plane / (conv.groups * m);

        const float sum = sum_channel(group, channel % m,
                                      (image * conv.groups + group) * k * of_source.x * of_source.y,
                                      uvec2(i % plane / extent.y, i % plane % extent.y));

        PUT(target, i, activated(ACTIVATION, sum + (HAS_BIAS != 0 ? bias.at[channel] : 0.0)));
    }
}
