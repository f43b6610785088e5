#version 460
#extension GL_GOOGLE_include_directive : require
/* permute.comp: the axes of each sample in another order. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    uint count, sample_size, rank;
    uint extent[8], stride[8]; /* of the result's axes: extents, and strides in the operand */
};
TYPED(x, 0) TYPED(y, 1)

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        uint rest = i % sample_size, place = i / sample_size * sample_size;

        for (int axis = int(rank) - 1; axis >= 0; axis--) {
            place += rest % extent[axis] * stride[axis];
            rest /= extent[axis];
        }
        PUT(y, i, GET(x, place));
    }
}
