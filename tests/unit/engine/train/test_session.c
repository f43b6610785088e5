/* test_session.c: programs of several batch sizes share one set of weights,
 * and their sums add up. */
#include "engine/graph/forward.h"
#include "engine/train/session.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FEATURES = 3, BATCH = 8, TAIL = 5, ALIGNED = 64 };

struct fixture {
    struct backend_device *device;
    struct session *session;
    _Alignas(MEMORY_ALIGNMENT) float samples[BATCH * FEATURES];
    _Alignas(MEMORY_ALIGNMENT) int32_t labels[BATCH];
    struct error error;
};

static int build(void *context, struct graph *graph, struct error *error)
{
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){FEATURES}, 1);

    (void)context;
    graph_cross_entropy(graph, graph_linear(graph, x, "0", 2, true));
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

static int setup(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    struct backend_device_config device = {.threads = 1};
    struct session_config config = {.backend = backend_cpu(),
                                    .build = build,
                                    .optimizer = {.kind = OPTIMIZER_SGD},
                                    .training_batches = {BATCH, TAIL, BATCH, 0},
                                    .evaluation_batches = {BATCH, TAIL},
                                    .staging_bytes = ALIGNED,
                                    .seed = 3};

    *f = (struct fixture){0};
    for (int i = 0; i < BATCH * FEATURES; i++)
        f->samples[i] = sinf((float)i);
    for (int i = 0; i < BATCH; i++)
        f->labels[i] = i % 2;
    assert_int_equal(backend_cpu()->device_open(&device, &f->device, &f->error), 0);
    config.device = f->device;
    if (session_prepare(&config, &f->session, &f->error) < 0 ||
        session_allocate(f->session, &f->error) < 0)
        fail_msg("%s", f->error.text);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    session_free(f->session);
    backend_cpu()->device_close(f->device);
    return 0;
}

static int step(struct fixture *f, int64_t count, float learning_rate)
{
    struct step_scalars scalars = {
        .step = 1, .batch = 1, .gradient_scale = 1, .learning_rate = learning_rate};

    return session_step(
        f->session,
        &(struct session_batch){.count = count, .samples = f->samples, .targets = f->labels},
        PROGRAM_STEP, &scalars, &f->error);
}

static double evaluated_loss(struct fixture *f, int64_t count)
{
    struct step_metrics metrics;

    session_reset_metrics(f->session, false);
    assert_int_equal(
        session_evaluate(
            f->session,
            &(struct session_batch){.count = count, .samples = f->samples, .targets = f->labels},
            &f->error),
        0);
    session_read_metrics(f->session, false, &metrics);
    assert_int_equal(metrics.samples, count);
    return metrics.loss_sum / (double)count;
}

static void test_one_set_of_weights(void **state)
{
    struct fixture *f = *state;
    double before = evaluated_loss(f, TAIL), after;

    /* a step of the last batch's program changes the weights of every other program */
    assert_int_equal(step(f, TAIL, 0.5f), 0);
    after = evaluated_loss(f, TAIL);
    assert_true(after < before);
    assert_int_equal(step(f, BATCH, 0.5f), 0);
    assert_true(evaluated_loss(f, TAIL) != after);
}

static void test_sums_over_programs(void **state)
{
    struct fixture *f = *state;
    struct step_metrics sums, again;
    struct session_losses losses;
    double whole = evaluated_loss(f, BATCH), tail = evaluated_loss(f, TAIL);

    session_reset_metrics(f->session, true);
    assert_int_equal(step(f, BATCH, 0), 0);
    assert_int_equal(step(f, TAIL, 0), 0);
    session_read_metrics(f->session, true, &sums);
    assert_int_equal(sums.samples, BATCH + TAIL);
    assert_true(fabs(sums.loss_sum - (whole * BATCH + tail * TAIL)) < 1e-5);
    assert_true(fabs(sums.last_loss - tail) < 1e-6);
    session_read_losses(f->session, &losses);
    assert_int_equal(losses.count, 0);
    session_restore_metrics(f->session, &sums, &losses);
    session_read_metrics(f->session, true, &again);
    assert_true(again.loss_sum == sums.loss_sum);
    assert_int_equal(again.samples, sums.samples);
    assert_int_equal(again.correct, sums.correct);
}

static void test_tensors(void **state)
{
    struct fixture *f = *state;
    struct session_tensor tensor;
    float values[FEATURES * 2];

    assert_int_equal(session_tensor(f->session, 0, &tensor), 0);
    assert_string_equal(tensor.name, "0.weight");
    assert_int_equal(tensor.bytes, sizeof values);
    assert_int_equal(session_tensor(f->session, 1, &tensor), 0);
    assert_string_equal(tensor.name, "0.bias");
    assert_int_equal(session_tensor(f->session, 2, &tensor), -ENOENT);
    assert_int_equal(session_tensor(f->session, -1, &tensor), -ENOENT);
    assert_int_equal(session_parameter_count(f->session), FEATURES * 2 + 2);
    assert_true(session_scratch_bytes(f->session) == sizeof values);
    assert_int_equal(session_read(f->session, 0, values, &f->error), 0);
    for (int i = 0; i < FEATURES * 2; i++) /* nn.Linear: uniform within 1 / sqrt(features) */
        assert_true(fabsf(values[i]) <= 1 / sqrtf(FEATURES) && values[i] != 0);
    assert_int_equal((uintptr_t)session_staging(f->session) % MEMORY_ALIGNMENT, 0);
}

static void test_unknown_batch(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(step(f, 7, 0), -EINVAL);
    assert_non_null(strstr(f->error.text, "not made for training batches of 7 samples"));
}

/* Only programs that run often spend time on their weights beforehand. */
static void weights_are_constant_for_batches_that_run_often(void **state)
{
    struct fixture *f = *state;
    struct session_config config = {.backend = backend_cpu(),
                                    .device = f->device,
                                    .build = build,
                                    .evaluation_batches = {TAIL, BATCH},
                                    .constant_weights_from = BATCH};
    struct session *session;

    assert_int_equal(session_prepare(&config, &session, &f->error), 0);
    assert_true(session_graph_for(session, false, BATCH, 0)->constant_weights);
    assert_false(session_graph_for(session, false, TAIL, 0)->constant_weights);
    session_free(session);
    config.constant_weights_from = 0;
    assert_int_equal(session_prepare(&config, &session, &f->error), 0);
    assert_false(session_graph_for(session, false, BATCH, 0)->constant_weights);
    session_free(session);
}

/* Evaluation gives the same each time, whatever training is allowed to do. */
static void only_training_may_be_nondeterministic(void **state)
{
    struct fixture *f = *state;
    struct session_config config = {.backend = backend_cpu(),
                                    .device = f->device,
                                    .build = build,
                                    .optimizer = {.kind = OPTIMIZER_SGD},
                                    .nondeterministic = true,
                                    .training_batches = {BATCH}};
    struct session *training, *evaluation;

    assert_false(session_graph(f->session)->nondeterministic);
    assert_int_equal(session_prepare(&config, &training, &f->error), 0);
    assert_true(session_graph(training)->nondeterministic);
    config.training_batches[0] = 0;
    config.evaluation_batches[0] = BATCH;
    assert_int_equal(session_prepare(&config, &evaluation, &f->error), 0);
    assert_false(session_graph(evaluation)->nondeterministic);
    session_free(training);
    session_free(evaluation);
}

/* ---- carried state ---- */

enum { STREAMS = 6, FEWER = 4, STEPS = 5, SYMBOLS = 7, UNITS = 9, STREAM_STEPS = 2 * STEPS };

static int build_carrying(void *context, struct graph *graph, struct error *error)
{
    const int64_t *steps = context;
    int32_t x = graph_input(graph, TENSOR_INT32, steps, 1), y;

    x = y = graph_embedding(graph, x, "embedding", SYMBOLS, 3);
    for (int i = 0; i < 2; i++) {
        const struct recurrent_layer layer = {.cell = i ? RECURRENT_GRU : RECURRENT_LSTM,
                                              .hidden = UNITS,
                                              .number = i,
                                              .carries_state = true};

        x = y = graph_recurrent(graph, x, -1, "layer", &layer);
    }
    graph_cross_entropy(graph, graph_linear(graph, y, "head", SYMBOLS, true));
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* Streams of symbols, each of `STREAM_STEPS`, as the batch of a window of `steps` that begins at
 * step `first`. */
static struct session_batch window(int64_t count, int64_t first, int64_t steps)
{
    static _Alignas(MEMORY_ALIGNMENT) int32_t symbols[2][MEMORY_ALIGNMENT]; /* both aligned */
    static int turn; /* a batch stays while the next one is made */
    int32_t *to = symbols[turn ^= 1];

    for (int64_t b = 0; b < count; b++)
        for (int64_t t = 0; t < steps; t++)
            to[b * steps + t] = (int32_t)((b * b + 3 * b + (first + t) * (first + t)) % SYMBOLS);
    return (struct session_batch){.count = count, .samples = to, .targets = to};
}

static struct session *open_carrying(struct fixture *f, int64_t *steps)
{
    struct session_config config = {.backend = backend_cpu(),
                                    .device = f->device,
                                    .build = build_carrying,
                                    .build_context = steps,
                                    .optimizer = {.kind = OPTIMIZER_SGD},
                                    .training_batches = {STREAMS, FEWER},
                                    .evaluation_batches = {STREAMS, FEWER},
                                    .seed = 3};
    struct session *session;

    if (session_prepare(&config, &session, &f->error) < 0 ||
        session_allocate(session, &f->error) < 0)
        fail_msg("%s", f->error.text);
    return session;
}

static void evaluate_window(struct fixture *f, struct session *session, int64_t count,
                            int64_t first, int64_t steps, float *output)
{
    const struct session_batch batch = window(count, first, steps);

    assert_int_equal(session_evaluate(session, &batch, &f->error), 0);
    assert_int_equal(session_read_output(session, output, &f->error), 0);
}

/* Two windows of a text give the numbers of one that is as long as both, of fewer streams, too. How
 * a sum is rounded may depend on the number of rows that oneDNN multiplies in one call. */
static void test_state_goes_on(void **state)
{
    struct fixture *f = *state;
    int64_t steps = STEPS, all = STREAM_STEPS;
    struct session *parts = open_carrying(f, &steps), *whole = open_carrying(f, &all);
    static float expected[STREAMS * STREAM_STEPS * SYMBOLS], found[STREAMS * STEPS * SYMBOLS];

    evaluate_window(f, whole, STREAMS, 0, all, expected);
    for (int again = 0; again < 2; again++) {
        for (int part = 0; part < 2; part++) {
            int64_t count = part ? FEWER : STREAMS;

            evaluate_window(f, parts, count, part * STEPS, STEPS, found);
            for (int64_t b = 0; b < count; b++)
                for (int64_t i = 0; i < STEPS * SYMBOLS; i++)
                    assert_float_equal(found[b * STEPS * SYMBOLS + i],
                                       expected[(b * STREAM_STEPS + part * STEPS) * SYMBOLS + i],
                                       1e-6f);
        }
        assert_int_equal(session_clear_states(parts, false, &f->error), 0);
    }
    session_free(parts);
    session_free(whole);
}

enum { STATES = 3, STATE_NUMBERS = STREAMS * UNITS }; /* h and c of the LSTM, h of the GRU */

static void read_states(struct fixture *f, struct session *session,
                        float values[STATES * STATE_NUMBERS])
{
    struct session_tensor tensor;
    int count = 0;

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        if (tensor.role != TENSOR_STATE)
            continue;
        assert_true(count < STATES && tensor.bytes == STATE_NUMBERS * sizeof(float));
        assert_int_equal(session_read(session, i, values + count++ * STATE_NUMBERS, &f->error), 0);
    }
    assert_int_equal(count, STATES);
}

/* Evaluation has a state of its own; micro-steps carry the state as updates do; it is cleared. */
static void test_state_of_training(void **state)
{
    struct fixture *f = *state;
    int64_t steps = STEPS;
    struct session *session = open_carrying(f, &steps);
    static float before[STATES * STATE_NUMBERS], after[STATES * STATE_NUMBERS], output[1024];
    const struct step_scalars scalars = {.step = 1, .batch = 1, .gradient_scale = 1};
    const struct session_batch batch = window(STREAMS, 0, STEPS);

    assert_int_equal(
        session_step(session, &batch, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, &f->error), 0);
    read_states(f, session, before);
    for (int i = 0; i < STATES * STATE_NUMBERS; i++)
        assert_true(before[i] != 0);
    evaluate_window(f, session, STREAMS, 0, STEPS, output);
    assert_int_equal(session_clear_states(session, false, &f->error), 0);
    read_states(f, session, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(session_clear_states(session, true, &f->error), 0);
    read_states(f, session, after);
    for (int i = 0; i < STATES * STATE_NUMBERS; i++)
        assert_true(after[i] == 0);
    session_free(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_set_of_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_over_programs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_state_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_state_of_training, setup, teardown),
        cmocka_unit_test_setup_teardown(weights_are_constant_for_batches_that_run_often, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(only_training_may_be_nondeterministic, setup, teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
