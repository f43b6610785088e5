#version 460
#extension GL_GOOGLE_include_directive : require
/* columns.comp: copies columns between matrices of as many rows. With FILLS, all other columns of
 * the result become 0. */
#include "common.glsl"

layout(constant_id = 1) const uint FILLS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats from, to;
    uint rows, width;           /* of the part that is copied */
    uint from_row, from_first;  /* numbers of a row, the first of the part */
    uint to_row, to_first;
};
TYPED(from, 0) TYPED(to, 1)

void main()
{
    const uint written = FILLS != 0 ? to_row : width, skipped = FILLS != 0 ? 0 : to_first;

    FOR_EACH_ELEMENT(i, rows * written)
    {
        const uint row = i / written, column = i % written + skipped;
        const bool inside = column >= to_first && column - to_first < width;

        PUT(to, row * to_row + column,
            inside ? GET(from, row * from_row + from_first + (column - to_first)) : 0.0);
    }
}
