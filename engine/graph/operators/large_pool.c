/* large_pool.c: maximum pools whose windows have more positions than a byte counts (POOL_POSITIONS)
 * become two pools. The maximum of a window is that of its rows' maxima, and the maximum of a row
 * that of its parts', which may overlap. Of equal numbers the first one gets the gradient, as in
 * one pool, because each pool takes the first. */
#include "engine/graph/operators/operators.h"

static int32_t append(struct graph *graph, int32_t input, const char *name,
                      const struct conv_attributes *window)
{
    return layer_append_pool(graph, input, name, OP_MAX_POOL2D, window, true);
}

/* Windows along one axis: `parts` windows of `part` positions, `step` apart, make one. */
struct division {
    int part, step, parts;
};

/* If there is one window only, its stride says nothing. */
static bool divide(int kernel, int stride, bool alone, struct division *division)
{
    for (int step = POOL_POSITIONS; step > 0; step--) {
        int parts = kernel / step < POOL_POSITIONS ? kernel / step : POOL_POSITIONS;
        int part = kernel - step * (parts - 1);

        if (parts > 1 && part <= POOL_POSITIONS && (alone || stride % step == 0)) {
            *division = (struct division){part, step, parts};
            return true;
        }
    }
    return false;
}

static int32_t append_divided(struct graph *graph, int32_t input, const char *name,
                              const char *first_name, const struct conv_attributes *window,
                              int axis)
{
    int64_t extent = graph->tensors[input].shape.extent[2 + axis];
    bool alone = extent - window->kernel[axis] < window->stride[axis];
    struct conv_attributes first = *window, second = *window;
    struct division division;

    if (window->padding[axis] ||
        !divide(window->kernel[axis], window->stride[axis], alone, &division))
        return layer_fail(graph, name, OP_MAX_POOL2D,
                          "a window of %d positions along one axis with stride %d and padding %d "
                          "cannot be made of windows of at most %d",
                          window->kernel[axis], window->stride[axis], window->padding[axis],
                          POOL_POSITIONS);
    first.kernel[axis] = division.part;
    first.stride[axis] = division.step;
    second.kernel[axis] = division.parts;
    second.stride[axis] = alone ? division.parts : window->stride[axis] / division.step;
    input = append(graph, input, first_name, &first);
    return input < 0 ? input : append(graph, input, name, &second);
}

int32_t large_pool_append(struct graph *graph, int32_t input, const char *name,
                          const struct conv_attributes *window)
{
    struct conv_attributes rows = *window, columns = *window;
    struct layer_part_name first_name = layer_part_name(name, "first_maximum");

    for (int axis = 0; axis < 2; axis++)
        if (window->kernel[axis] > POOL_POSITIONS && window->kernel[!axis] == 1)
            return append_divided(graph, input, name, first_name.text, window, axis);
    rows.kernel[0] = rows.stride[0] = 1;
    rows.padding[0] = 0;
    columns.kernel[1] = columns.stride[1] = 1;
    columns.padding[1] = 0;
    input = append(graph, input, first_name.text, &rows);
    return input < 0 ? input : append(graph, input, name, &columns);
}
