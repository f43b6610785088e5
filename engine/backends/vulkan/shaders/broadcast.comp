#version 460
#extension GL_GOOGLE_include_directive : require
/* broadcast.comp: combines each number of a with that of b which repeats there; or, BACKWARD, makes
 * the gradient by a of that by the result. */
#include "common.glsl"

layout(constant_id = 1) const uint TERM = TERM_ADD;
layout(constant_id = 2) const uint BACKWARD = 0;

layout(push_constant, scalar) uniform Push
{
    Floats dy, a, b, y; /* dy: backward */
    uint count, sample_size, middle, inner;
    uint shared_second; /* all samples read the same b */
};
TYPED(dy, 0) TYPED(a, 1) TYPED(b, 2) TYPED(y, 3)

float combined(float x, float other)
{
    switch (TERM) {
    case TERM_ADD:
        return x + other;
    case TERM_SUBTRACT:
        return x - other;
    case TERM_SUBTRACT_REVERSE:
        return other - x;
    case TERM_MULTIPLY:
        return x * other;
    case TERM_DIVIDE:
        return x / other;
    default:
        return other / x;
    }
}

float by_first(uint i, uint place)
{
    switch (TERM) {
    case TERM_ADD:
    case TERM_SUBTRACT:
        return GET(dy, i);
    case TERM_SUBTRACT_REVERSE:
        return -GET(dy, i);
    case TERM_MULTIPLY:
        return GET(dy, i) * GET(b, place);
    case TERM_DIVIDE:
        return GET(dy, i) / GET(b, place);
    default:
        return -GET(dy, i) * GET(b, place) / (GET(a, i) * GET(a, i));
    }
}

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint place =
            i / inner % middle + (shared_second != 0 ? 0 : i / sample_size * middle);

        PUT(y, i, BACKWARD != 0 ? by_first(i, place) : combined(GET(a, i), GET(b, place)));
    }
}
