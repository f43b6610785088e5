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

void main()
{
    const vec2 limits = vec2(range.at[0], range.at[1]), scale = scale_of(limits);
    const bool known = is_known(limits);

    FOR_EACH_ELEMENT(i, count)
    {
        const float value = x.at[i];

        if (BACKWARD != 0) {
            const float integer = integer_of(value, scale);

            y.at[i] = known && !(integer >= 0.0 && integer <= VALUE_MAX) ? 0.0 : dy.at[i];
        } else {
            y.at[i] = known ? rounded(value, scale) : value;
        }
    }
}
