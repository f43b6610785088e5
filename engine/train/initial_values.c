/* initial_values.c: see initial_values.h. */
#include "engine/train/initial_values.h"

#include <pthread.h>
#include <stdbool.h>

/* Several threads draw the weights if there are many. One thread takes 20 ns for a weight; to begin
 * and end a thread takes 40 us. */
enum { DRAWN_AT_ONCE = 1 << 15, DRAWERS_MAX = 16 };

struct drawing {
    const struct graph *graph;
    int32_t tensor;
    uint64_t seed;
    int64_t first, end;
    float *values;
};

static void *draw_part(void *data)
{
    const struct drawing *part = data;

    graph_initial_part(part->graph, part->tensor, part->seed, part->first, part->end, part->values);
    return NULL;
}

void initial_values_draw(const struct graph *graph, int32_t tensor, uint64_t seed, float *values)
{
    int64_t elements = graph_shape_elements(&graph->tensors[tensor].shape);
    int64_t wanted = elements / DRAWN_AT_ONCE;
    int count = wanted < 1 ? 1 : wanted > DRAWERS_MAX ? DRAWERS_MAX : (int)wanted;
    struct drawing parts[DRAWERS_MAX];
    pthread_t threads[DRAWERS_MAX];
    bool started[DRAWERS_MAX] = {false};

    for (int k = 0; k < count; k++) {
        parts[k] = (struct drawing){graph,
                                    tensor,
                                    seed,
                                    elements * k / count / 4 * 4,
                                    k + 1 == count ? elements : elements * (k + 1) / count / 4 * 4,
                                    values};
        if (k + 1 < count)
            started[k] = pthread_create(&threads[k], NULL, draw_part, &parts[k]) == 0;
        if (!started[k])
            draw_part(&parts[k]);
    }
    for (int k = 0; k < count; k++)
        if (started[k])
            pthread_join(threads[k], NULL);
}
