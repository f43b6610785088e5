/* resize.glsl: where the points of a resized image lie in the operand, as
 * engine/backends/cpu/kernels/resize.c has it. */
layout(constant_id = 1) const uint MODE = 0; /* enum resize_mode (engine/graph/graph.h) */

const uint NEAREST = 0, BILINEAR = 1, BILINEAR_CORNERS = 2;

struct Resize {
    uint images; /* channels of all samples */
    uvec2 from, to;
    vec2 step; /* pixels of the operand from one of the result to the next */
};

/* Between which two pixels of the operand a point lies. */
struct Place {
    uint first, second;
    float weight; /* of the second */
};

Place place_of(Resize resize, uint axis, uint point)
{
    const uint last = resize.from[axis] - 1;
    precise float at = float(point);
    uint first;

    if (MODE == NEAREST) {
        at = at * resize.step[axis];
        first = min(uint(floor(at)), last);
        return Place(first, first, 0.0);
    }
    if (MODE == BILINEAR) {
        at = (at + 0.5) * resize.step[axis];
        at = at - 0.5;
    } else {
        at = at * resize.step[axis];
    }
    at = max(at, 0.0);
    first = min(uint(at), last);
    return Place(first, min(first + 1, last), at - float(first));
}

/* The points, from .x to before .y, whose place may touch a pixel of the operand: some more, so
 * that rounding leaves none out. */
uvec2 points_of(Resize resize, uint axis, uint pixel)
{
    const float step = resize.step[axis], to = float(resize.to[axis]);
    const float first = (float(pixel) - 1.0) / step - 2.0, end = (float(pixel) + 2.0) / step + 3.0;

    /* the border has the points beyond it, too; a step of 0 has all points in one place */
    return uvec2(pixel == 0 || !(step > 0.0) ? 0.0 : clamp(first - first * 1e-5, 0.0, to),
                 pixel == resize.from[axis] - 1 || !(step > 0.0)
                     ? to
                     : clamp(end + end * 1e-5, 0.0, to));
}
