#version 460
#extension GL_GOOGLE_include_directive : require
/* pool.comp: the largest number, or the mean, of each window of images. Positions of the largest
 * are bytes, so that an invocation has as many neighbours of the result as an integer has bytes. */
#include "common.glsl"
#include "pool.glsl"

layout(constant_id = 1) const uint ADAPTIVE = 0;
layout(constant_id = 2) const uint MAXIMUM = 0;
layout(constant_id = 3) const uint KEEPS_POSITIONS = 0;

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    Integers positions;
    Pool pool;
};
TYPED(x, 0) TYPED(y, 1)

const uint AT_ONCE = KEEPS_POSITIONS != 0 ? 4 : 1;

float find_maximum(uint image, Span rows, Span columns, out uint position)
{
    const uint row = position_row(pool, ADAPTIVE != 0);
    float best = -INFINITY;

    position = 0;
    for (uint h = rows.first; h < rows.end; h++)
        for (uint w = columns.first; w < columns.end; w++) {
            const float value = GET(x, (image * pool.from.x + h) * pool.from.y + w);

            if (value > best || is_not_a_number(value)) { /* this wins, as in PyTorch */
                best = value;
                position = uint(int(h) - rows.start) * row + uint(int(w) - columns.start);
            }
        }
    return best;
}

float find_mean(uint image, Span rows, Span columns)
{
    const uint count = ADAPTIVE != 0 ? (rows.end - rows.first) * (columns.end - columns.first)
                                     : pool.kernel.x * pool.kernel.y;
    float sum = 0.0;

    for (uint h = rows.first; h < rows.end; h++)
        for (uint w = columns.first; w < columns.end; w++)
            sum += GET(x, (image * pool.from.x + h) * pool.from.y + w);
    return sum / float(count);
}

void main()
{
    const uint pixels = pool.to.x * pool.to.y, count = pool.images * pixels;

    FOR_EACH_ELEMENT(i, (count + AT_ONCE - 1) / AT_ONCE)
    {
        uint packed = 0;

        for (uint k = 0; k < AT_ONCE && i * AT_ONCE + k < count; k++) {
            const uint at = i * AT_ONCE + k, pixel = at % pixels;
            const Span rows = window_span(pool, ADAPTIVE != 0, 0, pixel / pool.to.y);
            const Span columns = window_span(pool, ADAPTIVE != 0, 1, pixel % pool.to.y);

            if (MAXIMUM != 0) {
                uint position;

                PUT(y, at, find_maximum(at / pixels, rows, columns, position));
                packed |= position << 8 * k;
            } else {
                PUT(y, at, find_mean(at / pixels, rows, columns));
            }
        }
        if (KEEPS_POSITIONS != 0)
            positions.at[i] = int(packed);
    }
}
