/* test_padding.c: padding behind a sequence changes nothing that a model makes of it, whatever its
 * length is: the models that read sequences of different lengths, on the CPU backend. */
#include "engine/models/models.h"
#include "engine/train/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEQUENCES = 11, STEPS = 23, LONGER = 40, VOCABULARY = 7, OUTPUTS = 3 };
enum { PADDING = VOCABULARY - 1, SHORT = 9, PARAMETERS_MAX = 4096 };

struct padded_model {
    const struct model_config *config;
    struct model_data data;
};

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct padded_model *model = context;

    return model_build(model->config, &model->data, graph, error);
}

/* Sequences of 4 to STEPS symbols, filled up to `steps`. */
static void evaluate(const struct model_config *config, int64_t steps,
                     float output[SEQUENCES * OUTPUTS])
{
    static _Alignas(MEMORY_ALIGNMENT) int32_t symbols[SEQUENCES * LONGER];
    static _Alignas(MEMORY_ALIGNMENT) const int32_t labels[SEQUENCES];
    struct padded_model model = {.config = config,
                                 .data = {.type = TENSOR_INT32,
                                          .sample_shape = {steps},
                                          .rank = 1,
                                          .vocabulary = VOCABULARY,
                                          .padded = true,
                                          .outputs = OUTPUTS}};
    struct session_config session_config = {.backend = backend_cpu(),
                                            .build = build,
                                            .build_context = &model,
                                            .evaluation_batches = {SEQUENCES},
                                            .seed = 3};
    const struct backend_device_config device = {.threads = 2};
    const struct session_batch batch = {.count = SEQUENCES, .samples = symbols, .targets = labels};
    struct session *session;
    struct error error = {0};

    for (int64_t b = 0; b < SEQUENCES; b++)
        for (int64_t t = 0; t < steps; t++)
            symbols[b * steps + t] =
                t < 4 + b * 2 && t < STEPS ? (int32_t)((b * b + t * t + 3 * t) % PADDING) : PADDING;
    assert_int_equal(backend_cpu()->device_open(&device, &session_config.device, &error), 0);
    if (session_prepare(&session_config, &session, &error) < 0 ||
        session_allocate(session, &error) < 0 || session_evaluate(session, &batch, &error) < 0 ||
        session_read_output(session, output, &error) < 0)
        fail_msg("%s", error.text);
    session_free(session);
    backend_cpu()->device_close(session_config.device);
}

static void test_padding_changes_nothing(void **state)
{
    static const int64_t kernels[] = {3, 4}, channels[] = {9, 5, 6};
    static const struct model_config configs[] = {
        {.kind = MODEL_TEXT_CNN,
         .embedding = 5,
         .filters = 8,
         .kernels = kernels,
         .kernel_count = 2},
        {.kind = MODEL_DNA_CNN,
         .embedding = 5,
         .channels = channels,
         .channel_count = 3,
         .kernels = kernels,
         .kernel_count = 2,
         .pooling = POOLING_MAX,
         .batch_norm = true},
        {.kind = MODEL_DNA_CNN,
         .embedding = 5,
         .channels = channels,
         .channel_count = 2,
         .kernels = kernels,
         .kernel_count = 2},
        {.kind = MODEL_LSTM,
         .embedding = 5,
         .hidden_size = 9,
         .num_layers = 2,
         .bidirectional = true},
        {.kind = MODEL_GRU,
         .embedding = 5,
         .hidden_size = 9,
         .num_layers = 2,
         .bidirectional = true,
         .readout = READOUT_MEAN},
    };
    float expected[SEQUENCES * OUTPUTS], found[SEQUENCES * OUTPUTS];

    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        evaluate(&configs[i], STEPS + 1, expected);
        for (int64_t steps = STEPS + 2; steps <= LONGER; steps += 5) {
            evaluate(&configs[i], steps, found);
            for (int k = 0; k < SEQUENCES * OUTPUTS; k++)
                if (!(fabsf(found[k] - expected[k]) <= 1e-6f))
                    fail_msg("%s: sequence %d gives %g, and with %d steps %g",
                             model_kind_to_string(configs[i].kind), k / OUTPUTS,
                             (double)expected[k], (int)steps, (double)found[k]);
        }
    }
}

/* ---- sessions with several lengths ---- */

/* Sums of the loss go on for each program after an interruption. */
static void check_sums(struct session *session)
{
    struct session_losses before, after;
    struct step_metrics sums;

    session_read_metrics(session, true, &sums);
    session_read_losses(session, &before);
    assert_int_equal(before.count, 2);
    assert_true((before.sums[0] > 0) != (before.sums[1] > 0)); /* one of them was run */
    session_restore_metrics(session, &sums, &before);
    session_read_losses(session, &after);
    assert_memory_equal(&before, &after, sizeof before);
    session_read_metrics(session, true, &sums);
    assert_true(sums.loss_sum == before.sums[0] + before.sums[1]);
    assert_int_equal(sums.samples, 3 * SEQUENCES);
}

/* Trains three updates with the first SHORT steps of sequences, which have no more, in batches of
 * `steps` steps (0: all of STEPS). Returns the number of parameters in `values`. */
static int train(const struct model_config *config, int64_t steps, float *values)
{
    static _Alignas(MEMORY_ALIGNMENT) int32_t symbols[SEQUENCES * STEPS], labels[SEQUENCES];
    struct padded_model model = {.config = config,
                                 .data = {.type = TENSOR_INT32,
                                          .sample_shape = {STEPS},
                                          .rank = 1,
                                          .vocabulary = VOCABULARY,
                                          .padded = true,
                                          .outputs = OUTPUTS}};
    struct session_config session_config = {.backend = backend_cpu(),
                                            .build = build,
                                            .build_context = &model,
                                            .optimizer = {.kind = OPTIMIZER_SGD},
                                            .training_batches = {SEQUENCES},
                                            .lengths = {SHORT},
                                            .length_count = 1,
                                            .seed = 3};
    const struct backend_device_config device = {.threads = 2};
    const struct session_batch batch = {
        .count = SEQUENCES, .steps = steps, .samples = symbols, .targets = labels};
    int64_t row = steps ? steps : STEPS;
    struct session_tensor tensor;
    struct session *session;
    struct error error = {0};
    int count = 0;

    for (int64_t b = 0; b < SEQUENCES; b++) {
        labels[b] = (int32_t)(b % OUTPUTS);
        for (int64_t t = 0; t < row; t++)
            symbols[b * row + t] =
                t < 4 + b % (SHORT - 3) ? (int32_t)((b * b + t * t + 3 * t) % PADDING) : PADDING;
    }
    assert_int_equal(backend_cpu()->device_open(&device, &session_config.device, &error), 0);
    if (session_prepare(&session_config, &session, &error) < 0 ||
        session_allocate(session, &error) < 0)
        fail_msg("%s", error.text);
    for (int step = 1; step <= 3; step++) {
        const struct step_scalars scalars = {
            .step = step, .batch = step, .learning_rate = 0.5f, .gradient_scale = 1};

        if (session_step(session, &batch, PROGRAM_STEP, &scalars, &error) < 0)
            fail_msg("%s", error.text);
    }
    check_sums(session);
    for (int i = 0; session_tensor(session, i, &tensor) == 0 && tensor.role == TENSOR_PARAMETER;
         i++) {
        assert_true(count + (int)(tensor.bytes / sizeof *values) <= PARAMETERS_MAX);
        assert_int_equal(session_read(session, i, values + count, &error), 0);
        count += (int)(tensor.bytes / sizeof *values);
    }
    session_free(session);
    backend_cpu()->device_close(session_config.device);
    return count;
}

static void test_shorter_batches_train_alike(void **state)
{
    static const int64_t kernels[] = {3, 4};
    static const struct model_config configs[] = {
        {.kind = MODEL_LSTM, .embedding = 5, .hidden_size = 9, .num_layers = 2},
        {.kind = MODEL_GRU,
         .embedding = 5,
         .hidden_size = 9,
         .num_layers = 1,
         .bidirectional = true,
         .readout = READOUT_MEAN},
        {.kind = MODEL_TEXT_CNN,
         .embedding = 5,
         .filters = 8,
         .kernels = kernels,
         .kernel_count = 2},
    };
    static float whole[PARAMETERS_MAX], shorter[PARAMETERS_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        int count = train(&configs[i], 0, whole);

        assert_int_equal(train(&configs[i], SHORT, shorter), count);
        for (int k = 0; k < count; k++)
            if (!(fabsf(shorter[k] - whole[k]) <= 1e-5f))
                fail_msg("%s: parameter %d is %g, and in shorter batches %g",
                         model_kind_to_string(configs[i].kind), k, (double)whole[k],
                         (double)shorter[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_padding_changes_nothing),
                                       cmocka_unit_test(test_shorter_batches_train_alike)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
