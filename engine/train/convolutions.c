/* convolutions.c: see convolutions.h.
 *
 * Each layer is measured in two rounds. The first round tries all ways on little work. For each
 * direction, the ways near the fastest one go on: a library's reference implementation may be
 * hundreds of times slower than the others. The second round measures these on more work, in turns.
 * At the end two kinds of ways are measured as a whole: the combination of each direction's
 * fastest, and ways that are the same in all directions. If layouts of weights differ between
 * directions, the copies between them count there. */
#include "engine/train/convolutions.h"

#include "base/clock.h"
#include "engine/graph/forward.h"
#include "engine/graph/operator.h"
#include "engine/train/session.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES_MAX = 8, TASKS_MAX = 8, BATCH_MAX = 64, BATCH_FEW = 16, CHANNELS_MIN = 16 };
enum { CHANNELS_MANY = 64 }; /* convolutions with fewer channels are another kind of work */
/* How many times as much work as a round should is measured rather than that samples are divided
 * which the model does not divide. */
enum { EXCESS_MAX = 4 };

/* What a round measures: the most operations of the forward part, the runs (the first one warms up)
 * and their seconds, and which ways go on. */
struct round {
    double operations;
    int64_t image_min; /* images are not made smaller than this */
    bool fewer_channels;
    int runs_min, runs_max;
    double seconds, near;
};
static const struct round rounds[] = {{20e6, 16, true, 2, 3, 0.05, 3},
                                      {500e6, 16, false, 3, 16, 0.25, 1}};
enum { ROUNDS = sizeof rounds / sizeof *rounds, TOGETHER_MAX = 4 };

/* For ways that are known to be fast: if they differ, they differ clearly. */
static const struct round together_round = {500e6, 16, false, 3, 8, 0.06, 1};

/* A way for all directions is measured as a whole if it took at most this many times as long as the
 * fastest of each direction. */
static const double together_near = 1.25;

/* A way that takes this many times as long as the fastest one is not run again. The first run of a
 * way also touches its memory for the first time, so more is allowed. */
static const double hopeless = 4, hopeless_at_first = 20;

/* A way must take less than this part of the time of the device's own way to be preferred:
 * measurements of the same work differ by about as much. */
static const double margin = 0.97;

bool convolutions_have_choice(const struct backend *backend)
{
    return backend->device_choose_convolutions && backend->convolution_methods &&
           backend->graph_parts && backend->graph_slices_differ && backend->device_divide &&
           backend->device_profile && backend->program_profile_events;
}

/* ---- a network of one layer ------------------------------------------------------------------ */

static int build_layer(void *context, struct graph *graph, struct error *error)
{
    const struct convolution_shape *shape = context;
    int32_t x = graph_input(graph, TENSOR_FLOAT32,
                            (int64_t[]){shape->channels, shape->height, shape->width}, 3);

    /* within a model, the node before determines how images are stored */
    graph->wants_input_gradient = graph->training && !shape->samples;
    if (!shape->samples)
        x = graph_activation(graph, x, "before", ACTIVATION_RELU);
    x = graph_conv2d(graph, x, "0", shape->out_channels, &shape->attributes, shape->bias);
    x = graph_global_average_pool2d(graph, x, "1");
    x = graph_flatten(graph, x, "2");
    graph_mse(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* The direction that the node of that network computes, or -1. */
static int direction_of(const struct graph_node *node)
{
    const struct graph_operator *descriptor = graph_node_operator(node);

    return descriptor->cost_class == COST_CONVOLUTION ? (int)descriptor->product - PRODUCT_FORWARD
                                                      : -1;
}

/* One way to compute the layer, while it is measured. */
struct way {
    char letters[CONVOLUTION_DIRECTIONS + 2]; /* order of images; by direction */
    bool counts[CONVOLUTION_DIRECTIONS];      /* the directions whose letter is this way's own */
    bool ends;                                /* it is not run again */
    struct session *session;
    struct profile_recorder recorder;
    int lanes;
    /* the least seconds of all runs, by direction, lane and part of the work: on a busy machine,
     * hardly any run is undisturbed in all parts */
    double best[CONVOLUTION_DIRECTIONS][LANES_MAX][TASKS_MAX];
};

/* Adds up the recorded times of a run, and empties the lanes. */
static void take_events(struct way *way, bool first)
{
    const struct graph *graph = session_graph(way->session);
    double seconds[CONVOLUTION_DIRECTIONS][LANES_MAX][TASKS_MAX] = {0};

    for (int i = 0; i < way->lanes; i++) {
        struct profile_lane *lane = &way->recorder.lanes[i];

        for (int64_t k = 0; k < lane->count && k < lane->capacity; k++) {
            const struct profile_event *event = &lane->events[k];
            int direction =
                event->node == PROFILE_WAIT ? -1 : direction_of(&graph->nodes[event->node]);

            if (direction >= 0)
                seconds[direction][i % LANES_MAX][event->task % TASKS_MAX] +=
                    (double)(event->end - event->begin) * 1e-9;
        }
        lane->count = 0;
    }
    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
        for (int i = 0; i < LANES_MAX; i++)
            for (int task = 0; task < TASKS_MAX; task++)
                if (first || seconds[d][i][task] < way->best[d][i][task])
                    way->best[d][i][task] = seconds[d][i][task];
}

static int run_way(struct way *way, const struct convolution_shape *shape, bool first,
                   struct error *error)
{
    const struct graph *graph = session_graph(way->session);
    const struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    char *staging = session_staging(way->session);
    struct session_batch batch = {.count = shape->batch,
                                  .samples = staging,
                                  .targets = staging + session_input_bytes(graph, graph->input)};
    int r;

    session_profile(way->session, &way->recorder);
    r = session_step(way->session, &batch, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, error);
    session_profile(way->session, NULL);
    take_events(way, first);
    return r;
}

/* For each direction the time of the lane with the most work, for which the others wait. */
static void longest_lanes(const struct way *way, double seconds[CONVOLUTION_DIRECTIONS])
{
    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++) {
        seconds[d] = 0;
        for (int i = 0; i < LANES_MAX; i++) {
            double lane = 0;

            for (int task = 0; task < TASKS_MAX; task++)
                lane += way->best[d][i][task];
            seconds[d] = fmax(seconds[d], lane);
        }
    }
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
                    const struct convolution_shape *shape, struct way *way, struct error *error)
{
    size_t elements = (size_t)(shape->batch * (shape->channels * shape->height * shape->width +
                                               shape->out_channels));
    struct session_config config = {.backend = backend,
                                    .device = device,
                                    .build = build_layer,
                                    .build_context = (void *)shape,
                                    .direct_convolutions = way->letters,
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

/* ---- rounds ---------------------------------------------------------------------------------- */

static double operations(const struct convolution_shape *shape)
{
    const struct conv_attributes *a = &shape->attributes;
    double pixels = (double)shape->height * (double)shape->width / a->stride[0] / a->stride[1];

    return 2.0 * (double)shape->batch * pixels * (double)shape->out_channels *
           (double)shape->channels / a->groups * a->kernel[0] * a->kernel[1];
}

/* Halves the image along an axis, if enough results are left. */
static bool halve_image(int64_t *extent, const struct conv_attributes *a, int d, int64_t least)
{
    int64_t reach = (int64_t)a->dilation[d] * (a->kernel[d] - 1) + 1;

    if (*extent / 2 < least || *extent / 2 + 2 * a->padding[d] < reach)
        return false;
    *extent /= 2;
    return true;
}

/* Halves the groups or the channels. Channels that fill blocks still do so afterwards. */
static bool halve_channels(struct convolution_shape *shape)
{
    int groups = shape->attributes.groups;

    if (groups > 1) {
        shape->attributes.groups = (groups + 1) / 2;
        shape->channels = shape->channels / groups * shape->attributes.groups;
        shape->out_channels = shape->out_channels / groups * shape->attributes.groups;
        return true;
    }
    if (shape->channels < 2 * CHANNELS_MIN && shape->out_channels < 2 * CHANNELS_MIN)
        return false;
    if (shape->channels >= 2 * CHANNELS_MIN)
        shape->channels -= shape->channels / 2 / CHANNELS_MIN * CHANNELS_MIN;
    if (shape->out_channels >= 2 * CHANNELS_MIN)
        shape->out_channels -= shape->out_channels / 2 / CHANNELS_MIN * CHANNELS_MIN;
    return true;
}

/* Halves x's or y's channels, whichever are more. Copies and sums of weights remain the same part
 * of the work; leaving out samples would change that. */
static bool halve_many_channels(struct convolution_shape *shape)
{
    int64_t *more = shape->channels > shape->out_channels ? &shape->channels : &shape->out_channels;

    if (shape->attributes.groups > 1 || *more < 2 * CHANNELS_MANY)
        return false;
    *more -= *more / 2 / CHANNELS_MIN * CHANNELS_MIN;
    return true;
}

/* Halves the samples. The parts of the work divide samples afterwards if those of the model do:
 * other ways are the fastest then. False: there would not be fewer samples. */
static bool halve_batch(struct convolution_shape *shape)
{
    int64_t half = (shape->batch + 1) / 2, parts = shape->parts;

    if (shape->slices_differ)
        half -= half % parts == 0;
    else
        half = half < parts ? parts : half / parts * parts;
    if (half < 1 || half >= shape->batch)
        return false;
    shape->batch = half;
    return true;
}

/* Whether the parts of the work have whole samples, as those of the model, and would not with half
 * as many samples. */
static bool halves_slices(const struct convolution_shape *shape)
{
    return !shape->slices_differ && shape->batch >= shape->parts &&
           (shape->batch + 1) / 2 < shape->parts;
}

/* The part of the layer's work that a round measures. */
static struct convolution_shape reduce(const struct convolution_shape *whole,
                                       const struct round *round)
{
    struct convolution_shape shape = *whole;
    double most = round->operations;
    int64_t least = round->image_min;

    shape.batch = whole->batch < BATCH_MAX ? whole->batch : BATCH_MAX;
    /* keep a few samples, because how they are divided among the threads is part of what is
     * measured */
    while (shape.batch > BATCH_FEW && operations(&shape) > most && halve_batch(&shape))
        ;
    while (operations(&shape) > most && (halve_image(&shape.height, &shape.attributes, 0, least) ||
                                         halve_image(&shape.width, &shape.attributes, 1, least)))
        ;
    /* keep one sample for each task as long as possible */
    while (shape.batch > TASKS_MAX && operations(&shape) > most && halve_batch(&shape))
        ;
    while (operations(&shape) > most && halve_many_channels(&shape))
        ;
    while (shape.batch > 1 && operations(&shape) > (halves_slices(&shape) ? EXCESS_MAX : 1) * most)
        shape.batch = (shape.batch + 1) / 2;
    while (operations(&shape) > most && round->fewer_channels && halve_channels(&shape))
        ;
    return shape;
}

static double fastest(const struct convolution_times *times, int d)
{
    double least = INFINITY;

    for (int i = 0; i < times->count; i++)
        least = fmin(least, times->ways[i].seconds[d]);
    return least;
}

/* Reads the times of all ways as measured so far. */
static void take_times(const struct way *ways, struct convolution_times *times)
{
    for (int i = 0; i < times->count; i++) {
        double seconds[CONVOLUTION_DIRECTIONS];

        longest_lanes(&ways[i], seconds);
        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
            times->ways[i].seconds[d] =
                ways[i].session && ways[i].counts[d] ? seconds[d] : INFINITY;
    }
}

/* Ends ways that are slow in every direction. */
static void end_hopeless(struct way *ways, const struct convolution_times *times, double limit)
{
    for (int i = 0; i < times->count; i++) {
        bool hope = false;

        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
            hope = hope || times->ways[i].seconds[d] < limit * fastest(times, d);
        ways[i].ends = ways[i].ends || !hope;
    }
}

static int run_ways(struct way *ways, const struct convolution_shape *shape,
                    const struct round *round, struct convolution_times *times, struct error *error)
{
    double begin = clock_monotonic();
    int r = 0;

    for (int run = 0; r == 0 && run < round->runs_max &&
                      (run < round->runs_min || clock_monotonic() - begin < round->seconds);
         run++) {
        for (int i = 0; i < times->count && r == 0; i++) {
            double start = clock_monotonic();

            if (!ways[i].session || ways[i].ends)
                continue;
            r = run_way(&ways[i], shape, run <= 1, error);
            /* one run took as long as a whole round should: its time counts */
            ways[i].ends = clock_monotonic() - start > round->seconds * (run == 0 ? hopeless : 1);
        }
        take_times(ways, times);
        end_hopeless(ways, times, run == 0 ? hopeless_at_first : hopeless);
    }
    return r;
}

/* Writes the letters of a way: its own for directions in which it may be the fastest, and otherwise
 * those of the fastest way so far. False: there is no direction of the first kind. */
static bool write_letters(const struct convolution_shape *shape,
                          const struct convolution_times *times, int index, double near,
                          struct way *way)
{
    bool any = false;

    way->letters[0] = shape->methods[0];
    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++) {
        double least = fastest(times, d);

        way->counts[d] = isinf(near) || times->ways[index].seconds[d] <= near * least;
        any = any || way->counts[d];
        for (int i = 0; i < times->count; i++)
            if (i == index ? way->counts[d] : !way->counts[d] && times->ways[i].seconds[d] <= least)
                way->letters[1 + d] = times->ways[i].letter;
    }
    return any;
}

static int measure_round(const struct backend *backend, struct backend_device *device,
                         const struct convolution_shape *whole, const struct round *round,
                         double near, struct convolution_times *times, struct error *error)
{
    struct way ways[CONVOLUTION_METHODS_MAX] = {0};
    struct convolution_shape shape = reduce(whole, round);
    int r = 0;

    for (int i = 0; i < times->count && r == 0; i++)
        if (write_letters(&shape, times, i, near, &ways[i]))
            r = open_way(backend, device, &shape, &ways[i], error);
    if (r == 0)
        r = run_ways(ways, &shape, round, times, error);
    for (int i = 0; i < times->count; i++)
        close_way(&ways[i]);
    if (backend->device_trim)
        backend->device_trim(device);
    return r;
}

/* The letter of the fastest way, or of the device's own if that is hardly slower. */
static char fastest_way(const struct convolution_times *times, int d)
{
    double least = fastest(times, d);
    char letter = '-';

    for (int i = 0; i < times->count; i++) {
        double seconds = times->ways[i].seconds[d];

        if (times->ways[i].letter == '-' && seconds * margin <= least)
            return '-';
        if (seconds <= least)
            letter = times->ways[i].letter;
    }
    return letter;
}

/* Lists the ways to measure as a whole: the combination of each direction's fastest, and those that
 * are the same in all directions and not much slower. Returns how many there are. */
static int list_together(const struct convolution_times *times,
                         char letters[TOGETHER_MAX][CONVOLUTION_DIRECTIONS + 1])
{
    double least = 0;
    int count = 1;

    for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++) {
        letters[0][d] = fastest_way(times, d);
        least += fastest(times, d);
    }
    for (int i = 0; i < times->count && count < TOGETHER_MAX; i++) {
        double sum = 0;

        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
            sum += fmin(times->ways[i].seconds[d], hopeless * fastest(times, d));
        if (i > 0 && sum > together_near * least)
            continue;
        memset(letters[count], times->ways[i].letter, CONVOLUTION_DIRECTIONS);
        count += strcmp(letters[count], letters[0]) != 0;
    }
    return count;
}

/* The way that takes the least time, or the device's own if that is hardly slower. */
static int least_together(const struct convolution_times *sums,
                          char letters[TOGETHER_MAX][CONVOLUTION_DIRECTIONS + 1])
{
    double least = INFINITY, own = INFINITY;
    int best = 0, device = 0;

    for (int i = 0; i < sums->count; i++) {
        double sum = 0;

        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
            sum += sums->ways[i].seconds[d];
        if (sum < least) {
            least = sum;
            best = i;
        }
        if (letters[i][0] == '-' && letters[i][1] == '-' && letters[i][2] == '-') {
            own = sum;
            device = i;
        }
    }
    return own * margin <= least ? device : best;
}

static int measure_together(const struct backend *backend, struct backend_device *device,
                            const struct convolution_shape *whole, struct convolution_times *times,
                            struct error *error)
{
    const struct round *round = &together_round;
    char letters[TOGETHER_MAX][CONVOLUTION_DIRECTIONS + 1] = {0};
    struct convolution_shape shape = reduce(whole, round);
    struct convolution_times sums = {.count = list_together(times, letters)};
    struct way ways[CONVOLUTION_METHODS_MAX] = {0};
    int r = 0;

    for (int i = 0; i < sums.count && sums.count > 1 && r == 0; i++) {
        ways[i].letters[0] = shape.methods[0];
        memcpy(ways[i].letters + 1, letters[i], CONVOLUTION_DIRECTIONS);
        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++)
            ways[i].counts[d] = true;
        r = open_way(backend, device, &shape, &ways[i], error);
    }
    if (r == 0 && sums.count > 1)
        r = run_ways(ways, &shape, round, &sums, error);
    for (int i = 0; i < sums.count; i++)
        close_way(&ways[i]);
    if (r == 0)
        memcpy(times->together, letters[sums.count > 1 ? least_together(&sums, letters) : 0],
               sizeof times->together);
    return r;
}

int convolution_measure(const struct backend *backend, struct backend_device *device,
                        const struct convolution_shape *shape, struct convolution_times *times,
                        struct error *error)
{
    double near = INFINITY;
    int r = 0;

    *times = (struct convolution_times){.count = 1, .ways = {{.letter = '-'}}};
    for (const char *letter = shape->methods + 1; *letter; letter++)
        times->ways[times->count++].letter = *letter;
    /* by its own work, a layer alone would be divided into fewer parts than within the model */
    backend->device_divide(device, shape->parts);
    for (int i = 0; i < ROUNDS && r == 0; i++) {
        r = measure_round(backend, device, shape, &rounds[i], near, times, error);
        near = rounds[i].near;
    }
    if (r == 0)
        r = measure_together(backend, device, shape, times, error);
    backend->device_divide(device, 0);
    return r;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static struct convolution_shape describe(const struct backend *backend,
                                         struct backend_device *device, const struct graph *graph,
                                         const struct graph_node *node)
{
    const int64_t *x = graph->tensors[node->input[0]].shape.extent;
    struct convolution_shape shape = {.batch = x[0],
                                      .channels = x[1],
                                      .height = x[2],
                                      .width = x[3],
                                      .attributes = node->attributes.conv,
                                      .bias = node->input_count > 2 && node->input[2] >= 0,
                                      .samples = node->input[0] == graph->input,
                                      .parts = backend->graph_parts(device, graph),
                                      .slices_differ = backend->graph_slices_differ(device, graph)};

    shape.out_channels = graph->tensors[node->output[0]].shape.extent[1];
    backend->convolution_methods(device, graph, node, shape.methods);
    return shape;
}

void convolutions_choose(const struct backend *backend, struct backend_device *device,
                         const struct graph *graph, convolution_times_function *times,
                         void *context, char choice[CONVOLUTION_CHOICES_MAX])
{
    size_t length = 0, used = 0;
    struct error error;

    backend->device_choose_convolutions(device, "", &error);
    for (int32_t i = 0;
         i < graph->node_count && length + CONVOLUTION_DIRECTIONS < CONVOLUTION_CHOICES_MAX; i++) {
        const struct graph_node *node = &graph->nodes[i];
        struct convolution_shape shape;
        struct convolution_times measured;
        bool known;

        /* in the backward part it is a transposed convolution's gradient, or repeats another */
        if (node->op != OP_CONV2D || node->phase != GRAPH_FORWARD)
            continue;
        shape = describe(backend, device, graph, node);
        known = shape.methods[1] && times(context, &shape, &measured) == 0;
        for (int d = 0; d < CONVOLUTION_DIRECTIONS; d++) {
            choice[length] = known ? measured.together[d] : '-';
            used = choice[length++] == '-' ? used : length;
        }
    }
    choice[(used + CONVOLUTION_DIRECTIONS - 1) / CONVOLUTION_DIRECTIONS * CONVOLUTION_DIRECTIONS] =
        '\0';
}
