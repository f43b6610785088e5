/* test_quantization_aware.c: what training rounds as integers would hold it: results, gradients and
 * ranges against PyTorch's fake quantization, with a batch norm folded and without; every kernel
 * against the integers; and the maxima of integers. */
#include "base/alignment.h"
#include "base/philox.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/graph/forward.h"
#include "tests/support/dump.h"
#include "tests/support/session.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};

static void read_dump(struct dump *dump, const char *name)
{
    char path[128];
    struct error error;

    snprintf(path, sizeof path, "tests/reference/data/dumps/quantization_aware/%s.dump", name);
    if (dump_read(path, dump, &error) < 0)
        fail_msg("%s", error.text);
}

static const float *numbers(const struct dump *dump, const char *name)
{
    const struct dump_tensor *found = dump_find(dump, "%s", name);

    if (!found)
        fail_msg("the dump has no %s", name);
    return found->values;
}

/* Float32 sums of some hundred numbers: within 1e-5 of the largest one. */
static void assert_close(const char *what, const float *found, const float *expected, int64_t count)
{
    float most = 0, worst = 0;

    for (int64_t i = 0; i < count; i++) {
        most = fmaxf(most, fabsf(expected[i]));
        worst = fmaxf(worst, fabsf(found[i] - expected[i]));
    }
    if (!(worst <= 1e-5f * most))
        fail_msg("%s is off by %g of %g", what, (double)worst, (double)most);
}

static void finish(struct graph *graph)
{
    struct error error;

    if (graph_differentiate(graph, &error) < 0 || graph_round_weights(graph, &error) < 0 ||
        graph_finish(graph, &error) < 0)
        fail_msg("%s", error.text);
}

static void assert_tensor(struct test_session *session, const struct dump *dump, int32_t tensor,
                          const char *name)
{
    int64_t count = graph_shape_elements(&session->graph->tensors[tensor].shape);
    float *found = malloc((size_t)count * sizeof *found);

    test_session_read(session, tensor, found);
    assert_close(name, found, numbers(dump, name), count);
    free(found);
}

/* Three batches: the first gives the range, the second is cut to it and widens it by a hundredth,
 * and the gradient is 0 where a number was cut. */
static void ranges_follow_as_pytorchs(void **state)
{
    static const struct test_session_options ways[] = {{.threads = 1, .tasks = 1},
                                                       {.threads = 2, .tasks = 4}};
    struct dump dump;

    (void)state;
    read_dump(&dump, "ranges");
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct test_session session;
        struct graph graph;
        int32_t x;

        graph_init(&graph, 6, true);
        graph.wants_input_gradient = true;
        x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){10}, 1);
        graph_mse(&graph, graph_fake_quantize(&graph, x, "x"));
        finish(&graph);
        test_session_open(&session, &graph, &ways[w]);
        test_session_initialize(&session, 1);
        for (int i = 0; i < 3; i++) {
            char name[32];

            snprintf(name, sizeof name, "x/%d", i);
            test_session_input(&session, graph.input, numbers(&dump, name));
            snprintf(name, sizeof name, "target/%d", i);
            test_session_input(&session, graph.target, numbers(&dump, name));
            test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
            snprintf(name, sizeof name, "expected/y/%d", i);
            assert_tensor(&session, &dump, graph.output, name);
            snprintf(name, sizeof name, "expected/dx/%d", i);
            assert_tensor(&session, &dump, graph.input_gradient, name);
            snprintf(name, sizeof name, "expected/range/%d", i);
            assert_tensor(&session, &dump, graph_find_tensor(&graph, "range of x"), name);
        }
        test_session_close(&session);
        graph_release(&graph);
    }
    dump_release(&dump);
}

/* PyTorch folds the norm's factors into the weight before it rounds; they leave the integers. */
static void batch_norm_is_folded_as_pytorchs(void **state)
{
    static const char *const parameters[] = {"0.weight", "1.weight", "1.bias"};
    struct test_session session;
    struct graph graph;
    struct dump dump;
    struct error error;
    int32_t x;

    (void)state;
    read_dump(&dump, "conv-bn");
    graph_init(&graph, 4, true);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){3, 6, 6}, 3);
    x = graph_conv2d(
        &graph, x, "0", 5,
        &(struct conv_attributes){
            .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1},
        false);
    x = graph_batch_norm(&graph, x, "1", 1e-5f, 0.1f);
    graph_mse(&graph, graph_flatten(&graph, x, "2"));
    assert_int_equal(graph_make_quantization_aware(&graph, &error), 0);
    finish(&graph);
    test_session_open(&session, &graph, &(struct test_session_options){.threads = 2});
    test_session_initialize(&session, 1);
    for (int i = 0; i < 3; i++)
        test_session_write(&session, graph_find_tensor(&graph, parameters[i]),
                           numbers(&dump, parameters[i]));
    test_session_input(&session, graph.input, numbers(&dump, "x"));
    test_session_input(&session, graph.target, numbers(&dump, "target"));
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    assert_tensor(&session, &dump, graph.output, "expected/y");
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof name, "expected/d%s", parameters[i]);
        assert_tensor(&session, &dump,
                      graph_gradient_of(&graph, graph_find_tensor(&graph, parameters[i])), name);
    }
    test_session_close(&session);
    graph_release(&graph);
    dump_release(&dump);
}

/* A model for evaluation has the same ranges; one without layers to round is refused. */
static void what_cannot_be_rounded_is_refused(void **state)
{
    struct graph graph;
    struct error error;
    int32_t x;

    (void)state;
    graph_init(&graph, 2, true);
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){4}, 1);
    graph_mse(&graph, graph_activation(&graph, x, "0", ACTIVATION_TANH));
    assert_int_equal(graph_make_quantization_aware(&graph, &error), -EINVAL);
    graph_release(&graph);
    graph_init(&graph, 2, true); /* without nodes */
    graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){8}, 1);
    assert_int_equal(graph_make_quantization_aware(&graph, &error), -EINVAL);
    assert_non_null(strstr(error.text, "train.quantization_aware"));
    graph_release(&graph);
}

/* ---- kernels --------------------------------------------------------------------------------- */

enum { COUNT = 1000 };

static void draw(float *values, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = 4 * philox_uniform(philox_draw(seed, 3, (uint64_t)i).word[0]) - 2;
}

/* What is rounded is what the integers hold; what is no number stays so. */
static void rounded_numbers_are_those_of_integers(void **state)
{
    float x[COUNT], dy[COUNT], y[COUNT], dx[COUNT], expected[COUNT];
    uint8_t integers[COUNT];

    (void)state;
    draw(x, COUNT, 1);
    draw(dy, COUNT, 2);
    for (const struct kernels *const *k = kernels_available(); *k; k++) {
        const float scale = 0.01f, zero = 70;

        (*k)->quantize(x, COUNT, 1 / scale, zero, integers);
        (*k)->dequantize(integers, COUNT, scale, zero, expected);
        (*k)->fake_quantize(x, COUNT, scale, zero, y);
        assert_memory_equal(y, expected, sizeof y);
        (*k)->fake_quantize_backward(dy, x, COUNT, scale, zero, dx);
        for (int i = 0; i < COUNT; i++) {
            float integer = rintf(x[i] * (1 / scale)) + zero;

            assert_true(dx[i] == (integer >= 0 && integer <= 255 ? dy[i] : 0));
        }
        (*k)->fake_quantize((const float[]){NAN}, 1, scale, zero, y);
        assert_true(isnan(y[0]));
    }
}

static void rows_have_ranges_of_their_own(void **state)
{
    enum { ROWS = 10, WIDTH = COUNT / ROWS };
    float x[COUNT], y[COUNT];

    (void)state;
    draw(x, COUNT, 3);
    memset(x, 0, WIDTH * sizeof *x);
    for (const struct kernels *const *k = kernels_available(); *k; k++)
        for (int symmetric = 0; symmetric < 2; symmetric++) {
            (*k)->fake_quantize_rows(x, ROWS, WIDTH, symmetric, y);
            for (int r = 0; r < ROWS; r++) {
                float least = 0, most = 0, step;

                for (int i = r * WIDTH; i < (r + 1) * WIDTH; i++) {
                    least = fminf(least, x[i]);
                    most = fmaxf(most, x[i]);
                }
                step = symmetric ? fmaxf(most, -least) / 127 : (most - least) / 255;
                for (int i = r * WIDTH; i < (r + 1) * WIDTH; i++) {
                    float steps = step > 0 ? y[i] / step : y[i];

                    /* the edges of an asymmetric range lie half a step off the integers */
                    assert_true(fabsf(y[i] - x[i]) <= 1.0001f * step);
                    assert_true(fabsf(steps - rintf(steps)) < 1e-3f);
                }
            }
        }
}

/* The maxima of integers are those of the same floats, for any number of channels. */
static void maxima_of_integers(void **state)
{
    static const int channels[] = {1, 3, 16, 17, 64, 83};
    const struct pool_shape shape = {.height = 7,
                                     .width = 5,
                                     .out_height = 4,
                                     .out_width = 3,
                                     .kernel = {3, 3},
                                     .stride = {2, 2},
                                     .padding = {1, 1}};

    (void)state;
    for (const struct kernels *const *k = kernels_available(); *k; k++)
        for (size_t c = 0; c < sizeof channels / sizeof *channels; c++) {
            enum { IMAGES = 2, PIXELS = 35, POOLED = 12, MOST = 83 };
            static float x[IMAGES * PIXELS * MOST], y[IMAGES * POOLED * MOST];
            static uint8_t bytes[IMAGES * PIXELS * MOST], found[IMAGES * POOLED * MOST];
            int64_t from = (int64_t)IMAGES * PIXELS * channels[c],
                    to = (int64_t)IMAGES * POOLED * channels[c];

            for (int64_t i = 0; i < from; i++) {
                bytes[i] = (uint8_t)philox_draw(4, 5, (uint64_t)i).word[0];
                x[i] = bytes[i];
            }
            (*k)->max_pool_bytes(bytes, &shape, IMAGES, channels[c], found);
            (*k)->max_pool_forward(x, &shape, IMAGES, channels[c], y, NULL);
            for (int64_t i = 0; i < to; i++)
                assert_true(y[i] == (float)found[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_follow_as_pytorchs),
        cmocka_unit_test(batch_norm_is_folded_as_pytorchs),
        cmocka_unit_test(what_cannot_be_rounded_is_refused),
        cmocka_unit_test(rounded_numbers_are_those_of_integers),
        cmocka_unit_test(rows_have_ranges_of_their_own),
        cmocka_unit_test(maxima_of_integers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
