#version 460
#extension GL_GOOGLE_include_directive : require
/* transpose.comp: y[sample][column][row] = x[sample][row][column], by tiles, so that neighbours of
 * both lie side by side. */
#include "common.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    uint batch, rows, columns;
};
TYPED(x, 0) TYPED(y, 1)

const uint TILE = 32;
shared float tile[TILE * (TILE + 1)];

void main()
{
    const uint across = (columns + TILE - 1) / TILE, down = (rows + TILE - 1) / TILE;

    FOR_EACH_ROW(group, batch * across * down)
    {
        const uint origin = group / (across * down) * rows * columns;
        const uint row = group / across % down * TILE, column = group % across * TILE;

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
}
