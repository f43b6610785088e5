#version 460
#extension GL_GOOGLE_include_directive : require
/* pool_backward.comp: the gradient of a pool: each pixel gathers that of the windows it is in. */
#include "common.glsl"
#include "pool.glsl"

layout(constant_id = 1) const uint ADAPTIVE = 0;
layout(constant_id = 2) const uint MAXIMUM = 0;

layout(push_constant, scalar) uniform Push
{
    Floats dy, dx;
    Integers positions; /* bytes */
    Pool pool;
};
TYPED(dy, 0) TYPED(dx, 1)

/* What the pixel gets of window `at`, whose part along each axis is given. */
float window_share(uint at, Span rows, Span columns, uint h, uint w)
{
    if (MAXIMUM != 0) {
        const uint position = uint(int(h) - rows.start) * position_row(pool, ADAPTIVE != 0) +
                              uint(int(w) - columns.start);

        return (uint(positions.at[at / 4]) >> 8 * (at % 4) & 255) == position ? GET(dy, at) : 0.0;
    }
    if (ADAPTIVE != 0)
        return GET(dy, at) / float((rows.end - rows.first) * (columns.end - columns.first));
    return GET(dy, at);
}

void main()
{
    const uint pixels = pool.from.x * pool.from.y;

    FOR_EACH_ELEMENT(i, pool.images * pixels)
    {
        const uint h = i % pixels / pool.from.y, w = i % pool.from.y;
        const uvec2 rows = windows_of(pool, ADAPTIVE != 0, 0, h);
        const uvec2 columns = windows_of(pool, ADAPTIVE != 0, 1, w);
        float sum = 0.0;

        for (uint r = rows.x; r < rows.y; r++) {
            const Span of_rows = window_span(pool, ADAPTIVE != 0, 0, r);

            for (uint c = columns.x; c < columns.y; c++)
                sum += window_share((i / pixels * pool.to.x + r) * pool.to.y + c, of_rows,
                                    window_span(pool, ADAPTIVE != 0, 1, c), h, w);
        }
        PUT(dx, i, ADAPTIVE != 0 || MAXIMUM != 0 ? sum
                                                 : sum / float(pool.kernel.x * pool.kernel.y));
    }
}
