/* test_gradients_sequences.c: the gradients of operators over sequences on the CPU backend against
 * finite differences of the loss (tests/support/finite_differences.h). Padding has no part. */
#include "engine/graph/build.h"
#include "engine/graph/forward.h"
#include "tests/support/finite_differences.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Padded sequences: steps before the end of each have the result and the gradient of the sequence
 * alone, and the padding has no part in them. */
static void run_padded(int64_t steps, const int32_t *lengths, const float *samples, float *output,
                       float *gradient)
{
    enum { WIDTH = 3 * 2 * 8 };
    const struct test_session_options options = {.threads = 2};
    int64_t batch = lengths ? 2 : 1;
    float *target = gradients_allocate(batch * steps * WIDTH / 3);
    struct test_session session;
    struct error error = {0};
    struct graph graph;
    int32_t x, input = -1;

    graph_init(&graph, batch, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){steps, WIDTH}, 2);
    if (lengths)
        input = graph_append_tensor(&graph, TENSOR_INPUT, TENSOR_INT32,
                                    &(struct graph_shape){.rank = 1, .extent = {batch}}, true,
                                    "lengths");
    x = graph_attention(&graph, x, "0", 2, false, input);
    graph_mse(&graph, graph_flatten(&graph, x, "1"));
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    test_session_open(&session, &graph, &options);
    test_session_input(&session, graph.input, samples);
    if (lengths)
        test_session_input(&session, input, lengths);
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD, &gradients_scalars);
    test_session_read(&session, graph.output, output);
    /* with the result as target of the padding, only the sequence itself has a gradient */
    for (int64_t n = 0; n < batch; n++)
        for (int64_t t = 0; t < steps; t++)
            for (int64_t i = 0; i < WIDTH / 3; i++) {
                int64_t at = (n * steps + t) * WIDTH / 3 + i;

                /* a gradient of 1 at every step that counts */
                target[at] =
                    output[at] -
                    (!lengths || t < lengths[n] ? 0.5f * (float)(batch * steps * WIDTH / 3) : 0.0f);
            }
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &gradients_scalars);
    test_session_read(&session, graph.input_gradient, gradient);
    test_session_close(&session);
    graph_release(&graph);
    free(target);
}

static void test_padded_attention(void **state)
{
    enum { STEPS = 11, WIDTH = 48 };
    int32_t *lengths = aligned_alloc(64, 64);
    float *samples = gradients_allocate(2 * STEPS * WIDTH),
          *output = gradients_allocate(2 * STEPS * WIDTH);
    float *gradient = gradients_allocate(2 * STEPS * WIDTH),
          *alone = gradients_allocate(STEPS * WIDTH);
    float *own = gradients_allocate(STEPS * WIDTH), *copy = gradients_allocate(STEPS * WIDTH);

    (void)state;
    lengths[0] = 4;
    lengths[1] = 9;
    for (int i = 0; i < 2 * STEPS * WIDTH; i++)
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    run_padded(STEPS, lengths, samples, output, gradient);
    for (int n = 0; n < 2; n++) {
        memcpy(copy, samples + n * STEPS * WIDTH, (size_t)(lengths[n] * WIDTH) * sizeof *copy);
        run_padded(lengths[n], NULL, copy, alone, own);
        for (int i = 0; i < lengths[n] * WIDTH / 3; i++)
            assert_true(fabsf(alone[i] - output[n * STEPS * WIDTH / 3 + i]) < 1e-5f);
        for (int i = 0; i < STEPS * WIDTH; i++) {
            float expected = i < lengths[n] * WIDTH ? own[i] : 0;

            assert_true(fabsf(expected - gradient[n * STEPS * WIDTH + i]) < 2e-4f);
        }
    }
    free(lengths);
    free(samples);
    free(output);
    free(gradient);
    free(alone);
    free(own);
    free(copy);
}

enum recurrent_batch { BATCH_EQUAL, BATCH_LENGTHS, BATCH_CARRIED };

/* Lets the state that the batch before left be other than 0. */
static void draw_states(struct graph *graph)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_STATE)
            graph->tensors[i].initializer =
                (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = 1};
}

/* Recurrent layers of sizes that fill the kernels' vectors and tiles and do not, in both
 * directions, of sequences of one length and of several and with carried state, with the last step
 * and the mean. */
static void check_recurrent(enum recurrent_cell cell, bool reverse, enum recurrent_batch kind,
                            bool mean)
{
    enum { STEPS = 7, FEATURES = 5, MANY = 530 };
    bool ragged = kind == BATCH_LENGTHS, carried = kind == BATCH_CARRIED;
    int batch = carried && mean ? MANY : 11, count = batch * STEPS * FEATURES;
    int hidden = batch == MANY ? 5 : 21; /* for MANY: little curvature, and so a longer step */
    struct recurrent_layer layer = {
        .cell = cell, .hidden = hidden, .reverse = reverse, .carries_state = carried};
    float *samples = gradients_allocate(count), *target = gradients_allocate(batch * hidden);
    int32_t *lengths = aligned_alloc(64, 64), x, y;
    struct error error = {0};
    struct graph graph;
    char name[64];

    snprintf(name, sizeof name, "%s%s%s%s%s", recurrent_cell_to_string(cell),
             reverse ? "-reverse" : "", ragged ? "-lengths" : "", carried ? "-carried" : "",
             mean ? "-mean" : "");
    for (int i = 0; i < count; i++)
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < batch * hidden; i++)
        target[i] = (float)(i * 53 % 103) / 500.0f - 0.1f; /* near the output: a small loss */
    for (int i = 0; i < batch && ragged; i++)
        lengths[i] = 1 + i * 5 % STEPS;
    graph_init(&graph, batch, true);
    graph.streams += carried ? 3 : 0;
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){STEPS, FEATURES}, 2);
    if (ragged)
        graph_lengths(&graph);
    y = graph_recurrent(&graph, x, graph.lengths, "0", &layer);
    layer.number = 1;
    layer.reverse = false;
    y = graph_recurrent(&graph, y, graph.lengths, "0", &layer);
    graph_mse(&graph, mean ? graph_mean_over_time(&graph, y, graph.lengths, "1")
                           : graph_last_step(&graph, y, graph.lengths, "1", false));
    draw_states(&graph);
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    /* Along all ones the state's weights bend the loss so much that h^2 / 6 of the third derivative
     * shows; so small a loss has the digits for a smaller step. */
    gradients_check_lengths(name, &graph, NULL, samples, ragged ? lengths : NULL, target,
                            batch == MANY ? gradients_step_width / 2 : gradients_step_width / 4);
    graph_release(&graph);
    free(samples);
    free(target);
    free(lengths);
}

static void test_recurrent(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++)
        check_recurrent(i & 1 ? RECURRENT_GRU : RECURRENT_LSTM, i & 2,
                        (enum recurrent_batch)(i / 8), i & 4);
}

static void fill(float *samples, float *target, int count)
{
    for (int i = 0; i < count; i++) {
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
        target[i] = (float)(i * 53 % 103) / 50.0f - 1.0f;
    }
}

/* A Mamba block without its norm over two sequences in each sample: linear layers make the scan's
 * operands, so that each gets its gradient. */
static void build_mamba(struct graph *graph, int64_t batch, int64_t length, int64_t width,
                        bool reverse)
{
    enum { SEQUENCES = 2, STATES = 5 };
    const struct causal_conv conv = {
        .kernel = 4, .sequences = SEQUENCES, .reverse = reverse, .silu = true};
    struct scan_inputs scan = {.sequences = SEQUENCES, .reverse = reverse};
    struct error error = {0};
    int32_t x, parts[3];

    graph_init(graph, batch, true);
    graph->wants_input_gradient = true;
    graph->accumulate = true; /* each gradient has memory of its own until it is read */
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){SEQUENCES * length, width}, 2);
    scan.u = graph_causal_conv1d(graph, x, "1", &conv);
    graph_split(graph, graph_linear(graph, scan.u, "2", width + 2 * STATES, false),
                (int64_t[]){width, STATES, STATES}, 3, parts, "3");
    scan.delta = parts[0];
    scan.b = parts[1];
    scan.c = parts[2];
    scan.z = reverse ? -1 : graph_linear(graph, x, "4", width, false);
    graph_mse(graph, graph_flatten(graph, graph_selective_scan(graph, &scan, "5"), "6"));
    if (graph_differentiate(graph, &error) || graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

static void test_scan(void **state)
{
    enum { BATCH = 3, LENGTH = 37, WIDTH = 20, COUNT = BATCH * 2 * LENGTH * WIDTH };
    float *samples = gradients_allocate(COUNT), *target = gradients_allocate(COUNT);

    (void)state;
    fill(samples, target, COUNT);
    for (int i = 0; i < COUNT; i++) /* so that most of the loss depends on the scan */
        target[i] *= 0.1f;
    for (int reverse = 0; reverse < 2; reverse++) {
        struct graph graph;

        build_mamba(&graph, BATCH, LENGTH, WIDTH, reverse);
        gradients_check(reverse ? "scan, reversed" : "scan", &graph, NULL, samples, target);
        graph_release(&graph);
    }
    free(samples);
    free(target);
}

/* Runs the graph with so many tasks and threads; the result, and all gradients one behind another
 * from `gradients` on. Returns the number of these. */
static int64_t run_divided(const struct graph *graph, int tasks, int threads, const float *samples,
                           const float *target, float *output, float *gradients)
{
    const struct test_session_options options = {.threads = threads, .tasks = tasks};
    struct test_session session;
    int64_t count = 0;

    test_session_open(&session, graph, &options);
    test_session_initialize(&session, 1);
    test_session_input(&session, graph->input, samples);
    test_session_input(&session, graph->target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &gradients_scalars);
    test_session_read(&session, graph->output, output);
    test_session_read(&session, graph->input_gradient, gradients);
    count += graph_shape_elements(&graph->tensors[graph->input].shape);
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER) {
            int64_t elements = graph_shape_elements(&graph->tensors[i].shape);
            float *values = gradients_allocate(elements);

            test_session_read(&session, graph_gradient_of(graph, i), values);
            memcpy(gradients + count, values, (size_t)elements * sizeof *values);
            free(values);
            count += elements;
        }
    test_session_close(&session);
    return count;
}

/* Asserts that numbers are the same, but for the rounding of sums. */
static void expect_near(const float *found, const float *expected, int64_t count)
{
    double largest = 0;

    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (int64_t i = 0; i < count; i++)
        assert_true(fabs((double)found[i] - (double)expected[i]) <= 1e-5 * largest);
}

/* Tasks that share the channels of few samples give the results of one task, but for the rounding
 * of sums: without AVX-512, oneDNN sums the products of a row otherwise when it gets fewer rows.
 * The number of threads changes no bit. */
static void test_scan_of_few_samples(void **state)
{
    enum { BATCH_MAX = 5, LENGTH = 41, WIDTH = 150, COUNT = BATCH_MAX * 2 * LENGTH * WIDTH };
    enum { GRADIENTS = COUNT + 400 * WIDTH };
    float *samples = gradients_allocate(COUNT), *target = gradients_allocate(COUNT);
    float *output[3], *gradients[3];

    (void)state;
    fill(samples, target, COUNT);
    for (int i = 0; i < 3; i++) {
        output[i] = gradients_allocate(COUNT);
        gradients[i] = gradients_allocate(GRADIENTS);
    }
    for (int batch = 1; batch <= BATCH_MAX; batch += 2) {
        static const int tasks[3] = {1, 8, 8}, threads[3] = {1, 1, 3};
        int64_t count = 0, outputs = (int64_t)batch * 2 * LENGTH * WIDTH;
        struct graph graph;

        build_mamba(&graph, batch, LENGTH, WIDTH, batch == 3);
        for (int i = 0; i < 3; i++)
            count =
                run_divided(&graph, tasks[i], threads[i], samples, target, output[i], gradients[i]);
        assert_true(count <= GRADIENTS);
        assert_memory_equal(output[1], output[2], (size_t)outputs * sizeof(float));
        assert_memory_equal(gradients[1], gradients[2], (size_t)count * sizeof(float));
        expect_near(output[1], output[0], outputs);
        expect_near(gradients[1], gradients[0], count);
        graph_release(&graph);
    }
    for (int i = 0; i < 3; i++) {
        free(output[i]);
        free(gradients[i]);
    }
    free(samples);
    free(target);
}

/* Sequences become images and are joined behind convolutions; maxima and means over time. */
static void test_sequences(void **state)
{
    enum { BATCH = 3, LENGTH = 11, WIDTH = 6, COUNT = BATCH * LENGTH * WIDTH };
    const struct conv_attributes window = {
        .kernel = {1, 3}, .stride = {1, 1}, .padding = {0, 1}, .dilation = {1, 1}, .groups = 1};
    float *samples = gradients_allocate(COUNT), *target = gradients_allocate(COUNT);
    struct error error = {0};
    struct graph graph;
    int32_t x, image, part[3];

    (void)state;
    fill(samples, target, COUNT);
    graph_init(&graph, BATCH, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){LENGTH, WIDTH}, 2);
    image = graph_token_image(&graph, x, "0");
    for (int i = 0; i < 2; i++) { /* channels in blocks of 16, and in none */
        int32_t y = graph_conv2d(&graph, image, i ? "2" : "1", i ? 16 : 5, &window, true);

        y = graph_image_tokens(&graph, y, i ? "4" : "3");
        part[i] =
            i ? graph_mean_over_time(&graph, y, -1, "6") : graph_max_over_time(&graph, y, -1, "5");
    }
    part[2] = graph_max_over_time(&graph, x, -1, "7");
    graph_mse(&graph, graph_concatenate(&graph, part, 3, "8"));
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    gradients_check("max_over_time", &graph, NULL, samples, target);
    graph_release(&graph);
    free(samples);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padded_attention),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_scan_of_few_samples),
        cmocka_unit_test(test_sequences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
