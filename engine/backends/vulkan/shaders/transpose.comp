#version 460
#extension GL_GOOGLE_include_directive : require
/* transpose.comp: y[sample][column][row] = x[sample][row][column], by tiles, so that neighbours of
 * both lie side by side. Numbers of 16 bits that stay what they are go by pairs (PAIRS), if rows
 * and columns are even. */
#include "common.glsl"

layout(constant_id = 1) const uint PAIRS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    uint batch, rows, columns;
};
TYPED(x, 0) TYPED(y, 1)

const uint TILE = 32, PAIRED_TILE = 64;
shared float tile[TILE * (TILE + 1)];
#ifdef HALVES
shared uint pairs[PAIRS != 0 ? PAIRED_TILE * (PAIRED_TILE / 2 + 1) : 1];

/* The tile at a row and column of a matrix that begins at `origin`. */
void move_pairs(uint origin, uint row, uint column)
{
    const uint side = PAIRED_TILE / 2;

    for (uint i = gl_LocalInvocationID.x; i < PAIRED_TILE * side; i += WORKGROUP) {
        const uint r = i / side, c = i % side;

        if (row + r < rows && column + 2 * c < columns)
            pairs[r * (side + 1) + c] =
                Pairs(x).at[(origin + (row + r) * columns + column) / 2 + c];
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < PAIRED_TILE * side; i += WORKGROUP) {
        const uint r = i % side, c = i / side, shift = c % 2 * 16;
        const uint first = pairs[2 * r * (side + 1) + c / 2] >> shift & 0xffffu;
        const uint second = pairs[(2 * r + 1) * (side + 1) + c / 2] >> shift & 0xffffu;

        if (row + 2 * r < rows && column + c < columns)
            Pairs(y).at[(origin + (column + c) * rows + row) / 2 + r] = first | second << 16;
    }
    barrier();
}
#endif

void move_numbers(uint origin, uint row, uint column)
{
    for (uint i = gl_LocalInvocationID.x; i < TILE * TILE; i += WORKGROUP) {
        const uint r = i / TILE, c = i % TILE;

        if (row + r < rows && column + c < columns)
            tile[r * (TILE + 1) + c] = GET(x, origin + (row + r) * columns + column + c);
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < TILE * TILE; i += WORKGROUP) {
        const uint r = i % TILE, c = i / TILE;

        if (row + r < rows && column + c < columns)
            PUT(y, origin + (column + c) * rows + row + r, tile[r * (TILE + 1) + c]);
    }
    barrier();
}

void main()
{
    const uint side = PAIRS != 0 ? PAIRED_TILE : TILE;
    const uint across = (columns + side - 1) / side, down = (rows + side - 1) / side;

    FOR_EACH_ROW(group, batch * across * down)
    {
        const uint origin = group / (across * down) * rows * columns;
        const uint row = group / across % down * side, column = group % across * side;

#ifdef HALVES
        if (PAIRS != 0) {
            move_pairs(origin, row, column);
            continue;
        }
#endif
        move_numbers(origin, row, column);
    }
}
