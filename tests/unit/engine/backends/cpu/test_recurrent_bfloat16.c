/* test_recurrent_bfloat16.c: recurrent layers in bfloat16. On processors with AMX their products of
 * state, input and weights' gradients have kernels of their own. Results are near to those of
 * float32, and the output has the same bits for any division among threads. Elsewhere float32's
 * kernels are compared. */
#include "engine/graph/forward.h"
#include "tests/support/finite_differences.h"
#include "tests/support/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Units that fill neither vectors nor pairs, and rows that do not fill tiles of 16. */
enum { STEPS = 5, FEATURES = 6, UNITS = 67, BATCH = 19, SAMPLES = BATCH * STEPS * FEATURES };
/* Numbers of all parameters, at most. */
enum { GRADIENTS_MAX = 200000 };

enum batch_kind { BATCH_EQUAL, BATCH_LENGTHS, BATCH_CARRIED, BATCH_KINDS };

struct layers {
    enum recurrent_cell cell;
    bool reverse;
    enum batch_kind kind;
    bool evaluates; /* without gradients: gates are not kept */
};

struct results {
    float *output, *gradients;
    int64_t outputs, gradient_count;
};

static int32_t append_layers(struct graph *graph, const struct layers *layers)
{
    struct recurrent_layer layer = {.cell = layers->cell,
                                    .hidden = UNITS,
                                    .reverse = layers->reverse,
                                    .carries_state = layers->kind == BATCH_CARRIED};
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){STEPS, FEATURES}, 2), y;

    if (layers->kind == BATCH_LENGTHS)
        graph_lengths(graph);
    y = graph_recurrent(graph, x, graph->lengths, "0", &layer);
    layer.number = 1;
    layer.reverse = false;
    y = graph_recurrent(graph, y, graph->lengths, "0", &layer);
    return graph_mean_over_time(graph, y, graph->lengths, "1");
}

static void build(struct graph *graph, const struct layers *layers, enum tensor_type type)
{
    struct error error = {0};

    graph_init(graph, BATCH, !layers->evaluates);
    graph->streams += layers->kind == BATCH_CARRIED ? 3 : 0;
    graph->wants_input_gradient = !layers->evaluates;
    graph_mse(graph, append_layers(graph, layers));
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_STATE)
            graph->tensors[i].initializer =
                (struct initializer){.kind = INITIALIZER_UNIFORM, .bound = 1};
    if ((!layers->evaluates && graph_differentiate(graph, &error)) ||
        graph_lower_precision(graph, type, &error) || graph_finish(graph, &error))
        fail_msg("%s", error.text);
}

static void read_gradients(struct test_session *session, const struct graph *graph,
                           struct results *results)
{
    results->gradients = gradients_allocate(GRADIENTS_MAX);
    results->gradient_count = 0;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        int64_t elements = graph_shape_elements(&graph->tensors[i].shape);

        if (graph->tensors[i].role != TENSOR_PARAMETER)
            continue;
        assert_true(results->gradient_count + elements <= GRADIENTS_MAX);
        test_session_read(session, graph_gradient_of(graph, i),
                          results->gradients + results->gradient_count);
        results->gradient_count += elements;
    }
}

/* Runs a step with so many threads; the caller frees the results. */
static struct results run(const struct layers *layers, enum tensor_type type, int threads)
{
    const struct test_session_options options = {
        .threads = threads, .tasks = threads, .emulate_precision = true};
    float *samples = gradients_allocate(SAMPLES), *target = gradients_allocate(BATCH * UNITS);
    int32_t *lengths = aligned_alloc(64, 128);
    struct results results;
    struct test_session session;
    struct graph graph;

    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < BATCH * UNITS; i++)
        target[i] = (float)(i * 53 % 103) / 100.0f - 0.5f;
    for (int i = 0; i < BATCH; i++)
        lengths[i] = 1 + i * 3 % STEPS;
    build(&graph, layers, type);
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 1);
    test_session_input(&session, graph.input, samples);
    test_session_input(&session, graph.target, target);
    if (layers->kind == BATCH_LENGTHS)
        test_session_input(&session, graph.lengths, lengths);
    test_session_run(&session,
                     layers->evaluates ? PROGRAM_FORWARD : PROGRAM_FORWARD | PROGRAM_BACKWARD,
                     &gradients_scalars);
    results.outputs = graph_shape_elements(&graph.tensors[graph.output].shape);
    results.output = gradients_allocate(results.outputs);
    test_session_read(&session, graph.output, results.output);
    results.gradients = NULL;
    if (!layers->evaluates)
        read_gradients(&session, &graph, &results);
    test_session_close(&session);
    graph_release(&graph);
    free(samples);
    free(target);
    free(lengths);
    return results;
}

static void results_free(struct results *results)
{
    free(results->output);
    free(results->gradients);
}

/* bfloat16 has 8 bits: factors are off by at most 2^-9 of their size, and sums by less. */
static void expect_near(const float *found, const float *expected, int64_t count)
{
    double largest = 0;

    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    assert_true(largest > 0);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= 0.02 * largest))
            fail_msg("number %lld is %g, not %g; the largest is %g", (long long)i, (double)found[i],
                     (double)expected[i], largest);
}

static void check(const struct layers *layers)
{
    struct results expected = run(layers, TENSOR_FLOAT32, 1);
    struct results alone = run(layers, TENSOR_BFLOAT16, 1);
    struct results shared = run(layers, TENSOR_BFLOAT16, 3);
    struct layers without_gates = {layers->cell, layers->reverse, layers->kind, .evaluates = true};
    struct results evaluated = run(&without_gates, TENSOR_BFLOAT16, 1);

    assert_int_equal(alone.outputs, expected.outputs);
    assert_int_equal(alone.gradient_count, expected.gradient_count);
    expect_near(alone.output, expected.output, expected.outputs);
    expect_near(alone.gradients, expected.gradients, expected.gradient_count);
    assert_memory_equal(shared.output, alone.output, (size_t)alone.outputs * sizeof(float));
    expect_near(evaluated.output, expected.output, expected.outputs);
    results_free(&evaluated);
    results_free(&expected);
    results_free(&alone);
    results_free(&shared);
}

static void lstm_is_near_to_float32(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * BATCH_KINDS; i++)
        check(&(struct layers){RECURRENT_LSTM, i & 1, (enum batch_kind)(i / 2), false});
}

static void gru_is_near_to_float32(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * BATCH_KINDS; i++)
        check(&(struct layers){RECURRENT_GRU, i & 1, (enum batch_kind)(i / 2), false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstm_is_near_to_float32),
        cmocka_unit_test(gru_is_near_to_float32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
