#version 460
#extension GL_GOOGLE_include_directive : require
/* resize.comp: images of another height and width. */
#include "common.glsl"
#include "resize.glsl"

layout(push_constant, scalar) uniform Push
{
    Floats x, y;
    Resize resize;
};
TYPED(x, 0) TYPED(y, 1)

void main()
{
    const uint pixels = resize.to.x * resize.to.y;

    FOR_EACH_ELEMENT(i, resize.images * pixels)
    {
        const Place h = place_of(resize, 0, i % pixels / resize.to.y);
        const Place w = place_of(resize, 1, i % resize.to.y);
        const uint top = (i / pixels * resize.from.x + h.first) * resize.from.y;
        const uint bottom = (i / pixels * resize.from.x + h.second) * resize.from.y;

        if (MODE == NEAREST)
            PUT(y, i, GET(x, top + w.first));
        else
            PUT(y, i, (1.0 - h.weight) * ((1.0 - w.weight) * GET(x, top + w.first) +
                                          w.weight * GET(x, top + w.second)) +
                      h.weight * ((1.0 - w.weight) * GET(x, bottom + w.first) +
                                  w.weight * GET(x, bottom + w.second)));
    }
}
