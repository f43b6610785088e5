/* test_convolution_methods.c: every way to compute a convolution (convolution_method.h), compared
 * with sums in float64. A seeded generator draws layers with any kernel, stride, dilation, padding
 * and number of groups. Each is computed forward and with its three gradients, in every order of
 * images, and by every level of the kernels that this machine supports. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* of the root mean square */
static const double tolerance = 3e-6;

enum { LAYERS = 120, OPERATIONS_MAX = 1500000 };

struct layer {
    int64_t batch, in, out, height, width;
    struct conv_attributes attributes;
    bool bias, relu;
};

static uint32_t random_state;

static uint32_t draw(uint32_t count)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % count;
}

static float *random_values(int64_t count)
{
    float *values = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);

    for (int64_t i = 0; i < count; i++)
        values[i] = (float)draw(1 << 24) * 0x1p-24f - 0.5f;
    return values;
}

/* Draws small numbers, and some that fill blocks or kernels. */
static int64_t draw_size(void)
{
    static const int64_t some[] = {1, 2, 3, 4, 8, 13, 16, 17, 24, 32};

    return draw(2) ? 1 + draw(12) : some[draw(sizeof some / sizeof *some)];
}

static int64_t out_extent(const struct layer *l, int d)
{
    const struct conv_attributes *a = &l->attributes;

    return ((d ? l->width : l->height) + 2 * a->padding[d] - a->dilation[d] * (a->kernel[d] - 1) -
            1) /
               a->stride[d] +
           1;
}

static bool fits(const struct layer *l)
{
    const struct conv_attributes *a = &l->attributes;

    for (int d = 0; d < 2; d++)
        if ((d ? l->width : l->height) + 2 * a->padding[d] <= a->dilation[d] * (a->kernel[d] - 1))
            return false;
    return l->batch * l->out * out_extent(l, 0) * out_extent(l, 1) * (l->in / a->groups) *
               a->kernel[0] * a->kernel[1] <
           OPERATIONS_MAX;
}

static struct layer draw_layer(void)
{
    struct layer l;

    do {
        int groups = 1;

        l = (struct layer){.batch = 1 + draw(6), .in = draw_size(), .out = draw_size()};
        l.height = 1 + draw(20);
        l.width = draw(8) ? 1 + draw(20) : 1 + draw(120);
        if (draw(4) == 0)
            groups = 1 + (int)draw(6);
        l.in *= groups;
        l.out *= groups;
        if (draw(6) == 0)
            groups = (int)(l.out = l.in);
        l.attributes.groups = groups;
        l.bias = draw(2);
        l.relu = draw(2);
        for (int d = 0; d < 2; d++) {
            l.attributes.kernel[d] = draw(5) ? 1 + (int)draw(5) : 1 + (int)draw(17);
            l.attributes.stride[d] = draw(2) ? 1 : 1 + (int)draw(4);
            l.attributes.dilation[d] = draw(3) ? 1 : 1 + (int)draw(4);
            l.attributes.padding[d] =
                draw(2) ? l.attributes.dilation[d] * (l.attributes.kernel[d] - 1) / 2
                        : (int)draw(4);
        }
    } while (!fits(&l));
    return l;
}

/* The results of the layer for samples x, weights w and bias b. The loss is the mean of the squares
 * of y, so dy = 2 y / count. Layouts are PyTorch's. */
struct expected {
    int64_t counts[4];
    double *values[4]; /* y, dx, dweight, dbias */
};
static const char *const names[] = {"y", "dx", "dweight", "dbias"};

/* Computes one element of y, or adds what its gradient contributes to the others. */
static double visit(const struct layer *l, const float *x, const float *w, int64_t i, double dy,
                    struct expected *e)
{
    const struct conv_attributes *a = &l->attributes;
    int64_t rows = out_extent(l, 0), columns = out_extent(l, 1),
            window = a->kernel[0] * a->kernel[1];
    int64_t in = l->in / a->groups, o = i / (rows * columns) % l->out;
    int64_t n = i / (rows * columns * l->out), group = o / (l->out / a->groups);
    double sum = 0;

    for (int64_t k = 0; k < in * window; k++) {
        int64_t h = i / columns % rows * a->stride[0] - a->padding[0] +
                    k % window / a->kernel[1] * a->dilation[0];
        int64_t c = i % columns * a->stride[1] - a->padding[1] + k % a->kernel[1] * a->dilation[1];
        int64_t at = ((n * l->in + group * in + k / window) * l->height + h) * l->width + c;

        if (h < 0 || h >= l->height || c < 0 || c >= l->width)
            continue;
        sum += (double)x[at] * w[o * in * window + k];
        e->values[1][at] += dy * w[o * in * window + k];
        e->values[2][o * in * window + k] += dy * x[at];
    }
    e->values[3][o] += dy;
    return sum;
}

static void expect_layer(const struct layer *l, const float *x, const float *w, const float *b,
                         struct expected *e)
{
    const struct conv_attributes *a = &l->attributes;
    int64_t pixels = out_extent(l, 0) * out_extent(l, 1);

    e->counts[0] = l->batch * l->out * pixels;
    e->counts[1] = l->batch * l->in * l->height * l->width;
    e->counts[2] = l->out * (l->in / a->groups) * a->kernel[0] * a->kernel[1];
    e->counts[3] = l->out;
    for (int i = 0; i < 4; i++)
        e->values[i] = calloc((size_t)e->counts[i], sizeof(double));
    for (int64_t i = 0; i < e->counts[0]; i++) {
        double sum = visit(l, x, w, i, 0, e) + (l->bias ? b[i / pixels % l->out] : 0);

        e->values[0][i] = l->relu && sum < 0 ? 0 : sum;
    }
    for (int64_t i = 0; i < e->counts[0]; i++)
        visit(l, x, w, i, 2 * e->values[0][i] / (double)e->counts[0], e);
}

static void build(struct graph *graph, const struct layer *l)
{
    struct error error = {0};
    int32_t x;

    graph_init(graph, l->batch, true);
    graph->wants_input_gradient = true;
    graph->accumulate = true; /* so that gradients are kept after a run */
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){l->in, l->height, l->width}, 3);
    x = graph_conv2d(graph, x, "layer", l->out, &l->attributes, l->bias);
    if (l->relu)
        x = graph_activation(graph, x, "relu", ACTIVATION_RELU);
    graph_mse(graph, graph_flatten(graph, x, "rows"));
    if (graph_differentiate(graph, &error) || graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

/* Compares the tensor with what is expected after `times` runs. */
static void compare(struct test_session *session, const struct layer *l, int32_t tensor,
                    const struct expected *e, int which, int times, const char *choice)
{
    const struct conv_attributes *a = &l->attributes;
    float *values = random_values(e->counts[which]);
    double error = 0, norm = 0;

    test_session_read(session, tensor, values);
    for (int64_t i = 0; i < e->counts[which]; i++) {
        double expected = times * e->values[which][i];

        error += (values[i] - expected) * (values[i] - expected);
        norm += expected * expected;
    }
    if (!(error <= tolerance * tolerance * norm))
        fail_msg("%s, %s, %d tasks: relative error %g of %s of %lldx%lldx%lldx%lld to %lld, kernel "
                 "%dx%d, stride %dx%d, dilation %dx%d, padding %dx%d, %d groups",
                 session->device->kernels->level, choice, session->program->tasks,
                 sqrt(error / norm), names[which], (long long)l->batch, (long long)l->in,
                 (long long)l->height, (long long)l->width, (long long)l->out, a->kernel[0],
                 a->kernel[1], a->stride[0], a->stride[1], a->dilation[0], a->dilation[1],
                 a->padding[0], a->padding[1], (int)a->groups);
    free(values);
}

/* The values of a layer, which are drawn once, and the expected results. */
struct material {
    float *x, *w, *b, *target;
    struct expected expected;
};

static void prepare(const struct layer *l, struct material *m)
{
    const struct conv_attributes *a = &l->attributes;

    m->x = random_values(l->batch * l->in * l->height * l->width);
    m->w = random_values(l->out * (l->in / a->groups) * a->kernel[0] * a->kernel[1]);
    m->b = random_values(l->out);
    expect_layer(l, m->x, m->w, m->b, &m->expected);
    m->target = random_values(m->expected.counts[0]);
    for (int64_t i = 0; i < m->expected.counts[0]; i++)
        m->target[i] = 0;
}

static void release(struct material *m)
{
    free(m->x);
    free(m->w);
    free(m->b);
    free(m->target);
    for (int i = 0; i < 4; i++)
        free(m->expected.values[i]);
}

static void check(const struct layer *l, const struct material *m,
                  const struct test_session_options *options)
{
    struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    const char *choice = options->direct_convolutions;
    struct test_session session;
    struct graph graph;
    int32_t weight, bias;

    build(&graph, l);
    test_session_open(&session, &graph, options);
    weight = graph_find_tensor(&graph, "layer.weight");
    bias = l->bias ? graph_find_tensor(&graph, "layer.bias") : -1;
    test_session_write(&session, weight, m->w);
    if (l->bias)
        test_session_write(&session, bias, m->b);
    test_session_input(&session, graph.input, m->x);
    test_session_input(&session, graph.target, m->target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    compare(&session, l, graph.output, &m->expected, 0, 1, choice);
    compare(&session, l, graph.input_gradient, &m->expected, 1, 1, choice);
    compare(&session, l, graph_gradient_of(&graph, weight), &m->expected, 2, 1, choice);
    if (l->bias)
        compare(&session, l, graph_gradient_of(&graph, bias), &m->expected, 3, 1, choice);
    scalars.accumulate = true;
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    compare(&session, l, graph_gradient_of(&graph, weight), &m->expected, 2, 2, choice);
    if (l->bias)
        compare(&session, l, graph_gradient_of(&graph, bias), &m->expected, 3, 2, choice);
    test_session_close(&session);
    graph_release(&graph);
}

/* Varies the order of images and the level of the kernels. */
static void vary(int i, struct test_session_options *options)
{
    int levels = 0;

    while (kernels_available()[levels])
        levels++;
    options->threads = 2;
    options->tasks = i % 5 == 4 ? 8 : i % 2 ? 3 : 1;
    options->kernels = i / 2 % levels;
    options->channels_last = i % 3 == 1;
    options->image_block = i % 3 == 2 ? kernels_available()[options->kernels]->vector : 0;
}

static void test_methods(void **state)
{
    static const char *const choices[] = {"ppp", "bbb", "nnn", "ddd", "lll", "ccc",
                                          "fff", "pcn", "nfb", "bnl", "lcf", "fbc",
                                          "qpq", "uuu", "ufb", "pul", "clu"};

    (void)state;
    random_state = 1;
    for (int i = 0; i < LAYERS; i++) {
        struct layer l = draw_layer();
        struct material m;

        prepare(&l, &m);
        for (size_t k = 0; k < sizeof choices / sizeof *choices; k++) {
            struct test_session_options options = {.direct_convolutions = choices[k]};

            vary(i + (int)k, &options);
            check(&l, &m, &options);
        }
        release(&m);
    }
}

/* The ReLU of our own kernels turns no NaN into 0, so that training which diverged does not look
 * well. oneDNN's does. */
static void test_nan_stays(void **state)
{
    static const char *const choices[] = {"ppp", "qqq", "uuu"};
    const struct layer l = {
        .batch = 2,
        .in = 5,
        .out = 19,
        .height = 3,
        .width = 4,
        .attributes = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
        .bias = true,
        .relu = true};
    const int64_t pixels = l.height * l.width, wrong = 7;
    struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    struct material m;
    float *y;

    (void)state;
    random_state = 6;
    prepare(&l, &m);
    y = random_values(m.expected.counts[0]);
    m.x[wrong] = NAN; /* of the first sample's first channel */
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        for (int k = 0; kernels_available()[k]; k++) {
            const struct test_session_options options = {
                .threads = 2, .kernels = k, .direct_convolutions = choices[i]};
            struct test_session session;
            struct graph graph;

            build(&graph, &l);
            test_session_open(&session, &graph, &options);
            test_session_write(&session, graph_find_tensor(&graph, "layer.weight"), m.w);
            test_session_write(&session, graph_find_tensor(&graph, "layer.bias"), m.b);
            test_session_input(&session, graph.input, m.x);
            test_session_input(&session, graph.target, m.target);
            test_session_run(&session, PROGRAM_FORWARD, &scalars);
            test_session_read(&session, graph.output, y);
            for (int64_t at = 0; at < m.expected.counts[0]; at++)
                if (!isnan(y[at]) != (at >= l.out * pixels || at % pixels != wrong))
                    fail_msg("%s, %s: element %lld is %g", session.device->kernels->level,
                             choices[i], (long long)at, (double)y[at]);
            test_session_close(&session);
            graph_release(&graph);
        }
    free(y);
    release(&m);
}

/* Blocks of planes are some rows of a sample, many samples, or some channels in turn; weights have
 * many panels. Unfolded images have more channels, vectors and pixels than are taken at once. */
static void test_planes_in_parts(void **state)
{
    static const struct layer layers[] = {
        {2,
         75,
         9,
         61,
         62,
         {.kernel = {2, 3}, .stride = {3, 3}, .dilation = {1, 2}, .padding = {0, 2}, .groups = 1},
         true,
         true},
        {3,
         64,
         14,
         50,
         53,
         {.kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {1, 1}, .groups = 2},
         true,
         true},
        {2,
         3,
         5,
         300,
         401,
         {.kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {1, 1}, .groups = 1},
         true,
         true},
        {1,
         2,
         3,
         260,
         515,
         {.kernel = {4, 5}, .stride = {2, 3}, .dilation = {1, 2}, .padding = {3, 2}, .groups = 1},
         true,
         false},
        {40,
         6,
         7,
         5,
         6,
         {.kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .padding = {1, 1}, .groups = 1},
         true,
         true},
        {2,
         96,
         15,
         6,
         7,
         {.kernel = {5, 5}, .stride = {1, 1}, .dilation = {2, 2}, .padding = {4, 4}, .groups = 1},
         false,
         true},
        {3,
         40,
         40,
         20,
         5,
         {.kernel = {17, 3}, .stride = {1, 1}, .dilation = {8, 1}, .padding = {64, 1}, .groups = 1},
         false,
         true},
        {3,
         300,
         290,
         4,
         5,
         {.kernel = {3, 2}, .stride = {2, 3}, .dilation = {1, 3}, .padding = {1, 2}, .groups = 1},
         false,
         true},
    };
    static const char *const choices[] = {"ppp", "qqq", "uuu"};

    (void)state;
    random_state = 2;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        struct layer l = layers[i];
        struct material m;

        prepare(&l, &m);
        for (int k = 0; kernels_available()[k]; k++)
            for (size_t way = 0; way < sizeof choices / sizeof *choices; way++) {
                struct test_session_options options = {
                    .threads = 2, .kernels = k, .direct_convolutions = choices[way]};

                check(&l, &m, &options);
            }
        release(&m);
    }
}

/* The results and gradients of a step, as bytes. */
static float *run_with_threads(const struct layer *l, const struct material *m, const char *choice,
                               int threads, int64_t *count)
{
    struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    struct test_session_options options = {
        .threads = threads, .tasks = 8, .direct_convolutions = choice};
    struct test_session session;
    struct graph graph;
    int32_t weight, tensors[4];
    float *values;

    build(&graph, l);
    test_session_open(&session, &graph, &options);
    weight = graph_find_tensor(&graph, "layer.weight");
    tensors[0] = graph.output;
    tensors[1] = graph.input_gradient;
    tensors[2] = graph_gradient_of(&graph, weight);
    tensors[3] = graph_gradient_of(&graph, graph_find_tensor(&graph, "layer.bias"));
    test_session_write(&session, weight, m->w);
    test_session_write(&session, graph_find_tensor(&graph, "layer.bias"), m->b);
    test_session_input(&session, graph.input, m->x);
    test_session_input(&session, graph.target, m->target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    *count = 0;
    for (int i = 0; i < 4; i++)
        *count += m->expected.counts[i];
    values = malloc((size_t)*count * sizeof(float));
    for (int64_t i = 0, first = 0; i < 4; first += m->expected.counts[i++]) {
        float *part = random_values(m->expected.counts[i]);

        test_session_read(&session, tensors[i], part);
        memcpy(values + first, part, (size_t)m->expected.counts[i] * sizeof(float));
        free(part);
    }
    test_session_close(&session);
    graph_release(&graph);
    return values;
}

/* With fewer samples than parts of the work, layers are divided by rows, channels, tiles or groups.
 * Any number of threads gives the same bits. */
static void test_few_samples(void **state)
{
    static const char *const choices[] = {"---", "ppp", "qqq", "ccc", "fff", "lll", "uuu", "pcf"};
    static const struct {
        int64_t batch, in, out, height, width;
        int kernel, stride, groups;
    } shapes[] = {{1, 32, 48, 9, 11, 3, 1, 1}, {3, 20, 35, 8, 7, 3, 2, 1},
                  {5, 64, 64, 6, 6, 1, 1, 1},  {1, 3, 8, 40, 37, 5, 1, 1},
                  {2, 24, 24, 9, 9, 3, 1, 6},  {11, 16, 32, 5, 5, 3, 1, 1}};

    (void)state;
    random_state = 3;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int kernel = shapes[i].kernel, stride = shapes[i].stride, padding = kernel / 2;
        struct layer l = {.batch = shapes[i].batch,
                          .in = shapes[i].in,
                          .out = shapes[i].out,
                          .height = shapes[i].height,
                          .width = shapes[i].width,
                          .attributes = {.kernel = {kernel, kernel},
                                         .stride = {stride, stride},
                                         .dilation = {1, 1},
                                         .padding = {padding, padding},
                                         .groups = shapes[i].groups},
                          .bias = true,
                          .relu = true};
        struct material m;

        prepare(&l, &m);
        for (size_t k = 0; k < sizeof choices / sizeof *choices; k++) {
            struct test_session_options options = {
                .threads = 3, .tasks = 8, .direct_convolutions = choices[k]};
            int64_t count;
            float *one = run_with_threads(&l, &m, choices[k], 1, &count);

            check(&l, &m, &options);
            for (int threads = 2; threads <= 5; threads += 3) {
                float *more = run_with_threads(&l, &m, choices[k], threads, &count);

                assert_memory_equal(one, more, (size_t)count * sizeof(float));
                free(more);
            }
            free(one);
        }
        release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_planes_in_parts),
        cmocka_unit_test(test_few_samples),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
