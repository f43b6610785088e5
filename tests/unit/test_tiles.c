/* test_tiles.c: images in tiles of bfloat16 (kernels/tiles.h): convolutions and their gradients
 * against sums in float64 for every level of the kernels that this machine has, with AMX where it
 * is; whole networks against the same with rounded operands in float32; and that neither the number
 * of threads nor the program that wrote the weights changes a bit. */
#include "engine/backends/cpu/program.h"
#include "tests/support/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t random_state;

/* Numbers that bfloat16 has, of about 1. */
static float draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 25) * 0x1p-6f - 1.0f;
}

static uint16_t half_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float float_of(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool has_amx(void)
{
    static int answer = -1;

    if (answer < 0) {
        struct backend_device_config config = {.threads = 1};
        struct backend_device *device;
        struct error error = {0};

        if (backend_cpu()->device_open(&config, &device, &error))
            fail_msg("%s", error.text);
        answer = device->amx;
        backend_cpu()->device_close(device);
        if (!answer)
            print_message("no AMX here: tiles are multiplied by plain loops alone\n");
    }
    return answer;
}

/* ---- kernels ----------------------------------------------------------------------------------
 */

/* One block of samples through a layer whose kernel is square. */
struct layer {
    int64_t rows, channels, height, width, out_channels;
    int64_t kernel, stride, padding, dilation;
};

static const struct layer layers[] = {
    {16, 32, 5, 7, 64, 3, 1, 1, 1}, {5, 64, 7, 6, 32, 3, 2, 1, 1},   {16, 64, 6, 6, 64, 1, 2, 0, 1},
    {1, 32, 9, 8, 32, 5, 2, 2, 1},  {7, 32, 8, 9, 32, 3, 1, 2, 2},   {16, 96, 4, 4, 32, 1, 1, 0, 1},
    {15, 32, 3, 3, 64, 3, 3, 1, 1}, {16, 32, 40, 40, 32, 3, 1, 1, 1}};

struct layer_data {
    int64_t out_height, out_width, taps;
    int64_t x_count, y_count, w_count;
    uint16_t *x, *dy;
    float *w;                    /* [tap][out][in] */
    double *y, *dx, *dw;         /* y and dx as x and dy lie */
    int32_t *forward, *backward; /* maps of rows, then of columns */
};

static void *allocate(size_t bytes)
{
    return memset(aligned_alloc(64, (bytes + 63) / 64 * 64 + 64), 0, bytes);
}

static int64_t place(int64_t pixels, int64_t rows, int64_t c, int64_t pixel, int64_t n)
{
    return ((c / TILE_CHANNELS * pixels + pixel) * rows + n) * TILE_CHANNELS + c % TILE_CHANNELS;
}

/* Which pixel of x tap (i, k) of pixel `pixel` of y takes, or -1. */
static int64_t source_pixel(const struct layer *l, const struct layer_data *d, int64_t pixel,
                            int64_t tap)
{
    int64_t r = pixel / d->out_width * l->stride - l->padding + tap / l->kernel * l->dilation;
    int64_t c = pixel % d->out_width * l->stride - l->padding + tap % l->kernel * l->dilation;

    return r < 0 || c < 0 || r >= l->height || c >= l->width ? -1 : r * l->width + c;
}

static void expect_layer(const struct layer *l, struct layer_data *d)
{
    int64_t pixels = d->out_height * d->out_width;

    for (int64_t n = 0; n < l->rows; n++)
        for (int64_t pixel = 0; pixel < pixels; pixel++)
            for (int64_t tap = 0; tap < d->taps; tap++) {
                int64_t source = source_pixel(l, d, pixel, tap);

                for (int64_t o = 0; source >= 0 && o < l->out_channels; o++) {
                    int64_t y = place(pixels, l->rows, o, pixel, n);
                    double dy = float_of(d->dy[y]);

                    for (int64_t i = 0; i < l->channels; i++) {
                        int64_t x = place(l->height * l->width, l->rows, i, source, n);
                        int64_t w = (tap * l->out_channels + o) * l->channels + i;

                        d->y[y] += (double)float_of(d->x[x]) * d->w[w];
                        d->dx[x] += dy * d->w[w];
                        d->dw[w] += dy * float_of(d->x[x]);
                    }
                }
            }
}

static void fill_map(const struct layer *l, bool backward, int64_t extent, int64_t source_extent,
                     int32_t *map)
{
    for (int64_t p = 0; p < extent; p++)
        for (int64_t k = 0; k < l->kernel; k++) {
            int64_t from = p * l->stride - l->padding + k * l->dilation;

            if (backward) {
                from = p + l->padding - k * l->dilation;
                from = from % l->stride ? -1 : from / l->stride;
            }
            *map++ = from < 0 || from >= source_extent ? -1 : (int32_t)from;
        }
}

static struct layer_data make_layer(const struct layer *l)
{
    struct layer_data d = {.taps = l->kernel * l->kernel};
    int64_t reach = (l->kernel - 1) * l->dilation + 1;

    d.out_height = (l->height + 2 * l->padding - reach) / l->stride + 1;
    d.out_width = (l->width + 2 * l->padding - reach) / l->stride + 1;
    d.x_count = l->rows * l->channels * l->height * l->width;
    d.y_count = l->rows * l->out_channels * d.out_height * d.out_width;
    d.w_count = d.taps * l->channels * l->out_channels;
    d.x = allocate((size_t)d.x_count * 2);
    d.dy = allocate((size_t)d.y_count * 2);
    d.w = allocate((size_t)d.w_count * 4);
    d.y = allocate((size_t)d.y_count * 8);
    d.dx = allocate((size_t)d.x_count * 8);
    d.dw = allocate((size_t)d.w_count * 8);
    for (int64_t i = 0; i < d.x_count; i++)
        d.x[i] = half_of(draw());
    for (int64_t i = 0; i < d.y_count; i++)
        d.dy[i] = half_of(draw());
    for (int64_t i = 0; i < d.w_count; i++)
        d.w[i] = draw();
    d.forward = allocate((size_t)((d.out_height + d.out_width) * l->kernel) * 4);
    d.backward = allocate((size_t)((l->height + l->width) * l->kernel) * 4);
    fill_map(l, false, d.out_height, l->height, d.forward);
    fill_map(l, false, d.out_width, l->width, d.forward + d.out_height * l->kernel);
    fill_map(l, true, l->height, d.out_height, d.backward);
    fill_map(l, true, l->width, d.out_width, d.backward + l->height * l->kernel);
    expect_layer(l, &d);
    return d;
}

static void free_layer(struct layer_data *d)
{
    free(d->x);
    free(d->dy);
    free(d->w);
    free(d->y);
    free(d->dx);
    free(d->dw);
    free(d->forward);
    free(d->backward);
}

static uint16_t *pack(const struct kernels *kernels, const struct layer *l,
                      const struct layer_data *d, bool backward)
{
    int64_t from = backward ? l->out_channels : l->channels;
    int64_t to = backward ? l->channels : l->out_channels;
    uint16_t *packed = allocate((size_t)d->w_count * 2), *unit = packed;

    for (int64_t t = 0; t < to; t += TILE_CHANNELS)
        for (int64_t tap = 0; tap < d->taps; tap++)
            for (int64_t f = 0; f < from; f += TILE_CHANNELS, unit += 2 * TILE_ELEMENTS) {
                int64_t o = backward ? f : t, i = backward ? t : f;

                kernels->tile_pack_weights(d->w + (tap * l->out_channels + o) * l->channels + i,
                                           l->channels, TILE_CHANNELS, backward, unit);
            }
    return packed;
}

/* `what` against the sums: bfloat16 to half a unit in its last place and a little, of the largest.
 */
static void expect_images(const struct kernels *kernels, const struct layer *l, const char *what,
                          const double *expected, const uint16_t *found, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(expected[i] - float_of(found[i])) <= 0x1.02p-8 * fabs(expected[i]) + 1e-4))
            fail_msg("%s, %s of layer %d: %g at %lld, not %g", kernels->level, what,
                     (int)(l - layers), (double)float_of(found[i]), (long long)i, expected[i]);
}

static void check_convolution(const struct kernels *kernels, const struct layer *l,
                              const struct layer_data *d, bool amx)
{
    struct tile_convolution forward = {.height = l->height,
                                       .width = l->width,
                                       .channels = l->channels,
                                       .out_height = d->out_height,
                                       .out_width = d->out_width,
                                       .out_channels = l->out_channels,
                                       .kernel = {l->kernel, l->kernel},
                                       .row_map = d->forward,
                                       .column_map = d->forward + d->out_height * l->kernel,
                                       .column_step = 1,
                                       .amx = amx};
    struct tile_convolution backward = {.height = d->out_height,
                                        .width = d->out_width,
                                        .channels = l->out_channels,
                                        .out_height = l->height,
                                        .out_width = l->width,
                                        .out_channels = l->channels,
                                        .kernel = {l->kernel, l->kernel},
                                        .row_map = d->backward,
                                        .column_map = d->backward + l->height * l->kernel,
                                        .column_step = l->stride,
                                        .amx = amx};
    uint16_t *packed = pack(kernels, l, d, false), *transposed = pack(kernels, l, d, true);
    uint16_t *y = allocate((size_t)d->y_count * 2), *dx = allocate((size_t)d->x_count * 2);
    void *scratch = allocate((size_t)kernels->tile_convolve_scratch(&forward));
    void *other = allocate((size_t)kernels->tile_convolve_scratch(&backward));

    kernels->tile_convolve(&forward, d->x, packed, NULL, l->rows, scratch, y);
    expect_images(kernels, l, "y", d->y, y, d->y_count);
    kernels->tile_convolve(&backward, d->dy, transposed, NULL, l->rows, other, dx);
    expect_images(kernels, l, "dx", d->dx, dx, d->x_count);
    free(packed);
    free(transposed);
    free(y);
    free(dx);
    free(scratch);
    free(other);
}

static void check_gradient(const struct kernels *kernels, const struct layer *l,
                           const struct layer_data *d, bool amx)
{
    struct tile_gradient gradient = {.height = l->height,
                                     .width = l->width,
                                     .channels = l->channels,
                                     .out_height = d->out_height,
                                     .out_width = d->out_width,
                                     .out_channels = l->out_channels,
                                     .kernel = {l->kernel, l->kernel},
                                     .stride = {l->stride, l->stride},
                                     .padding = {l->padding, l->padding},
                                     .dilation = {l->dilation, l->dilation},
                                     .amx = amx};
    float *dw = allocate((size_t)d->w_count * 4);
    void *scratch = allocate((size_t)kernels->tile_gradient_scratch(&gradient));

    for (int times = 1; times <= 2; times++) { /* the second time added to the first */
        kernels->tile_convolve_weights(&gradient, d->x, d->dy, l->rows, times > 1, scratch, dw);
        for (int64_t i = 0; i < d->w_count; i++)
            if (!(fabs(times * d->dw[i] - dw[i]) <= 1e-5 * (double)(d->y_count / l->out_channels)))
                fail_msg("%s, dw of layer %d: %g at %lld, not %g", kernels->level,
                         (int)(l - layers), (double)dw[i], (long long)i, times * d->dw[i]);
    }
    free(dw);
    free(scratch);
}

static void test_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        struct layer_data data = make_layer(&layers[i]);

        for (int k = 0; kernels_available()[k]; k++)
            for (int amx = 0; amx <= (k == 0 && has_amx()); amx++) {
                check_convolution(kernels_available()[k], &layers[i], &data, amx);
                check_gradient(kernels_available()[k], &layers[i], &data, amx);
            }
        free_layer(&data);
    }
}

/* ---- networks ---------------------------------------------------------------------------------
 */

static struct conv_attributes window(int kernel, int stride, int padding)
{
    return (struct conv_attributes){.kernel = {kernel, kernel},
                                    .stride = {stride, stride},
                                    .padding = {padding, padding},
                                    .dilation = {1, 1},
                                    .groups = 1};
}

/* What the networks of images are made of: bias and none, ReLU behind a convolution, behind batch
 * norm and behind a sum, a shortcut of 1x1 with stride 2, a pool; `flatten`: no mean at the end. */
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
    struct batch batch = {allocate((size_t)count * 4), allocate((size_t)graph->batch * 4)};

    random_state = 7;
    for (int64_t i = 0; i < count; i++)
        batch.samples[i] = draw();
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

/* Of all parameters and states the distance, as a part of their size. */
static void expect_near(struct test_session *a, struct test_session *b, double tolerance)
{
    for (int32_t i = 0; i < a->graph->tensor_count; i++) {
        const struct graph_tensor *tensor = &a->graph->tensors[i];
        int64_t count = graph_shape_elements(&tensor->shape);
        float *x, *y;
        double distance = 0, size = 0;

        if (!graph_tensor_is_persistent(a->graph, i))
            continue;
        x = allocate((size_t)count * 4);
        y = allocate((size_t)count * 4);
        test_session_read(a, i, x);
        test_session_read(b, graph_find_tensor(b->graph, tensor->name), y);
        for (int64_t k = 0; k < count; k++) {
            distance += ((double)x[k] - y[k]) * ((double)x[k] - y[k]);
            size += (double)x[k] * x[k];
        }
        /* a bias before batch norm has a gradient of 0 but for rounding */
        if (strncmp(tensor->name, "conv2.bias", 10) != 0 &&
            !(sqrt(distance) <= tolerance * sqrt(size)))
            fail_msg("%s: %g of %g", tensor->name, sqrt(distance), sqrt(size));
        if (tolerance == 0)
            assert_memory_equal(x, y, (size_t)count * 4);
        free(x);
        free(y);
    }
}

/* After one step: the momentum is the gradient. What lies as bfloat16 between layers is rounded to
 * 8 bits, a dozen times on the way to and fro. */
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
    for (int plain = !has_amx(); plain <= 1; plain++)
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

/* What the backward part reads may be calculated again: the same bits. */
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

/* Two programs over the same weights, of 22 and 5 samples, in tiles or not: what the first one's
 * weights hold and the second trains is what a session of 5 samples alone makes of them. */
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
    /* the same program in both, but for the order of sums where the layout of weights differs */
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
        written = allocate((size_t)count * 4);
        found = allocate((size_t)count * 4);
        for (int64_t k = 0; k < count; k++)
            written[k] = draw();
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
        cmocka_unit_test(test_layers),        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_thread_counts), cmocka_unit_test(test_images_read_back),
        cmocka_unit_test(test_choice),        cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_recomputation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
