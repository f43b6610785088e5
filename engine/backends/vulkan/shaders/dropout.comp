#version 460
#extension GL_GOOGLE_include_directive : require
/* dropout.comp: y = x times the mask's factor, with the masks of the CPU: `row` neighbours share a
 * number of the mask. */
#include "common.glsl"
#include "philox.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    Scalars scalars;
    uint count, row;
    uvec2 stream;
    uint threshold; /* of 24 bits: what is below is dropped */
    float scale;
};
TYPED(x, 0) TYPED(y, 1)

void main()
{
    const uvec2 seed = uvec2(scalars.seed[0], scalars.seed[1]);

    FOR_EACH_ELEMENT(i, count)
    {
        const uint number = i / row;
        /* the index is batch << 32, plus the number of the draw */
        const uvec4 bits = philox_draw(seed, stream, uvec2(number / 4, scalars.batch[0]));

        PUT(y, i, (bits[number % 4] >> 8) >= threshold ? GET(x, i) * scale : 0.0 * GET(x, i));
    }
}
