/* planes_images.c: copies images into the planes of planes.h, and results back into images. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

#include <string.h>

#if defined(__AVX2__)
typedef int32_t vector_lanes __attribute__((vector_size(VECTOR * 4)));

static ALWAYS_INLINE vector_lanes lanes_in_order(void)
{
#if defined(__AVX512F__)
    return (vector_lanes){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
    return (vector_lanes){0, 1, 2, 3, 4, 5, 6, 7};
#endif
}
#endif

/* Finds the columns [first, end) of the plane that have a pixel. */
static void column_span(const struct planes_gather *shape, int64_t *first, int64_t *end)
{
    int64_t step = shape->column_step, origin = shape->column_origin;
    int64_t last = shape->width - 1 - origin;

    *first = origin < 0 ? (-origin + step - 1) / step : 0;
    *end = last < 0 ? 0 : last / step + 1;
    *end = *end < shape->columns ? *end : shape->columns;
    *first = *first < *end ? *first : *end;
}

/* Clears `count` floats, and up to a vector more. */
static ALWAYS_INLINE void clear_floats(float *to, int64_t count)
{
    for (int64_t u = 0; u < count; u += VECTOR)
        *(loose_vector *)(to + u) = (vector){0};
}

/* Copies `count` floats, and up to a vector more if there are `left` to read. */
static ALWAYS_INLINE void copy_floats(const float *from, int64_t left, float *to, int64_t count)
{
    if ((count + VECTOR - 1) / VECTOR * VECTOR > left) {
        memcpy(to, from, (size_t)count * sizeof(*to));
        return;
    }
    for (int64_t u = 0; u < count; u += VECTOR)
        *(loose_vector *)(to + u) = *(const loose_vector *)(from + u);
}

/* Copies every `step`-th of the floats `from`, of which there are `left` to read: a vector of them
 * is chosen out of `step` vectors. */
static ALWAYS_INLINE void take_every(const int step, const float *from, int64_t left, float *to,
                                     int64_t count)
{
    int64_t u = 0;

    (void)left; /* unused on the baseline */
#if defined(__AVX2__)
    for (; u + VECTOR <= count && (u + VECTOR) * step <= left; u += VECTOR) {
        vector taken = *(const loose_vector *)(from + u * step);

#pragma GCC unroll 4
        for (int i = 1; i < step; i++) {
            /* lanes of `taken` count from 0, those of the next vector from VECTOR */
            vector_lanes lane = lanes_in_order() * step - (i - 1) * VECTOR;
            vector_lanes chosen = i == 1 ? lane : lanes_in_order();
            vector_lanes is_next = (lane >= VECTOR) & (lane < 2 * VECTOR);
            vector next = *(const loose_vector *)(from + u * step + i * VECTOR);

            chosen = (chosen & ~is_next) | (lane & is_next);
            taken = __builtin_shuffle(taken, next, chosen);
        }
        *(loose_vector *)(to + u) = taken;
    }
#endif
    for (; u < count; u++)
        to[u] = from[u * step];
}

enum { LINE = 16 }; /* floats of a cache line */

/* Rows are adjacent: what one row writes beyond its end, the next row overwrites. */
void KERNEL_NAME(planes_gather)(const struct planes_gather *shape, const float *image, float *plane)
{
    int64_t first, end, step = shape->column_step * shape->pixel;

    column_span(shape, &first, &end);
    for (int64_t t = 0; t < shape->rows; t++, plane += shape->columns) {
        int64_t row = shape->row_origin + t * shape->row_step;
        int64_t place = row * shape->width + shape->column_origin + first * shape->column_step;
        int64_t left = (shape->height * shape->width - place - 1) * shape->pixel + 1;
        const float *from = image + place * shape->pixel;

        if (row < 0 || row >= shape->height || first == end) {
            clear_floats(plane, shape->columns);
            continue;
        }
        if (shape->prefetch)
            for (int64_t u = 0; u < (end - first) * step; u += LINE)
                __builtin_prefetch(from + u + shape->prefetch);
        clear_floats(plane, first);
        if (step == 1)
            copy_floats(from, left, plane + first, end - first);
        else if (step == 2)
            for (int64_t u = 0; u < end - first; u++)
                plane[first + u] = from[2 * u];
        else if (step == 3)
            take_every(3, from, left, plane + first, end - first);
        else if (step == 4)
            take_every(4, from, left, plane + first, end - first);
        else
            for (int64_t u = 0; u < end - first; u++)
                plane[first + u] = from[u * step];
        clear_floats(plane + end, shape->columns - end);
    }
}

static ALWAYS_INLINE void scatter_row(const float *result, float bias, bool relu, int64_t count,
                                      float *to, int64_t step)
{
    for (int64_t u = 0; u < count; u++) {
        float value = result[u] + bias;

        to[u * step] = relu && value < 0 ? 0 : value;
    }
}

void KERNEL_NAME(planes_scatter)(const struct planes_scatter *shape, const float *result,
                                 float bias, float *image)
{
    const struct planes_gather *places = &shape->image;
    int64_t first, end, step = places->column_step * places->pixel;

    column_span(places, &first, &end);
    for (int64_t t = 0; t < places->rows; t++, result += shape->row_stride) {
        int64_t row = places->row_origin + t * places->row_step;
        float *to =
            image + (row * places->width + places->column_origin) * places->pixel + first * step;

        if (row < 0 || row >= places->height)
            continue;
        if (step == 1 && shape->relu)
            scatter_row(result + first, bias, true, end - first, to, 1);
        else if (step == 1)
            scatter_row(result + first, bias, false, end - first, to, 1);
        else
            scatter_row(result + first, bias, shape->relu, end - first, to, step);
    }
}
