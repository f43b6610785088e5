/* convolution_speed.c: how long a training step of a stack of convolutions takes on the CPU
 * backend, each done in the way that is measured to be the fastest, as a plan does:
 *
 *   convolution_speed SHAPE THREADS [CHOICE]
 *
 * says the choice first (CHOICE instead of a measurement: "-" is the device's own), then answers
 * each line on standard input, a number of steps, with the seconds that they took. SHAPE is
 * BATCH/CHANNELSxHEIGHTxWIDTH/LAYER,LAYER… and a layer CHANNELS.KERNEL.STRIDE.DILATION.GROUPS; its
 * padding is DILATION (KERNEL - 1) / 2, and ReLU is behind it. KERNEL is one number, or
 * ROWSxCOLUMNS (the axis of a single tap has stride and dilation 1). Behind the last one are the
 * mean over the pixels, a linear layer of 10 classes, and cross entropy; SGD updates the weights.
 * Or BATCH/FEATURES/OUT,OUT…: linear layers with ReLU in place of the convolutions.
 * $CONVOLUTION_TIMES prints the measured seconds of each layer's ways, $CONVOLUTION_PROFILE at the
 * end each operator's microseconds on each thread, with "+" what it waits behind it. */
#include "base/clock.h"
#include "engine/graph/forward.h"
#include "engine/train/convolutions.h"
#include "engine/train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 8, CLASSES = 10 };

struct stack {
    int64_t batch, channels, height, width; /* height 0: of linear layers */
    struct {
        int64_t channels;
        struct conv_attributes attributes;
    } layers[LAYERS_MAX];
    int count;
};

/* The text of a convolution; how many characters, or -1. */
static int parse_convolution(const char *text, int64_t *channels, struct conv_attributes *a)
{
    int out, stride, dilation, groups, kernel[2], used = 0, more = 0;

    if (sscanf(text, "%d.%dx%d%n", &out, &kernel[0], &kernel[1], &used) != 3) {
        if (sscanf(text, "%d.%d%n", &out, &kernel[0], &used) != 2)
            return -1;
        kernel[1] = kernel[0];
    }
    if (sscanf(text + used, ".%d.%d.%d%n", &stride, &dilation, &groups, &more) != 3)
        return -1;
    *channels = out;
    *a = (struct conv_attributes){.groups = groups};
    for (int d = 0; d < 2; d++) {
        bool single = kernel[d] == 1 && kernel[1 - d] > 1;

        a->kernel[d] = kernel[d];
        a->stride[d] = single ? 1 : stride;
        a->dilation[d] = single ? 1 : dilation;
        a->padding[d] = a->dilation[d] * (kernel[d] - 1) / 2;
    }
    return used + more;
}

static int parse(const char *text, struct stack *stack)
{
    long long batch, channels, height = 0, width = 0;
    int used = 0;

    if (sscanf(text, "%lld/%lldx%lldx%lld%n", &batch, &channels, &height, &width, &used) != 4 &&
        sscanf(text, "%lld/%lld%n", &batch, &channels, &used) != 2)
        return -1;
    *stack = (struct stack){.batch = batch, .channels = channels, .height = height, .width = width};
    for (text += used; *text; text += used) {
        if (stack->count == LAYERS_MAX)
            return -1;
        if (!height) {
            stack->layers[stack->count].channels = atoll(text + 1);
            used = 1 + (int)strspn(text + 1, "0123456789");
        } else {
            used = 1 + parse_convolution(text + 1, &stack->layers[stack->count].channels,
                                         &stack->layers[stack->count].attributes);
        }
        if (used <= 1)
            return -1;
        stack->count++;
    }
    return stack->count ? 0 : -1;
}

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct stack *stack = context;
    bool images = stack->height > 0;
    int32_t x =
        graph_input(graph, TENSOR_FLOAT32,
                    (int64_t[]){stack->channels, stack->height, stack->width}, images ? 3 : 1);
    char name[16];

    for (int i = 0; i < stack->count; i++) {
        snprintf(name, sizeof name, "%d", 2 * i);
        x = images ? graph_conv2d(graph, x, name, stack->layers[i].channels,
                                  &stack->layers[i].attributes, true)
                   : graph_linear(graph, x, name, stack->layers[i].channels, true);
        snprintf(name, sizeof name, "%d", 2 * i + 1);
        x = graph_activation(graph, x, name, ACTIVATION_RELU);
    }
    if (images) {
        x = graph_global_average_pool2d(graph, x, "pool");
        x = graph_flatten(graph, x, "flatten");
    }
    x = graph_linear(graph, x, "linear", CLASSES, true);
    graph_cross_entropy(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

static int fail(const struct error *error)
{
    fprintf(stderr, "%s\n", error->text);
    return 1;
}

static void fill(float *samples, int64_t count, int32_t *labels, int64_t batch)
{
    for (int64_t i = 0; i < count; i++)
        samples[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    for (int64_t i = 0; i < batch; i++)
        labels[i] = (int32_t)(i * 31 % CLASSES);
}

static int answer(struct session *session, const struct session_batch *batch, struct error *error)
{
    struct step_scalars scalars = {.learning_rate = 1e-4f, .gradient_scale = 1};
    char line[64];

    while (fgets(line, sizeof line, stdin)) {
        double begin = clock_monotonic();

        for (long i = atol(line); i > 0; i--) {
            scalars.step = scalars.batch = scalars.step + 1;
            if (session_step(session, batch, PROGRAM_STEP, &scalars, error))
                return fail(error);
        }
        printf("%.9f\n", clock_monotonic() - begin);
        fflush(stdout);
    }
    return 0;
}

enum { PROFILE_STEPS = 200 };

/* Microseconds of PROFILE_STEPS steps: [lane][node][operator, waiting behind it][step]. */
struct node_times {
    int lanes, nodes;
    double *microseconds;
};

static double *times_of(const struct node_times *times, int lane, int node, bool waiting)
{
    return times->microseconds +
           ((lane * times->nodes + node) * 2 + waiting) * (int64_t)PROFILE_STEPS;
}

static void take_events(const struct node_times *times, struct profile_recorder *recorder, int step)
{
    for (int i = 0; i < times->lanes; i++) {
        struct profile_lane *lane = &recorder->lanes[i];
        int node = 0;

        for (int64_t k = 0; k < lane->count; k++) {
            const struct profile_event *event = &lane->events[k];
            bool waiting = event->node == PROFILE_WAIT;

            node = waiting ? node : event->node;
            times_of(times, i, node, waiting)[step] += 1e-3 * (double)(event->end - event->begin);
        }
        lane->count = 0;
    }
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double times[PROFILE_STEPS])
{
    qsort(times, PROFILE_STEPS, sizeof *times, compare_numbers);
    return times[PROFILE_STEPS / 2];
}

static void print_times(struct session *session, const struct node_times *times)
{
    const struct graph *graph = session_graph(session);

    for (int n = 0; n < times->nodes; n++) {
        struct node_description description;

        session_describe_node(session, graph, n, &description);
        fprintf(stderr, "%-24s %-14s %-30s", graph_op_to_string(graph->nodes[n].op),
                graph->nodes[n].name, description.method);
        for (int i = 0; i < times->lanes; i++)
            fprintf(stderr, " %9.1f +%-7.1f", median(times_of(times, i, n, false)),
                    median(times_of(times, i, n, true)));
        fprintf(stderr, "\n");
    }
}

/* Prints for each thread how long each operator takes, and how long the thread waits behind it:
 * microseconds, medians of some steps. */
static int profile(struct session *session, const struct session_batch *batch, struct error *error)
{
    struct step_scalars scalars = {.learning_rate = 1e-4f, .gradient_scale = 1};
    struct node_times times = {.nodes = session_graph(session)->node_count};
    int64_t capacity = session_profile_events(session, &times.lanes);
    struct profile_recorder recorder = {.keeps_events = true};
    int result = 0;

    times.microseconds = calloc((size_t)times.lanes * (size_t)times.nodes * 2 * PROFILE_STEPS,
                                sizeof *times.microseconds);
    recorder.lanes =
        aligned_alloc(_Alignof(struct profile_lane), (size_t)times.lanes * sizeof *recorder.lanes);
    for (int i = 0; i < times.lanes; i++)
        recorder.lanes[i] = (struct profile_lane){
            .events = calloc((size_t)capacity + 1, sizeof(struct profile_event)),
            .capacity = capacity};
    for (int step = 0; step < PROFILE_STEPS && !result; step++) {
        scalars.step = scalars.batch = step + 1;
        session_profile(session, &recorder);
        result = session_step(session, batch, PROGRAM_STEP, &scalars, error);
        session_profile(session, NULL);
        take_events(&times, &recorder, step);
    }
    if (!result)
        print_times(session, &times);
    for (int i = 0; i < times.lanes; i++)
        free(recorder.lanes[i].events);
    free(recorder.lanes);
    free(times.microseconds);
    return result ? fail(error) : 0;
}

/* The times of measured layers, which other layers of the same shape reuse. */
struct measured {
    const struct backend *backend;
    struct backend_device *device;
    int count;
    struct {
        struct convolution_shape shape;
        struct convolution_times times;
    } layers[LAYERS_MAX];
};

static int find_times(void *context, const struct convolution_shape *shape,
                      struct convolution_times *times)
{
    struct measured *all = context;
    struct error error;

    for (int i = 0; i < all->count; i++)
        if (memcmp(&all->layers[i].shape, shape, sizeof *shape) == 0) {
            *times = all->layers[i].times;
            return 0;
        }
    if (convolution_measure(all->backend, all->device, shape, times, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return -1;
    }
    for (int i = 0; i < times->count && getenv("CONVOLUTION_TIMES"); i++)
        fprintf(stderr, "layer %d %c %.6f %.6f %.6f\n", all->count, times->ways[i].letter,
                times->ways[i].seconds[0], times->ways[i].seconds[1], times->ways[i].seconds[2]);
    all->layers[all->count].shape = *shape;
    all->layers[all->count++].times = *times;
    return 0;
}

/* Chooses what a plan would choose. */
static int measure(const struct backend *backend, struct backend_device *device,
                   struct stack *stack, char choice[CONVOLUTION_CHOICES_MAX], struct error *error)
{
    struct measured measured = {.backend = backend, .device = device};
    struct graph graph;
    int result;

    graph_init(&graph, stack->batch, true);
    result = build(stack, &graph, error);
    if (!result)
        convolutions_choose(backend, device, &graph, find_times, &measured, choice);
    graph_release(&graph);
    return result;
}

int main(int argc, char **argv)
{
    struct backend_device_config device_config = {.threads = argc > 2 ? atoi(argv[2]) : 1};
    const struct backend *backend = backend_cpu();
    struct session_config config = {
        .backend = backend, .build = build, .optimizer = {.kind = OPTIMIZER_SGD}, .seed = 1};
    struct session *session = NULL;
    struct error error = {0};
    struct stack stack;
    char choice[CONVOLUTION_CHOICES_MAX] = "";
    double begin = clock_monotonic();
    int64_t samples, space;
    char *memory;

    if (argc < 3 || parse(argv[1], &stack)) {
        fprintf(stderr, "convolution_speed SHAPE THREADS [CHOICE]; see its source\n");
        return 2;
    }
    if (backend->device_open(&device_config, &config.device, &error))
        return fail(&error);
    if (argc > 3 && strcmp(argv[3], "-") != 0)
        snprintf(choice, sizeof choice, "%s", argv[3]);
    if (argc <= 3 && measure(backend, config.device, &stack, choice, &error))
        return fail(&error);
    config.direct_convolutions = choice;
    config.build_context = &stack;
    config.training_batches[0] = stack.batch;
    printf("choice %s %.3f s\n", *choice ? choice : "-", clock_monotonic() - begin);
    fflush(stdout);
    if (session_prepare(&config, &session, &error) || session_allocate(session, &error))
        return fail(&error);
    samples = stack.batch * stack.channels * (stack.height ? stack.height * stack.width : 1);
    space = (samples * 4 + 63) / 64 * 64;
    memory = aligned_alloc(64, (size_t)(space + (stack.batch * 4 + 63) / 64 * 64));
    if (!memory)
        return 1;
    fill((float *)(void *)memory, samples, (int32_t *)(void *)(memory + space), stack.batch);

    struct session_batch batch = {
        .count = stack.batch, .samples = memory, .targets = memory + space};
    int result = answer(session, &batch, &error);

    if (!result && getenv("CONVOLUTION_PROFILE"))
        result = profile(session, &batch, &error);
    session_free(session);
    backend->device_close(config.device);
    free(memory);
    return result;
}
