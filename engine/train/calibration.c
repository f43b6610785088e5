/* calibration.c: see calibration.h. Each figure is the best of several rounds: others on the
 * machine can only slow a round down. */
#include "engine/train/calibration.h"

#include "engine/graph/cost.h"
#include "engine/train/session.h"

#include <stdio.h>
#include <time.h>

enum { GEMM_SIDE = 1024, STREAM_WIDTH = 1024 * 1024, STREAM_BATCH = 16, CHAIN_LENGTH = 32 };

static const double round_seconds = 0.1;
enum { ROUNDS = 3 };

static int finish_with_loss(struct graph *graph, int32_t tensor, struct error *error)
{
    graph_mse(graph, tensor);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

static int build_gemm(void *context, struct graph *graph, struct error *error)
{
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){GEMM_SIDE}, 1);

    (void)context;
    x = graph_linear(graph, x, "0", GEMM_SIDE, false);
    return finish_with_loss(graph, x, error);
}

static int build_stream(void *context, struct graph *graph, struct error *error)
{
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){STREAM_WIDTH}, 1);

    (void)context;
    x = graph_activation(graph, x, "0", ACTIVATION_RELU);
    return finish_with_loss(graph, x, error);
}

static int build_chain(void *context, struct graph *graph, struct error *error)
{
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){16}, 1);

    (void)context;
    for (int i = 0; i < CHAIN_LENGTH; i++) {
        char name[16];

        snprintf(name, sizeof name, "%d", i);
        x = graph_linear(graph, x, name, 16, false);
    }
    return finish_with_loss(graph, x, error);
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The least seconds that one run took, on average over a round. */
static int measure_runs(struct session *session, int64_t batch, double *seconds,
                        struct error *error)
{
    uint8_t *staging = session_staging(session);
    const struct graph *graph = session_graph(session);
    size_t input =
        (size_t)graph_shape_elements(&graph->tensors[graph->input].shape) * sizeof(float);
    struct session_batch run = {batch, staging, staging + input};

    *seconds = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = seconds_now(), elapsed;
        int64_t runs = 0;

        do {
            int r = session_evaluate(session, &run, error);

            if (r < 0)
                return r;
            runs++;
            elapsed = seconds_now() - begin;
        } while (elapsed < round_seconds);
        if (round == 0 || elapsed / (double)runs < *seconds)
            *seconds = elapsed / (double)runs;
    }
    return 0;
}

/* Measures the model's forward part and counts its cost. */
static int measure(const struct backend *backend, struct backend_device *device,
                   session_build_function build, int64_t batch, size_t staging_bytes,
                   double *seconds, struct cost *cost, struct error *error)
{
    struct session_config config = {.backend = backend,
                                    .device = device,
                                    .build = build,
                                    .evaluation_batches = {batch},
                                    .staging_bytes = staging_bytes};
    struct session *session = NULL;
    struct graph_cost counted;
    int r = session_prepare(&config, &session, error);

    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0)
        r = measure_runs(session, batch, seconds, error);
    if (r == 0) {
        graph_cost_measure(session_graph(session), &counted);
        *cost = graph_cost_total(&counted, PROGRAM_FORWARD);
    }
    session_free(session);
    return r;
}

int calibration_measure(const struct backend *backend, struct backend_device *device,
                        struct calibration *calibration, struct error *error)
{
    enum { WORD = sizeof(float) };
    double seconds;
    struct cost cost;
    int r;

    r = measure(backend, device, build_gemm, GEMM_SIDE, 2L * GEMM_SIDE * GEMM_SIDE * WORD, &seconds,
                &cost, error);
    if (r < 0)
        return r;
    calibration->flops_per_second = cost.flops / seconds;
    r = measure(backend, device, build_stream, STREAM_BATCH,
                2L * STREAM_BATCH * STREAM_WIDTH * WORD, &seconds, &cost, error);
    if (r < 0)
        return r;
    calibration->bytes_per_second = cost.bytes / seconds;
    r = measure(backend, device, build_chain, 1, 2L * MEMORY_ALIGNMENT, &seconds, &cost, error);
    if (r < 0)
        return r;
    calibration->kernel_seconds = seconds / (double)cost.kernels;
    return 0;
}
