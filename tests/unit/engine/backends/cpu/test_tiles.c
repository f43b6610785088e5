/* test_tiles.c: whole networks whose images are in tiles of bfloat16, compared with the same
 * networks with rounded operands in float32. Neither the number of threads nor the program that
 * wrote the weights changes a bit. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"
#include "tests/support/tiles.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct conv_attributes window(int kernel, int stride, int padding)
{
    return (struct conv_attributes){.kernel = {kernel, kernel},
                                    .stride = {stride, stride},
                                    .padding = {padding, padding},
                                    .dilation = {1, 1},
                                    .groups = 1};
}

/* The elements of networks for images: with and without bias; ReLU behind a convolution, behind
 * batch norm and behind a sum; a shortcut of 1x1 with stride 2; a pool. `flatten`: there is no mean
 * at the end. */
static void build_recomputing(struct graph *graph, int64_t batch, bool flatten,
                              const struct recompute_config *recompute)
{
    static const struct optimizer_config sgd = {.kind = OPTIMIZER_SGD, .momentum = 0.9};
    const struct conv_attributes three = window(3, 1, 1), half = window(3, 2, 1);
    const struct conv_attributes shortcut = window(1, 2, 0), pool = window(3, 2, 1);
    struct error error = {0};
    int32_t x, y;

    graph_init(graph, batch, true);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){3, 13, 11}, 3);
    x = graph_conv2d(graph, x, "stem", 32, &three, true);
    x = graph_activation(graph, x, "stem.relu", ACTIVATION_RELU);
    x = graph_max_pool2d(graph, x, "pool", &pool);
    y = graph_conv2d(graph, x, "conv1", 64, &half, false);
    y = graph_batch_norm(graph, y, "bn1", 1e-5f, 0.1f);
    y = graph_activation(graph, y, "relu1", ACTIVATION_RELU);
    y = graph_conv2d(graph, y, "conv2", 64, &three, true);
    y = graph_batch_norm(graph, y, "bn2", 1e-5f, 0.1f);
    x = graph_conv2d(graph, x, "shortcut", 64, &shortcut, false);
    x = graph_batch_norm(graph, x, "bn3", 1e-5f, 0.1f);
    x = graph_activation(graph, graph_add(graph, y, x, "sum"), "relu2", ACTIVATION_RELU);
    if (!flatten)
        x = graph_global_average_pool2d(graph, x, "mean");
    x = graph_flatten(graph, x, "flatten");
    graph_cross_entropy(graph, graph_linear(graph, x, "fc", 10, true));
    if (graph_differentiate(graph, &error) || graph_recompute(graph, recompute, &error) ||
        graph_lower_precision(graph, TENSOR_BFLOAT16, &error) ||
        graph_add_optimizer(graph, &sgd, &error) || graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

static void build(struct graph *graph, int64_t batch, bool flatten)
{
    build_recomputing(graph, batch, flatten, &(struct recompute_config){.kind = RECOMPUTE_NONE});
}

struct batch {
    float *samples;
    int32_t *labels;
};

static struct batch make_batch(const struct graph *graph)
{
    int64_t count = graph_shape_elements(&graph->tensors[graph->input].shape);
    struct batch batch = {tiles_allocate((size_t)count * 4),
                          tiles_allocate((size_t)graph->batch * 4)};

    tiles_seed(7);
    for (int64_t i = 0; i < count; i++)
        batch.samples[i] = tiles_draw();
    for (int64_t i = 0; i < graph->batch; i++)
        batch.labels[i] = (int32_t)(i * 7 % 10);
    return batch;
}

static void run_steps(struct test_session *session, int steps)
{
    struct batch batch = make_batch(session->graph);

    test_session_input(session, session->graph->input, batch.samples);
    test_session_input(session, session->graph->target, batch.labels);
    for (int step = 1; step <= steps; step++) {
        struct step_scalars scalars = {
            .step = step, .batch = step, .learning_rate = 0.05f, .gradient_scale = 1};

        test_session_run(session, PROGRAM_STEP, &scalars);
    }
    free(batch.samples);
    free(batch.labels);
}

/* Compares the distance of all parameters and states, relative to their size. */
static void expect_near(struct test_session *a, struct test_session *b, double tolerance)
{
    for (int32_t i = 0; i < a->graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &a->graph->tensors[i];
        int64_t count = graph_shape_elements(&tensor->shape);
        float *x, *y;
        double distance = 0, size = 0;

        if (!graph_tensor_is_persistent(a->graph, i))
            continue;
        x = tiles_allocate((size_t)count * 4);
        y = tiles_allocate((size_t)count * 4);
        test_session_read(a, i, x);
        test_session_read(b, graph_find_tensor(b->graph, tensor->name), y);
        for (int64_t k = 0; k < count; k++) {
            distance += ((double)x[k] - y[k]) * ((double)x[k] - y[k]);
            size += (double)x[k] * x[k];
        }
        /* apart from rounding, a bias before batch norm has a gradient of 0 */
        if (strncmp(tensor->name, "conv2.bias", 10) != 0 &&
            !(sqrt(distance) <= tolerance * sqrt(size)))
            fail_msg("%s: %g of %g", tensor->name, sqrt(distance), sqrt(size));
        if (tolerance == 0)
            assert_memory_equal(x, y, (size_t)count * 4);
        free(x);
        free(y);
    }
}

/* Compares after one step, when the momentum is the gradient. bfloat16 tensors between layers are
 * rounded to 8 bits, a dozen times forward and backward. */
static void check_network(int64_t batch, int tasks, bool flatten, bool plain)
{
    struct test_session_options options = {
        .threads = 2, .tasks = tasks, .emulate_precision = true, .plain_tiles = plain};
    struct test_session reference, session;
    struct graph graph;

    build(&graph, batch, flatten);
    test_session_open(&reference, &graph, &options);
    assert_false(reference.program->tiled);
    options.tiles = TILES_ALWAYS;
    test_session_open(&session, &graph, &options);
    assert_true(session.program->tiled);
    test_session_initialize(&reference, 5);
    test_session_initialize(&session, 5);
    run_steps(&reference, 1);
    run_steps(&session, 1);
    expect_near(&reference, &session, 0x1p-3);
    test_session_close(&session);
    test_session_close(&reference);
    graph_release(&graph);
}

static void test_networks(void **state)
{
    (void)state;
    for (int plain = !tiles_have_amx(); plain <= 1; plain++)
        for (int flatten = 0; flatten <= 1; flatten++) {
            check_network(37, 2, flatten, plain);
            check_network(22, 4, flatten, plain);
            check_network(3, 1, flatten, plain);
        }
}

static void test_thread_counts(void **state)
{
    struct test_session_options options = {
        .threads = 1, .tasks = 4, .emulate_precision = true, .tiles = TILES_ALWAYS};
    struct test_session reference, session;
    struct graph graph;

    (void)state;
    build(&graph, 22, false);
    test_session_open(&reference, &graph, &options);
    test_session_initialize(&reference, 3);
    run_steps(&reference, 5);
    for (options.threads = 2; options.threads <= 4; options.threads++) {
        test_session_open(&session, &graph, &options);
        test_session_initialize(&session, 3);
        run_steps(&session, 5);
        expect_near(&reference, &session, 0);
        test_session_close(&session);
    }
    test_session_close(&reference);
    graph_release(&graph);
}

/* Results that the backward part reads may be recomputed: this gives the same bits. */
static void test_recomputation(void **state)
{
    static const struct recompute_config kinds[] = {{.kind = RECOMPUTE_SELECTIVE},
                                                    {.kind = RECOMPUTE_SEGMENTS, .segments = 3}};
    struct test_session_options options = {
        .threads = 2, .tasks = 4, .emulate_precision = true, .tiles = TILES_ALWAYS};
    struct test_session reference, session;
    struct graph graph;

    (void)state;
    build(&graph, 22, false);
    test_session_open(&reference, &graph, &options);
    test_session_initialize(&reference, 3);
    run_steps(&reference, 3);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct graph again;

        build_recomputing(&again, 22, false, &kinds[i]);
        assert_true(again.node_count > graph.node_count);
        test_session_open(&session, &again, &options);
        assert_true(session.program->tiled);
        test_session_initialize(&session, 3);
        run_steps(&session, 3);
        expect_near(&reference, &session, 0);
        test_session_close(&session);
        graph_release(&again);
    }
    test_session_close(&reference);
    graph_release(&graph);
}

/* Two programs share weights, with 22 and 5 samples, in tiles or not. The second one trains the
 * weights that the first one wrote, and gives what a session of 5 samples alone gives. */
static void check_shared(bool first_tiles, bool second_tiles)
{
    struct test_session_options options = {.threads = 2,
                                           .tasks = 2,
                                           .emulate_precision = true,
                                           .tiles = first_tiles && second_tiles ? TILES_ALWAYS
                                                                                : TILES_NEVER};
    struct backend_device_config config = {.threads = 2, .emulate_precision = true};
    const struct backend *backend = backend_cpu();
    struct test_session sessions[2] = {{.backend = backend}, {.backend = backend}}, alone;
    struct memory_request requests[2];
    struct backend_device *device;
    struct backend_buffer *buffer;
    struct memory_plan plan;
    struct graph graphs[2];
    struct error error = {0};

    build(&graphs[0], 22, false);
    build(&graphs[1], 5, false);
    assert_int_equal(backend->device_open(&config, &device, &error), 0);
    device->tasks = options.tasks;
    for (int i = 0; i < 2; i++) {
        device->tiles = i ? second_tiles : first_tiles;
        sessions[i].graph = &graphs[i];
        if (backend->program_prepare(device, &graphs[i], i ? sessions[0].program : NULL,
                                     &sessions[i].program, &error))
            fail_msg("%s", error.text);
        backend->program_memory(sessions[i].program, &requests[i]);
    }
    assert_int_equal(sessions[1].program->tiled, first_tiles && second_tiles);
    assert_int_equal(memory_plan_make(requests, 2, 0, &plan, &error), 0);
    assert_int_equal(backend->buffer_create(device, plan.arena_bytes, &buffer, &error), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            backend->program_bind(sessions[i].program, &plan.placements[i], buffer, &error), 0);
    test_session_open(&alone, &graphs[1], &options);
    test_session_initialize(&sessions[0], 3);
    test_session_initialize(&alone, 3);
    run_steps(&sessions[1], 2);
    run_steps(&alone, 2);
    /* both run the same program, but sums have another order if the weights have another layout */
    expect_near(&alone, &sessions[1], first_tiles == second_tiles ? 0 : 1e-3);
    test_session_close(&alone);
    backend->program_free(sessions[1].program);
    backend->program_free(sessions[0].program);
    backend->buffer_free(buffer);
    backend->device_close(device);
    memory_plan_release(&plan);
    graph_release(&graphs[0]);
    graph_release(&graphs[1]);
}

static void test_shared_weights(void **state)
{
    (void)state;
    check_shared(true, true);
    check_shared(false, true);
    check_shared(true, false);
}

/* Images are read and written in PyTorch's layout, rounded. */
static void test_images_read_back(void **state)
{
    struct test_session_options options = {
        .threads = 1, .tasks = 2, .emulate_precision = true, .tiles = TILES_ALWAYS};
    struct test_session session;
    struct graph graph;
    int images = 0;

    (void)state;
    build(&graph, 37, false);
    test_session_open(&session, &graph, &options);
    for (int32_t i = 0; i < graph.tensor_count; i++) {
        int64_t count = graph_shape_elements(&graph.tensors[i].shape);
        float *written, *found;

        if (!program_is_tiled(session.program, i) || program_is_unfolded(session.program, i) ||
            graph.tensors[i].type != TENSOR_FLOAT32 || !program_address(session.program, i))
            continue;
        written = tiles_allocate((size_t)count * 4);
        found = tiles_allocate((size_t)count * 4);
        for (int64_t k = 0; k < count; k++)
            written[k] = tiles_draw();
        test_session_write(&session, i, written);
        test_session_read(&session, i, found);
        assert_memory_equal(written, found, (size_t)count * 4);
        images++;
        free(written);
        free(found);
    }
    assert_true(images > 10);
    test_session_close(&session);
    graph_release(&graph);
}

/* Which graphs have their images in tiles. */
static void test_choice(void **state)
{
    const struct conv_attributes three = window(3, 1, 1);
    struct conv_attributes depthwise = three;

    (void)state;
    depthwise.groups = 32;
    for (int what = 0; what < 5; what++) {
        struct graph graph;
        int32_t x;

        graph_init(&graph, 4, false);
        x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){3, 8, 8}, 3);
        x = graph_conv2d(&graph, x, "0", what == 1 ? 48 : 32, &three, true);
        x = graph_activation(&graph, x, "1", what == 2 ? ACTIVATION_SILU : ACTIVATION_RELU);
        x = graph_conv2d(&graph, x, "2", 32, what == 3 ? &depthwise : &three, true);
        x = graph_flatten(&graph, x, "3");
        graph_cross_entropy(&graph, graph_linear(&graph, x, "4", 10, true));
        assert_int_equal(graph_suits_tiles(&graph), what == 0 || what == 4);
        graph_release(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),         cmocka_unit_test(test_thread_counts),
        cmocka_unit_test(test_images_read_back), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_shared_weights),   cmocka_unit_test(test_recomputation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
