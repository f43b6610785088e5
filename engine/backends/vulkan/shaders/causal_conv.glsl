/* causal_conv.glsl: what the shaders of the causal convolution share. Steps are counted in the
 * order in which the sequence is read. */
#include "common.glsl"

layout(constant_id = 1) const uint KERNEL = 4;
layout(constant_id = 2) const uint REVERSE = 0;
layout(constant_id = 3) const uint SILU = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, weight, bias, y, dy, gradient, dx, sums;
    uint count, length, channels;
    uint rows_of_part;
};
TYPED(x, 0) TYPED(y, 3) TYPED(dy, 4) TYPED(gradient, 5) TYPED(dx, 6)

/* The step of an element's row, as the sequence is read. */
uint step_of(uint row)
{
    const uint t = row % length;

    return REVERSE != 0 ? length - 1 - t : t;
}

/* The element of the same channel `distance` steps earlier. */
uint earlier(uint i, uint distance)
{
    return REVERSE != 0 ? i + distance * channels : i - distance * channels;
}

uint later(uint i, uint distance)
{
    return REVERSE != 0 ? i - distance * channels : i + distance * channels;
}
