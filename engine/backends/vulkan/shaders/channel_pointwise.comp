#version 460
#extension GL_GOOGLE_include_directive : require
/* channel_pointwise.comp: y = x times the number of its channel and sample, or plus that of its
 * channel. */
#include "common.glsl"

layout(constant_id = 1) const uint ADDS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, numbers, y;
    uint count, pixels, channels;
};
TYPED(x, 0) TYPED(numbers, 1) TYPED(y, 2)

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint plane = i / pixels;

        PUT(y, i,
            ADDS != 0 ? GET(x, i) + GET(numbers, plane % channels)
                      : GET(x, i) * GET(numbers, plane));
    }
}
