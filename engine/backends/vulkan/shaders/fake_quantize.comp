#version 460
#extension GL_GOOGLE_include_directive : require
/* fake_quantize.comp: numbers rounded as integers of a range would hold them; or, BACKWARD, the
 * gradient, which passes where the number was not cut to the range. */
#include "common.glsl"
#include "quantization.glsl"

layout(constant_id = 1) const uint BACKWARD = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, dy, y, range; /* y: the result, or the gradient by x */
    uint count;
};
TYPED(x, 0) TYPED(dy, 1) TYPED(y, 2)

void main()
{
    const vec2 limits = vec2(range.at[0], range.at[1]), scale = scale_of(limits);
    const bool known = is_known(limits);

    FOR_EACH_ELEMENT(i, count)
    {
        const float value = GET(x, i);

        if (BACKWARD != 0) {
            const float integer = integer_of(value, scale);

            PUT(y, i, known && !(integer >= 0.0 && integer <= VALUE_MAX) ? 0.0 : GET(dy, i));
        } else {
            PUT(y, i, known ? rounded(value, scale) : value);
        }
    }
}
