/* test_winograd.c: convolutions of 3x3 by Winograd's algorithm, compared with sums in float64:
 * forward and the three gradients, for every level of the kernels that this machine supports, both
 * divisions of the work, and images that the tiles do not fill. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* relative to the root mean square; direct convolutions in float32 have errors of a few 1e-7 */
static const double tolerance = 3e-6;

struct layer {
    int64_t batch, in, out, height, width;
    int padding;
    bool bias, relu;
    bool by_frequency; /* with 3 tasks, the products are divided in this way */
};

static const struct layer layers[] = {
    {5, 16, 32, 13, 9, 1, true, true, false},   {10, 48, 16, 8, 8, 1, false, false, false},
    {13, 32, 32, 10, 7, 0, false, true, false}, {5, 16, 16, 6, 9, 2, true, false, false},
    {6, 32, 64, 4, 4, 1, true, true, true},     {3, 64, 48, 3, 5, 1, false, false, true},
    {7, 80, 80, 6, 5, 0, true, false, true},
};

static uint32_t random_state;

static float *random_values(int64_t count)
{
    float *values = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);

    for (int64_t i = 0; i < count; i++) {
        random_state = random_state * 1664525u + 1013904223u;
        values[i] = (float)(random_state >> 8) * 0x1p-24f - 0.5f;
    }
    return values;
}

/* The results of a layer for samples x, weights w and bias b. The loss is the mean of the squares
 * of y, so dy = 2 y / count. Layouts are PyTorch's. */
struct expected {
    int64_t out_height, out_width, counts[4];
    double *y, *dx, *dw, *db;
};

static void expect_layer(const struct layer *l, const float *x, const float *w, const float *b,
                         struct expected *e)
{
    int64_t pixels;

    e->out_height = l->height + 2 * l->padding - 2;
    e->out_width = l->width + 2 * l->padding - 2;
    pixels = e->out_height * e->out_width;
    e->counts[0] = l->batch * l->out * pixels;
    e->counts[1] = l->batch * l->in * l->height * l->width;
    e->counts[2] = l->out * l->in * 9;
    e->counts[3] = l->out;
    e->y = calloc((size_t)e->counts[0], sizeof(double));
    e->dx = calloc((size_t)e->counts[1], sizeof(double));
    e->dw = calloc((size_t)e->counts[2], sizeof(double));
    e->db = calloc((size_t)e->counts[3], sizeof(double));
    for (int pass = 0; pass < 2; pass++) /* forward, backward */
        for (int64_t i = 0; i < e->counts[0]; i++) {
            int64_t n = i / (l->out * pixels), o = i / pixels % l->out;
            int64_t row = i % pixels / e->out_width, column = i % e->out_width;
            double sum = l->bias ? b[o] : 0, dy = 2 * e->y[i] / (double)e->counts[0];

            for (int64_t k = 0; k < l->in * 9; k++) {
                int64_t h = row + k % 9 / 3 - l->padding, c = column + k % 3 - l->padding;
                int64_t at = ((n * l->in + k / 9) * l->height + h) * l->width + c;

                if (h < 0 || h >= l->height || c < 0 || c >= l->width)
                    continue;
                sum += (double)x[at] * w[o * l->in * 9 + k];
                e->dx[at] += pass ? dy * w[o * l->in * 9 + k] : 0;
                e->dw[o * l->in * 9 + k] += pass ? dy * x[at] : 0;
            }
            if (pass)
                e->db[o] += dy;
            else
                e->y[i] = l->relu && sum < 0 ? 0 : sum;
        }
}

static void release_expected(struct expected *e)
{
    free(e->y);
    free(e->dx);
    free(e->dw);
    free(e->db);
}

static void compare(struct test_session *session, int32_t tensor, const double *expected,
                    int64_t count, const char *what)
{
    float *values = random_values(count);
    double error = 0, norm = 0;

    test_session_read(session, tensor, values);
    for (int64_t i = 0; i < count; i++) {
        error += (values[i] - expected[i]) * (values[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    if (!(error <= tolerance * tolerance * norm))
        fail_msg("%s, %d tasks: relative error %g of %s", session->device->kernels->level,
                 session->program->tasks, sqrt(error / norm), what);
    free(values);
}

static void build(struct graph *graph, const struct layer *l)
{
    struct conv_attributes attributes = {.stride = {1, 1},
                                         .padding = {l->padding, l->padding},
                                         .dilation = {1, 1},
                                         .kernel = {3, 3},
                                         .groups = 1};
    struct error error = {0};
    int32_t x;

    graph_init(graph, l->batch, true);
    graph->wants_input_gradient = true;
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){l->in, l->height, l->width}, 3);
    x = graph_conv2d(graph, x, "layer", l->out, &attributes, l->bias);
    if (l->relu)
        x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
    graph_mse(graph, graph_flatten(graph, x, "rows"));
    if (graph_differentiate(graph, &error) || graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

/* How many nodes of the program use this algorithm. */
static int count_winograd(const struct test_session *session)
{
    int count = 0;

    for (int32_t i = 0; i < session->graph->node_count; i++)
        count += session->program->nodes[i].functions->prepare == winograd_prepare;
    return count;
}

static void check_layer(const struct layer *l, const struct test_session_options *options)
{
    struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    float *x, *w, *b, *target;
    unsigned direct =
        options->direct_convolutions ? (unsigned)*options->direct_convolutions - '0' : 0;
    struct test_session session;
    struct expected e;
    struct graph graph;

    build(&graph, l);
    random_state = 1;
    x = random_values(l->batch * l->in * l->height * l->width);
    w = random_values(l->out * l->in * 9);
    b = random_values(l->out);
    expect_layer(l, x, w, b, &e);
    target = random_values(e.counts[0]);
    for (int64_t i = 0; i < e.counts[0]; i++)
        target[i] = 0;
    test_session_open(&session, &graph, options);
    assert_int_equal(count_winograd(&session), 3 - __builtin_popcount(direct));
    test_session_write(&session, graph_find_tensor(&graph, "layer.weight"), w);
    if (l->bias)
        test_session_write(&session, graph_find_tensor(&graph, "layer.bias"), b);
    test_session_input(&session, graph.input, x);
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    compare(&session, graph.output, e.y, e.counts[0], "y");
    compare(&session, graph.input_gradient, e.dx, e.counts[1], "dx");
    compare(&session, graph_gradient_of(&graph, graph_find_tensor(&graph, "layer.weight")), e.dw,
            e.counts[2], "dweight");
    if (l->bias)
        compare(&session, graph_gradient_of(&graph, graph_find_tensor(&graph, "layer.bias")), e.db,
                e.counts[3], "dbias");
    test_session_close(&session);
    graph_release(&graph);
    release_expected(&e);
    free(x);
    free(w);
    free(b);
    free(target);
}

static void test_layers(void **state)
{
    (void)state;
    for (int level = 0; kernels_available()[level]; level++)
        for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
            for (int tasks = 1; tasks <= 3; tasks += 2) {
                struct test_session_options options = {.threads = 2,
                                                       .tasks = tasks,
                                                       .kernels = level,
                                                       .image_block =
                                                           kernels_available()[level]->vector};

                check_layer(&layers[i], &options);
            }
}

/* The layers above are divided as their rows say: by samples needs scratch, by frequency does
 * not. */
static void test_divisions(void **state)
{
    struct test_session_options options = {.threads = 2, .tasks = 3};

    (void)state;
    options.image_block = kernels_available()[0]->vector;
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        struct test_session session;
        struct graph graph;

        build(&graph, &layers[i]);
        test_session_open(&session, &graph, &options);
        assert_int_equal(session.program->scratch_bytes == 0, layers[i].by_frequency);
        test_session_close(&session);
        graph_release(&graph);
    }
}

/* Each direction may be computed directly instead: apart from rounding, results are the same. */
static void test_choice(void **state)
{
    (void)state;
    for (int digit = 0; digit < 8; digit++) {
        char digits[] = {(char)('0' + digit), '\0'};
        struct test_session_options options = {.threads = 2,
                                               .tasks = 3,
                                               .image_block = kernels_available()[0]->vector,
                                               .direct_convolutions = digits};

        check_layer(&layers[1], &options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
