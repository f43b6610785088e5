#version 460
#extension GL_GOOGLE_include_directive : require
/* resize_backward.comp: the gradient of a resized image: each pixel gathers that of the points that
 * it is a part of. */
#include "common.glsl"
#include "resize.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats dy, dx;
    Resize resize;
};
TYPED(dy, 0) TYPED(dx, 1)

float weight_of(Place place, uint pixel)
{
    return (place.first == pixel ? 1.0 - place.weight : 0.0) +
           (place.second == pixel ? place.weight : 0.0);
}

void main()
{
    const uint pixels = resize.from.x * resize.from.y;

    FOR_EACH_ELEMENT(i, resize.images * pixels)
    {
        const uint h = i % pixels / resize.from.y, w = i % resize.from.y;
        const uvec2 rows = points_of(resize, 0, h), columns = points_of(resize, 1, w);
        float sum = 0.0;

        for (uint r = rows.x; r < rows.y; r++) {
            const float of_row = weight_of(place_of(resize, 0, r), h);
            float row = 0.0;

            for (uint c = columns.x; c < columns.y && of_row != 0.0; c++) {
                const float weight = weight_of(place_of(resize, 1, c), w);

                if (weight != 0.0)
                    row += weight * GET(dy, (i / pixels * resize.to.x + r) * resize.to.y + c);
            }
            if (of_row != 0.0)
                sum += of_row * row;
        }
        PUT(dx, i, sum);
    }
}
