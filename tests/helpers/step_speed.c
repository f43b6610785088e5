/* step_speed.c: how long a training step takes on the CPU backend, without data loading:
 *
 *   step_speed MODEL THREADS [STEPS]
 *
 * answers each line on standard input with the seconds of STEPS steps, on the wall clock and in
 * processor time, and the floating-point operations of one step, so that a comparison can
 * alternate. Models: mlp-784-256-10 (batch 128), mlp-64-128-10 (batch 64), cnn (batch 64), and
 * "ceiling": a product of 1024×1024 matrices on each thread. */
#include "engine/backends/cpu/onednn.h"
#include "engine/backends/cpu/threads.h"
#include "tests/support/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void build_mlp(struct graph *graph, int64_t batch, int64_t features, int64_t hidden)
{
    int32_t x;

    graph_init(graph, batch, true);
    x = graph_input(graph, TENSOR_FLOAT32, &features, 1);
    x = graph_linear(graph, x, "0", hidden, true);
    x = graph_activation(graph, x, "1", ACTIVATION_RELU);
    graph_cross_entropy(graph, graph_linear(graph, x, "2", 10, true));
}

/* conv 32, pool, conv 64, pool, linear 128, linear 10 on 28×28 images */
static void build_cnn(struct graph *graph, int64_t batch)
{
    static const struct conv_attributes three = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1};
    static const struct conv_attributes pool = {
        .stride = {2, 2}, .dilation = {1, 1}, .kernel = {2, 2}, .groups = 1};
    int32_t x;

    graph_init(graph, batch, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){1, 28, 28}, 3);
    for (int i = 0; i < 2; i++) {
        x = graph_conv2d(graph, x, i ? "3" : "0", i ? 64 : 32, &three, true);
        x = graph_activation(graph, x, i ? "4" : "1", ACTIVATION_RELU);
        x = graph_max_pool2d(graph, x, i ? "5" : "2", &pool);
    }
    x = graph_flatten(graph, x, "6");
    x = graph_linear(graph, x, "7", 128, true);
    x = graph_activation(graph, x, "8", ACTIVATION_RELU);
    graph_cross_entropy(graph, graph_linear(graph, x, "9", 10, true));
}

/* Multiplications and additions of all linear and convolution nodes, forward and backward. */
static double count_operations(const struct graph *graph)
{
    double sum = 0;

    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        int32_t weight = node->input[1], y = node->output[0];

        switch (node->op) {
        case OP_LINEAR_BACKWARD_WEIGHTS:
        case OP_CONV2D_BACKWARD_WEIGHTS:
            weight = node->output[0];
            y = node->input[1];
            break;
        case OP_LINEAR_BACKWARD_DATA:
        case OP_CONV2D_BACKWARD_DATA:
            y = node->input[0];
            break;
        case OP_LINEAR:
        case OP_CONV2D:
            break;
        default:
            continue;
        }
        sum += 2.0 * (double)graph_shape_elements(&graph->tensors[y].shape) *
               (double)graph_shape_elements(&graph->tensors[weight].shape) /
               (double)graph->tensors[weight].shape.extent[0];
    }
    return sum;
}

/* One large product on each thread. */
struct ceiling {
    float *a, *b, *c;
};
enum { CEILING_EXTENT = 1024 };

static void multiply(void *context, int thread)
{
    const struct ceiling *ceiling = context;
    int64_t n = CEILING_EXTENT;

    onednn_sgemm('N', 'N', n, n, n, ceiling->a, n, ceiling->b, n, 0, ceiling->c + thread * n * n,
                 n);
}

static int measure_ceiling(int threads)
{
    size_t bytes = (size_t)CEILING_EXTENT * CEILING_EXTENT * sizeof(float);
    struct ceiling ceiling = {aligned_alloc(64, bytes), aligned_alloc(64, bytes),
                              aligned_alloc(64, (size_t)threads * bytes)};
    struct thread_team *team;
    struct error error = {0};
    char line[64];

    memset(ceiling.a, 0, bytes);
    memset(ceiling.b, 0, bytes);
    if (thread_team_create(threads, onednn_thread_begin, &team, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        double wall = now(CLOCK_MONOTONIC), processor = now(CLOCK_PROCESS_CPUTIME_ID);

        thread_team_run(team, threads, multiply, &ceiling);
        printf("%.9f %.9f %.0f\n", now(CLOCK_MONOTONIC) - wall,
               now(CLOCK_PROCESS_CPUTIME_ID) - processor,
               2.0 * threads * CEILING_EXTENT * CEILING_EXTENT * CEILING_EXTENT);
        fflush(stdout);
    }
    thread_team_free(team);
    free(ceiling.a);
    free(ceiling.b);
    free(ceiling.c);
    return 0;
}

static int build(struct graph *graph, const char *model)
{
    const struct optimizer_config sgd = {.kind = OPTIMIZER_SGD};
    struct error error = {0};

    if (strcmp(model, "mlp-784-256-10") == 0)
        build_mlp(graph, 128, 784, 256);
    else if (strcmp(model, "mlp-64-128-10") == 0)
        build_mlp(graph, 64, 64, 128);
    else if (strcmp(model, "cnn") == 0)
        build_cnn(graph, 64);
    else
        return -1;
    if (graph_differentiate(graph, &error) || graph_add_optimizer(graph, &sgd, &error) ||
        graph_finish(graph, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct test_session_options options = {.threads = argc > 2 ? atoi(argv[2]) : 1};
    long steps = argc > 3 ? atol(argv[3]) : 100;
    struct step_scalars scalars = {.learning_rate = 0.01f, .gradient_scale = 1};
    struct test_session session;
    struct graph graph;
    char line[64];
    float *samples;
    int32_t *labels;
    int64_t count;

    if (argc > 2 && strcmp(argv[1], "ceiling") == 0)
        return measure_ceiling(options.threads);
    if (argc < 3 || build(&graph, argv[1])) {
        fprintf(stderr, "step_speed mlp-784-256-10|mlp-64-128-10|cnn|ceiling THREADS [STEPS]\n");
        return 2;
    }
    count = graph_shape_elements(&graph.tensors[graph.input].shape);
    samples = aligned_alloc(64, (size_t)(count * 4 + 63) / 64 * 64);
    labels = aligned_alloc(64, (size_t)(graph.batch * 4 + 63) / 64 * 64);
    for (int64_t i = 0; i < count; i++)
        samples[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    for (int64_t i = 0; i < graph.batch; i++)
        labels[i] = (int32_t)(i * 31 % 10);
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 1);
    test_session_input(&session, graph.input, samples);
    test_session_input(&session, graph.target, labels);
    while (fgets(line, sizeof line, stdin)) {
        double wall = now(CLOCK_MONOTONIC), processor = now(CLOCK_PROCESS_CPUTIME_ID);

        for (long i = 0; i < steps; i++) {
            scalars.step = scalars.batch = scalars.step + 1;
            test_session_run(&session, PROGRAM_STEP, &scalars);
        }
        printf("%.9f %.9f %.0f\n", now(CLOCK_MONOTONIC) - wall,
               now(CLOCK_PROCESS_CPUTIME_ID) - processor, count_operations(&graph));
        fflush(stdout);
    }
    test_session_close(&session);
    graph_release(&graph);
    free(samples);
    free(labels);
    return 0;
}
