/* convolutions.c: see convolutions.h. */
#include "engine/train/convolutions.h"

#include "engine/train/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Runs of each, in turn; the first one warms up. Then they end when one is slower by the ratio. */
enum { RUNS_MIN = 3, RUNS_MAX = 16, PARTS_MAX = 64 };
static const double clear_ratio = 1.5;

static const char all_direct[] = "7";

bool convolutions_have_choice(const struct backend *backend)
{
    return backend->device_choose_convolutions && backend->convolution_has_choice &&
           backend->device_profile && backend->program_profile_events;
}

int convolutions_list(const struct backend *backend, struct backend_device *device,
                      const struct graph *graph, struct convolution_shape *shapes, int most)
{
    int count = 0;

    for (int32_t i = 0; i < graph->node_count && count < most; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const int64_t *x, *y;

        if (node->op != OP_CONV2D || !graph_node_is_dense_3x3(node))
            continue;
        x = graph->tensors[node->input[0]].shape.extent;
        y = graph->tensors[node->output[0]].shape.extent;
        shapes[count++] = (struct convolution_shape){
            .batch = x[0],
            .channels = x[1],
            .height = x[2],
            .width = x[3],
            .out_channels = y[1],
            .padding = {node->attributes.conv.padding[0], node->attributes.conv.padding[1]},
            .bias = node->input_count > 2 && node->input[2] >= 0,
            .has_choice = backend->convolution_has_choice(device, graph, node)};
    }
    return count;
}

/* ---- a network of one layer --------------------------------------------------------------------
 */

static int build_layer(void *context, struct graph *graph, struct error *error)
{
    const struct convolution_shape *shape = context;
    const struct conv_attributes attributes = {.kernel = {3, 3},
                                               .stride = {1, 1},
                                               .dilation = {1, 1},
                                               .padding = {shape->padding[0], shape->padding[1]},
                                               .groups = 1};
    int32_t x = graph_input(graph, TENSOR_FLOAT32,
                            (int64_t[]){shape->channels, shape->height, shape->width}, 3);

    graph->wants_input_gradient = graph->training;
    x = graph_conv2d(graph, x, "0", shape->out_channels, &attributes, shape->bias);
    x = graph_global_average_pool2d(graph, x, "1");
    x = graph_flatten(graph, x, "2");
    graph_mse(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* The direction of a node of that network, or -1. */
static int direction_of(const struct graph_node *node)
{
    return node->op == OP_CONV2D                    ? 0
           : node->op == OP_CONV2D_BACKWARD_DATA    ? 1
           : node->op == OP_CONV2D_BACKWARD_WEIGHTS ? 2
                                                    : -1;
}

/* One way to do the layer, while it is measured. */
struct way {
    struct session *session;
    struct profile_recorder recorder;
    int lanes;
    /* seconds by direction and part of the work, the least of the runs: on a busy machine hardly a
     * run has no part that was held up */
    double best[CONVOLUTION_DIRECTIONS][PARTS_MAX];
};

/* Adds the recorded time of a run up, and makes the lanes empty. */
static void take_events(struct way *way, bool first)
{
    const struct graph *graph = session_graph(way->session);
    double seconds[CONVOLUTION_DIRECTIONS][PARTS_MAX] = {{0}};

    for (int i = 0; i < way->lanes; i++) {
        struct profile_lane *lane = &way->recorder.lanes[i];

        for (int64_t k = 0; k < lane->count && k < lane->capacity; k++) {
            const struct profile_event *event = &lane->events[k];
            int direction =
                event->node == PROFILE_WAIT ? -1 : direction_of(&graph->nodes[event->node]);

            if (direction >= 0)
                seconds[direction][event->task % PARTS_MAX] +=
                    (double)(event->end - event->begin) * 1e-9;
        }
        lane->count = 0;
    }
    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
        for (int part = 0; part < PARTS_MAX; part++)
            if (first || seconds[d][part] < way->best[d][part])
                way->best[d][part] = seconds[d][part];
}

static int run_way(struct way *way, const struct convolution_shape *shape, bool first,
                   struct error *error)
{
    const struct graph *graph = session_graph(way->session);
    const struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    size_t samples = (size_t)graph_shape_elements(&graph->tensors[graph->input].shape);
    char *staging = session_staging(way->session);
    struct session_batch batch = {shape->batch, staging,
                                  staging + (samples * sizeof(float) + MEMORY_ALIGNMENT - 1) /
                                                MEMORY_ALIGNMENT * MEMORY_ALIGNMENT};
    int r;

    session_profile(way->session, &way->recorder);
    r = session_step(way->session, &batch, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, error);
    session_profile(way->session, NULL);
    take_events(way, first);
    return r;
}

static void sum_parts(const struct way *way, double seconds[CONVOLUTION_DIRECTIONS])
{
    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++) {
        seconds[d] = 0;
        for (int part = 0; part < PARTS_MAX; part++)
            seconds[d] += way->best[d][part];
    }
}

/* No more runs are needed to tell which one is faster. */
static bool is_clear(const struct convolution_times *times)
{
    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
        if (times->direct[d] < clear_ratio * times->chosen[d])
            return false;
    return true;
}

static int make_recorder(struct way *way, struct error *error)
{
    int64_t events = session_profile_events(way->session, &way->lanes);

    way->recorder.keeps_events = true;
    way->recorder.lanes = aligned_alloc(_Alignof(struct profile_lane),
                                        (size_t)way->lanes * sizeof(struct profile_lane));
    if (!way->recorder.lanes)
        return error_set_errno(error, -ENOMEM, "cannot measure a convolution");
    for (int i = 0; i < way->lanes; i++)
        way->recorder.lanes[i] = (struct profile_lane){
            .events = calloc((size_t)events + 1, sizeof(struct profile_event)), .capacity = events};
    for (int i = 0; i < way->lanes; i++)
        if (!way->recorder.lanes[i].events)
            return error_set_errno(error, -ENOMEM, "cannot measure a convolution");
    return 0;
}

static int open_way(const struct backend *backend, struct backend_device *device,
                    const struct convolution_shape *shape, const char *direct, struct way *way,
                    struct error *error)
{
    size_t elements = (size_t)(shape->batch * (shape->channels * shape->height * shape->width +
                                               shape->out_channels));
    struct session_config config = {.backend = backend,
                                    .device = device,
                                    .build = build_layer,
                                    .build_context = (void *)shape,
                                    .direct_convolutions = direct,
                                    .training_batches = {shape->batch},
                                    .staging_bytes =
                                        elements * sizeof(float) + 2 * MEMORY_ALIGNMENT};
    int r = session_prepare(&config, &way->session, error);

    if (r == 0)
        r = session_allocate(way->session, error);
    return r ? r : make_recorder(way, error);
}

static void close_way(struct way *way)
{
    for (int i = 0; way->recorder.lanes && i < way->lanes; i++)
        free(way->recorder.lanes[i].events);
    free(way->recorder.lanes);
    session_free(way->session);
}

int convolution_measure(const struct backend *backend, struct backend_device *device,
                        const struct convolution_shape *shape, struct convolution_times *times,
                        struct error *error)
{
    struct way chosen = {0}, direct = {0};
    int r = open_way(backend, device, shape, "", &chosen, error);

    if (r == 0)
        r = open_way(backend, device, shape, all_direct, &direct, error);
    for (int run = 0; r == 0 && run < RUNS_MAX && (run < RUNS_MIN || !is_clear(times)); run++) {
        r = run_way(&chosen, shape, run <= 1, error);
        if (r == 0)
            r = run_way(&direct, shape, run <= 1, error);
        sum_parts(&chosen, times->chosen);
        sum_parts(&direct, times->direct);
    }
    close_way(&chosen);
    close_way(&direct);
    if (backend->device_trim)
        backend->device_trim(device);
    return r;
}
