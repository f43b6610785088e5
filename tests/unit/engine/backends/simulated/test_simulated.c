/* test_simulated.c: a simulated device computes the same bits as the CPU, keeps to its memory, and
 * its clock advances as configured. */
#include "base/clock.h"
#include "engine/models/models.h"
#include "engine/train/session.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 16, FEATURES = 24, CLASSES = 3, STEPS = 5 };

/* ---- what a device is told ---- */

struct pace {
    double forward, backward, update; /* of each node, in seconds */
};

static double pace_seconds(const void *context, const struct graph *graph, int32_t node,
                           const struct node_description *description)
{
    const struct pace *pace = context;
    enum graph_phase phase = graph->nodes[node].phase;

    (void)description;
    return phase == GRAPH_FORWARD    ? pace->forward
           : phase == GRAPH_BACKWARD ? pace->backward
                                     : pace->update;
}

static double sum(const struct pace *pace, const struct graph *graph)
{
    double seconds = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        seconds += pace_seconds(pace, graph, i, NULL);
    return seconds;
}

/* ---- a session on one of the two ---- */

static int build(void *context, struct graph *graph, struct error *error)
{
    static const struct model_data data = {
        .type = TENSOR_FLOAT32, .sample_shape = {FEATURES}, .rank = 1, .outputs = CLASSES};
    static const int64_t hidden[] = {32};
    static const struct model_config model = {.kind = MODEL_MLP,
                                              .hidden = hidden,
                                              .hidden_count = 1,
                                              .activation = ACTIVATION_RELU,
                                              .batch_norm = true,
                                              .dropout = 0.2f};

    (void)context;
    return model_build(&model, &data, graph, error);
}

struct run {
    const struct backend *backend;
    struct backend_device *device;
    struct session *session;
    struct simulated_device_config config;
};

static void open_device(struct run *run, const struct pace *pace, uint64_t memory)
{
    struct backend_device_config config = {.threads = 2};
    struct error error = {0};

    *run = (struct run){
        .backend = pace ? backend_simulated() : backend_cpu(),
        .config = {
            .name = "sim7", .memory_bytes = memory, .node_seconds = pace_seconds, .context = pace}};
    config.simulated = pace ? &run->config : NULL;
    assert_int_equal(run->backend->device_open(&config, &run->device, &error), 0);
}

static int open_session(struct run *run, struct error *error)
{
    struct session_config config = {
        .backend = run->backend,
        .device = run->device,
        .build = build,
        .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
        .training_batches = {BATCH},
        .evaluation_batches = {BATCH},
        .staging_bytes = 2 * BATCH * FEATURES * sizeof(float),
        .seed = 3,
    };
    int r = session_prepare(&config, &run->session, error);

    return r < 0 ? r : session_allocate(run->session, error);
}

static void close_run(struct run *run)
{
    session_free(run->session);
    run->backend->device_close(run->device);
}

static struct session_batch fill_batch(struct run *run)
{
    float *samples = session_staging(run->session);
    int32_t *labels = (int32_t *)(samples + BATCH * FEATURES);

    for (int i = 0; i < BATCH * FEATURES; i++)
        samples[i] = (float)sin(i);
    for (int i = 0; i < BATCH; i++)
        labels[i] = i % CLASSES;
    return (struct session_batch){.count = BATCH, .samples = samples, .targets = labels};
}

static void train(struct run *run, int steps)
{
    struct session_batch batch = fill_batch(run);
    struct error error = {0};

    for (int step = 1; step <= steps; step++) {
        struct step_scalars scalars = {.step = step,
                                       .batch = step,
                                       .seed = 5,
                                       .learning_rate = 0.1f,
                                       .gradient_scale = 1,
                                       .momentum_product = 1};

        assert_int_equal(session_step(run->session, &batch, PROGRAM_STEP, &scalars, &error), 0);
    }
}

/* ---- the tests ---- */

static void results_are_the_cpus(void **state)
{
    struct pace pace = {1e-9, 1e-9, 1e-9};
    struct run runs[2];
    struct step_metrics metrics[2];
    struct session_tensor tensor;
    struct error error = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        open_device(&runs[i], i ? &pace : NULL, 1 << 20);
        assert_int_equal(open_session(&runs[i], &error), 0);
        train(&runs[i], STEPS);
        session_read_metrics(runs[i].session, true, &metrics[i]);
    }
    assert_memory_equal(&metrics[0].loss_sum, &metrics[1].loss_sum, sizeof(double));
    assert_true(metrics[0].samples == STEPS * BATCH && metrics[1].samples == STEPS * BATCH);
    for (int i = 0; session_tensor(runs[0].session, i, &tensor) == 0; i++) {
        void *one = malloc(tensor.bytes), *other = malloc(tensor.bytes);

        assert_int_equal(session_read(runs[0].session, i, one, &error), 0);
        assert_int_equal(session_read(runs[1].session, i, other, &error), 0);
        assert_memory_equal(one, other, tensor.bytes);
        free(one);
        free(other);
    }
    close_run(&runs[0]);
    close_run(&runs[1]);
}

static void says_what_it_is(void **state)
{
    struct pace pace = {0};
    struct backend_device_info info;
    struct run run;

    (void)state;
    open_device(&run, &pace, 12345);
    run.backend->device_describe(run.device, &info);
    assert_string_equal(info.name, "sim7");
    assert_int_equal(info.memory_bytes, 12345);
    assert_true(info.owns_memory);
    assert_non_null(strstr(info.model, "simulated on "));
    run.backend->device_close(run.device);
}

static void memory_is_limited(void **state)
{
    struct pace pace = {0};
    struct backend_buffer *buffers[2];
    struct error error = {0};
    struct run run;

    (void)state;
    open_device(&run, &pace, 8192);
    assert_true(open_session(&run, &error) == -ERROR_DEVICE_MEMORY);
    assert_non_null(strstr(error.text, "of the memory of sim7, which has 0.0 MiB"));
    session_free(run.session);
    assert_int_equal(run.backend->buffer_create(run.device, 4096, &buffers[0], &error), 0);
    assert_int_equal(run.backend->buffer_create(run.device, 4096, &buffers[1], &error), 0);
    run.backend->buffer_free(buffers[1]);
    assert_int_equal(run.backend->buffer_reserve(run.device, 4097, &buffers[1], &error),
                     -ERROR_DEVICE_MEMORY);
    run.backend->buffer_free(buffers[0]);
    assert_int_equal(run.backend->buffer_reserve(run.device, 8192, &buffers[0], &error), 0);
    run.backend->buffer_free(buffers[0]);
    run.backend->device_close(run.device);
}

/* The device is slower than the CPU: the steps really take that long. */
static void slow_runs_wait(void **state)
{
    struct pace pace = {1e-3, 0.5e-3, 0.25e-3};
    struct error error = {0};
    struct run run;
    double wall, clock, step;

    (void)state;
    open_device(&run, &pace, 1 << 20);
    assert_int_equal(open_session(&run, &error), 0);
    step = sum(&pace, session_graph(run.session));
    assert_true(step > 2e-3);
    wall = clock_monotonic();
    clock = session_seconds(run.session);
    train(&run, STEPS);
    wall = clock_monotonic() - wall;
    clock = session_seconds(run.session) - clock;
    assert_true(clock >= STEPS * step - 1e-9);
    assert_true(wall >= STEPS * step - 1e-3); /* less than one millisecond may be owed */
    close_run(&run);
}

/* The device is faster than the CPU, so its clock falls behind the wall clock. */
static void fast_runs_set_the_clock_back(void **state)
{
    struct pace pace = {1e-9, 1e-9, 1e-9};
    struct error error = {0};
    struct run run;
    double wall, clock, behind;

    (void)state;
    open_device(&run, &pace, 1 << 20);
    assert_int_equal(open_session(&run, &error), 0);
    wall = clock_monotonic();
    clock = session_seconds(run.session);
    train(&run, 200);
    clock = session_seconds(run.session) - clock;
    behind = clock_monotonic() - wall - clock;
    assert_true(clock >= 200 * sum(&pace, session_graph(run.session)) - 1e-9);
    assert_true(behind > 0);
    close_run(&run);
}

/* A recorder gets the device's times: one node after the other, by phase. */
static void recorder_gets_the_devices_times(void **state)
{
    struct pace pace = {3e-6, 2e-6, 1e-6};
    struct profile_event events[256];
    struct profile_lane lanes[2] = {{.events = events, .capacity = 256}, {.capacity = 0}};
    struct profile_recorder recorder = {.lanes = lanes, .keeps_events = true};
    const struct graph *graph;
    struct error error = {0};
    struct run run;
    int64_t counts[GRAPH_UPDATE + 1] = {0};
    int lane_count;

    (void)state;
    open_device(&run, &pace, 1 << 20);
    assert_int_equal(open_session(&run, &error), 0);
    graph = session_graph(run.session);
    assert_int_equal(session_profile_events(run.session, &lane_count), graph->node_count);
    session_profile(run.session, &recorder);
    train(&run, 1);
    session_profile(run.session, NULL);
    assert_int_equal(lanes[0].count, graph->node_count);
    for (int i = 0; i < graph->node_count; i++) {
        enum graph_phase phase = graph->nodes[events[i].node].phase;
        int64_t took = phase == GRAPH_FORWARD ? 3000 : phase == GRAPH_BACKWARD ? 2000 : 1000;

        counts[phase]++;
        assert_in_range(events[i].end - events[i].begin, took - 1, took + 1);
        assert_true(i == 0 || events[i].begin == events[i - 1].end);
    }
    assert_in_range(recorder.phase_nanoseconds[GRAPH_FORWARD], counts[GRAPH_FORWARD] * 3000 - 1,
                    counts[GRAPH_FORWARD] * 3000 + 1);
    assert_in_range(recorder.phase_nanoseconds[GRAPH_UPDATE], counts[GRAPH_UPDATE] * 1000 - 1,
                    counts[GRAPH_UPDATE] * 1000 + 1);
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_cpus),
        cmocka_unit_test(says_what_it_is),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(slow_runs_wait),
        cmocka_unit_test(fast_runs_set_the_clock_back),
        cmocka_unit_test(recorder_gets_the_devices_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
