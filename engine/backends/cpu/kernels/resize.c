/* resize.c: images of another height and width (OP_RESIZE2D), and the gradient. The innermost loop
 * runs over channels that lie side by side. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Where a point of the result lies between two of the operand, along one axis. */
struct place {
    int64_t first, second;
    float weight; /* of the second */
};

static struct place place_of(const struct resize_shape *shape, int axis, int64_t out)
{
    int64_t last = shape->from[axis] - 1;
    float at;
    struct place place;

    if (shape->mode == RESIZE_NEAREST) {
        place.first = (int64_t)floorf((float)out * shape->step[axis]);
        place.first = place.first > last ? last : place.first;
        return (struct place){place.first, place.first, 0.0f};
    }
    at = shape->mode == RESIZE_BILINEAR ? ((float)out + 0.5f) * shape->step[axis] - 0.5f
                                        : (float)out * shape->step[axis];
    at = at < 0.0f ? 0.0f : at;
    place.first = (int64_t)at;
    place.first = place.first > last ? last : place.first;
    place.second = place.first < last ? place.first + 1 : last;
    place.weight = at - (float)place.first;
    return place;
}

void KERNEL_NAME(resize_forward)(const float *x, const struct resize_shape *shape, int64_t images,
                                 int64_t block, float *y)
{
    const int64_t row = shape->from[1] * block;

    for (int64_t i = 0; i < images; i++, x += shape->from[0] * row)
        for (int64_t oh = 0; oh < shape->to[0]; oh++) {
            const struct place h = place_of(shape, 0, oh);

            for (int64_t ow = 0; ow < shape->to[1]; ow++, y += block) {
                const struct place w = place_of(shape, 1, ow);
                const float *top = x + h.first * row, *bottom = x + h.second * row;
                const int64_t left = w.first * block, right = w.second * block;

                if (shape->mode == RESIZE_NEAREST) {
                    memcpy(y, top + left, (size_t)block * sizeof *y);
                    continue;
                }
                for (int64_t k = 0; k < block; k++) {
                    float upper = (1.0f - w.weight) * top[left + k] + w.weight * top[right + k];
                    float lower =
                        (1.0f - w.weight) * bottom[left + k] + w.weight * bottom[right + k];

                    y[k] = (1.0f - h.weight) * upper + h.weight * lower;
                }
            }
        }
}

void KERNEL_NAME(resize_backward)(const float *dy, const struct resize_shape *shape, int64_t images,
                                  int64_t block, float *dx)
{
    const int64_t row = shape->from[1] * block;

    for (int64_t i = 0; i < images; i++, dx += shape->from[0] * row) {
        memset(dx, 0, (size_t)(shape->from[0] * row) * sizeof *dx);
        for (int64_t oh = 0; oh < shape->to[0]; oh++) {
            const struct place h = place_of(shape, 0, oh);

            for (int64_t ow = 0; ow < shape->to[1]; ow++, dy += block) {
                const struct place w = place_of(shape, 1, ow);
                float *top = dx + h.first * row, *bottom = dx + h.second * row;
                const int64_t left = w.first * block, right = w.second * block;

                for (int64_t k = 0; k < block; k++) {
                    float upper = (1.0f - h.weight) * dy[k], lower = h.weight * dy[k];

                    top[left + k] += (1.0f - w.weight) * upper;
                    top[right + k] += w.weight * upper;
                    bottom[left + k] += (1.0f - w.weight) * lower;
                    bottom[right + k] += w.weight * lower;
                }
            }
        }
    }
}
