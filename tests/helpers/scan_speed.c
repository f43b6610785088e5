/* scan_speed.c: how long the selective scan takes on the CPU backend, forward and backward:
 *
 *   scan_speed BATCH STEPS CHANNELS STATES THREADS RUNS
 *
 * answers each line on standard input with the seconds of RUNS runs. Operands are parts of the
 * samples, so the time holds their copies and those of their gradients. */
#include "base/clock.h"
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"

#include <stdio.h>
#include <stdlib.h>

static float *allocate(int64_t count)
{
    float *values = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);

    for (int64_t i = 0; values && i < count; i++)
        values[i] = (float)(i * 7919 % 1009) / 504.0f - 1.0f;
    return values;
}

/* u, delta, z, B and C side by side, the scan, and the mean of its squares. */
static void build(struct graph *graph, int64_t batch, int64_t steps, int64_t channels,
                  int64_t states)
{
    const int64_t widths[] = {channels, channels, channels, states, states};
    const int64_t sample[] = {steps, 3 * channels + 2 * states};
    struct error error = {0};
    int32_t part[5];

    graph_init(graph, batch, true);
    graph->wants_input_gradient = true;
    graph_split(graph, graph_input(graph, TENSOR_FLOAT32, sample, 2), widths, 5, part, "split");
    graph_mse(graph, graph_flatten(graph,
                                   graph_selective_scan(graph,
                                                        &(struct scan_inputs){.u = part[0],
                                                                              .delta = part[1],
                                                                              .z = part[2],
                                                                              .b = part[3],
                                                                              .c = part[4],
                                                                              .sequences = 1},
                                                        "scan"),
                                   "flatten"));
    if (graph_differentiate(graph, &error) || graph_finish(graph, &error)) {
        fprintf(stderr, "scan_speed: %s\n", error.text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    struct test_session_options options = {0};
    struct test_session session;
    struct graph graph;
    float *samples, *target;
    int64_t size[4];
    char line[64];

    if (argc != 7) {
        fprintf(stderr, "usage: scan_speed BATCH STEPS CHANNELS STATES THREADS RUNS\n");
        return 2;
    }
    for (int i = 0; i < 4; i++)
        size[i] = strtoll(argv[i + 1], NULL, 10);
    options.threads = atoi(argv[5]);
    build(&graph, size[0], size[1], size[2], size[3]);
    samples = allocate(graph_shape_elements(&graph.tensors[graph.input].shape));
    target = allocate(size[0] * size[1] * size[2]);
    if (!samples || !target)
        return 1;
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 1);
    test_session_input(&session, graph.input, samples);
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    while (fgets(line, sizeof line, stdin)) {
        double begin = clock_monotonic();

        for (int i = 0; i < atoi(argv[6]); i++)
            test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
        printf("%.6f\n", clock_monotonic() - begin);
        fflush(stdout);
    }
    test_session_close(&session);
    graph_release(&graph);
    free(samples);
    free(target);
    return 0;
}
