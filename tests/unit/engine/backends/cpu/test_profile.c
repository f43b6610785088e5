/* test_profile.c: the events that the CPU backend records: every step of every task, in order, on
 * the lane of its thread, within the run. Recording changes no result. */
#include "base/clock.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 8, SIDE = 8, CHANNELS = 16, CLASSES = 4, THREADS = 2, TASKS = 4 };
enum { SAMPLES = BATCH * 3 * SIDE * SIDE };

struct fixture {
    struct graph graph;
    struct test_session session;
    struct profile_lane lanes[THREADS];
    struct profile_recorder recorder;
    _Alignas(64) float samples[SAMPLES];
    _Alignas(64) int32_t labels[BATCH];
};

static void build(struct graph *graph)
{
    static const struct conv_attributes three = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1};
    static const struct optimizer_config sgd = {.kind = OPTIMIZER_SGD, .momentum = 0.9};
    struct error error = {0};
    int32_t x;

    graph_init(graph, BATCH, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, SIDE, SIDE}, 3);
    x = graph_conv2d(graph, x, "conv", CHANNELS, &three, false);
    x = graph_batch_norm(graph, x, "norm", 1e-5f, 0.1f);
    x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
    x = graph_flatten(graph, x, "flatten");
    graph_cross_entropy(graph, graph_linear(graph, x, "head", CLASSES, true));
    if (graph_differentiate(graph, &error) || graph_add_optimizer(graph, &sgd, &error) ||
        graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

static int setup(void **state)
{
    static struct fixture fixture;
    static const struct test_session_options options = {.threads = THREADS, .tasks = TASKS};
    struct fixture *f = &fixture;
    int64_t capacity;

    *f = (struct fixture){0};
    build(&f->graph);
    test_session_open(&f->session, &f->graph, &options);
    test_session_initialize(&f->session, 5);
    for (int i = 0; i < SAMPLES; i++)
        f->samples[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    for (int i = 0; i < BATCH; i++)
        f->labels[i] = i % CLASSES;
    test_session_input(&f->session, f->graph.input, f->samples);
    test_session_input(&f->session, f->graph.target, f->labels);
    capacity = f->session.backend->program_profile_events(f->session.program);
    for (int i = 0; i < THREADS; i++)
        f->lanes[i] = (struct profile_lane){
            .events = calloc((size_t)capacity, sizeof(struct profile_event)), .capacity = capacity};
    f->recorder = (struct profile_recorder){.lanes = f->lanes, .keeps_events = true};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < THREADS; i++)
        free(f->lanes[i].events);
    test_session_close(&f->session);
    graph_release(&f->graph);
    return 0;
}

static void run_recorded(struct fixture *f, unsigned phases)
{
    struct step_scalars scalars = {
        .step = 1, .batch = 1, .learning_rate = 0.1f, .gradient_scale = 1};

    f->session.backend->device_profile(f->session.device, &f->recorder);
    test_session_run(&f->session, phases, &scalars);
    f->session.backend->device_profile(f->session.device, NULL);
}

static void test_every_step_is_there(void **state)
{
    struct fixture *f = *state;
    int64_t begin = clock_monotonic_nanoseconds(), end;
    int tasks[64] = {0}; /* for each node, the set of its tasks as bits */
    bool waited = false;

    run_recorded(f, PROGRAM_STEP);
    end = clock_monotonic_nanoseconds();
    for (int lane = 0; lane < THREADS; lane++) {
        int64_t last = begin;

        assert_true(f->lanes[lane].count <= f->lanes[lane].capacity);
        for (int64_t i = 0; i < f->lanes[lane].count; i++) {
            const struct profile_event *event = &f->lanes[lane].events[i];

            assert_true(event->begin >= last && event->end >= event->begin && event->end <= end);
            last = event->end;
            waited |= event->node == PROFILE_WAIT;
            if (event->node == PROFILE_WAIT)
                continue;
            assert_in_range(event->node, 0, f->graph.node_count - 1);
            assert_int_equal(event->task * THREADS / TASKS, lane);
            tasks[event->node] |= 1 << event->task;
        }
    }
    assert_true(waited);
    for (int32_t i = 0; i < f->graph.node_count; i++) {
        enum graph_op op = f->graph.nodes[i].op;

        /* batch norm computes the activation as well, and so do their gradients */
        if (op == OP_ACTIVATION)
            assert_int_equal(tasks[i], 0);
        else if (op != OP_ACTIVATION_BACKWARD)
            assert_true(tasks[i] & 1);
        if (op == OP_CONV2D)
            assert_int_equal(tasks[i], (1 << TASKS) - 1);
    }
}

static void test_phases(void **state)
{
    struct fixture *f = *state;
    int64_t begin, sum = 0, took;

    f->recorder.keeps_events = false;
    begin = clock_monotonic_nanoseconds();
    run_recorded(f, PROGRAM_FORWARD | PROGRAM_BACKWARD);
    took = clock_monotonic_nanoseconds() - begin;
    for (int i = 0; i <= GRAPH_UPDATE; i++)
        sum += f->recorder.phase_nanoseconds[i];
    assert_true(f->recorder.phase_nanoseconds[GRAPH_FORWARD] > 0);
    assert_true(f->recorder.phase_nanoseconds[GRAPH_BACKWARD] > 0);
    assert_int_equal(f->recorder.phase_nanoseconds[GRAPH_UPDATE], 0);
    assert_true(sum <= took);
    assert_int_equal(f->lanes[0].count + f->lanes[1].count, 0);
}

/* A full lane keeps the events that it has. */
static void test_full_lane(void **state)
{
    struct fixture *f = *state;

    f->lanes[0].capacity = 3;
    run_recorded(f, PROGRAM_STEP);
    run_recorded(f, PROGRAM_STEP);
    assert_int_equal(f->lanes[0].count, 3);
    assert_true(f->lanes[0].events[2].end > 0);
    assert_int_equal(f->lanes[0].events[3].end, 0);
}

static void test_same_bits(void **state)
{
    struct fixture *f = *state;
    int32_t weight = graph_find_tensor(&f->graph, "conv.weight");
    float recorded[CHANNELS * 3 * 9], plain[CHANNELS * 3 * 9];
    struct step_scalars scalars = {
        .step = 1, .batch = 1, .learning_rate = 0.1f, .gradient_scale = 1};

    test_session_run(&f->session, PROGRAM_STEP, &scalars);
    test_session_read(&f->session, weight, plain);
    test_session_initialize(&f->session, 5);
    run_recorded(f, PROGRAM_STEP);
    test_session_read(&f->session, weight, recorded);
    assert_memory_equal(plain, recorded, sizeof plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_step_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_phases, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_lane, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_bits, setup, teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
