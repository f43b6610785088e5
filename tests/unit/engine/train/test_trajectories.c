/* test_trajectories.c: ten training steps of each model on the CPU backend, compared with PyTorch
 * (tests/reference/README.md): the loss of every step, the weights after the last one, and the loss
 * in evaluation mode, with one and with two threads. */
#include "engine/train/schedule.h"
#include "engine/train/session.h"
#include "tests/support/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXPECTED_ELEMENTS_MAX = 2000 }; /* of each tensor in the dumps (dumps_trajectories.py) */

static const double loss_tolerance = 1e-5;
/* An update of Adam, RMSprop or Lion does not shrink with its gradient, so the rounding of a tiny
 * gradient shows in a weight's last digits, though not in the loss. A bias whose effect a later
 * batch norm removes has, apart from rounding, a gradient of 0. So errors are relative to the
 * learning rate, which is how far a gradient of 1 moves a weight in one step. Errors of a running
 * mean, which may also be 0 apart from rounding, are relative to the deviation. */
static const double weight_tolerance = 1e-4;
/* One unit in the last place of bfloat16. torch also rounds the results of layers, each by up to
 * half a unit, where the engine waits for the next product. Rounded gradients move the weights. */
static const double autocast_tolerance = 0x1p-8;

static void expect(int result, const struct error *error)
{
    if (result)
        fail_msg("%s", error->text);
}

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct reference_model *model = context;

    return model_build(&model->config, &model->data, graph, error);
}

static const void *values_of(const struct dump *dump, const char *what, int step)
{
    const struct dump_tensor *tensor = dump_find(dump, "%s/%d", what, step);

    assert_non_null(tensor);
    return tensor->values;
}

static const int32_t *lengths_of(const struct dump *dump, int step)
{
    const struct dump_tensor *tensor = dump_find(dump, "lengths/%d", step);

    return tensor ? tensor->values : NULL;
}

static void write_weights(struct session *session, const struct dump *dump)
{
    struct session_tensor tensor;
    struct error error = {0};

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++)
        if (tensor.role == TENSOR_PARAMETER || tensor.role == TENSOR_STATISTIC) {
            const struct dump_tensor *initial = dump_find(dump, "%s", tensor.name);

            assert_non_null(initial);
            expect(session_write(session, i, initial->values, &error), &error);
        }
}

static double error_scale(const struct dump *dump, const char *name)
{
    static const char suffix[] = "running_mean";
    size_t stem = strlen(name) - strlen(suffix);
    const struct dump_tensor *variance;

    if (strlen(name) < strlen(suffix) || strcmp(name + stem, suffix) != 0)
        return dump_attribute(dump, "learning_rate");
    variance = dump_find(dump, "expected/%.*srunning_var", (int)stem, name);
    return sqrt((double)((const float *)variance->values)[0]);
}

static void expect_weights(struct session *session, const struct dump *dump, const char *model)
{
    struct session_tensor tensor;
    struct error error = {0};

    for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
        bool average = tensor.role == TENSOR_AVERAGE;
        const struct dump_tensor *expected =
            dump_find(dump, "expected/%s%s", average ? "average/" : "", tensor.name);
        double error_found;
        float *values;

        if (tensor.role != TENSOR_PARAMETER && tensor.role != TENSOR_STATISTIC && !average)
            continue;
        if (!expected && tensor.bytes > EXPECTED_ELEMENTS_MAX * sizeof(float))
            continue;
        assert_non_null(expected);
        values = malloc(tensor.bytes);
        expect(session_read(session, i, values, &error), &error);
        error_found = reference_error_at_scale(expected, values, error_scale(dump, tensor.name));
        if (!(error_found <= weight_tolerance))
            fail_msg("%s: %s differs by %g", model, tensor.name, error_found);
        free(values);
    }
}

static void expect_loss(const char *model, const char *what, int step, double loss, double expected,
                        double tolerance)
{
    if (!(fabs(loss - expected) <= tolerance * fabs(expected)))
        fail_msg("%s, %s: step %d has %.9g, PyTorch %.9g", model, what, step, loss, expected);
}

/* Trains the dump's steps, and compares the losses with `losses` within the tolerance. */
static void train(struct session *session, const struct reference_model *model,
                  const struct dump *dump, const char *expected, double tolerance)
{
    const double *losses = dump_find(dump, "expected/%s", expected)->values;
    int steps = (int)dump_attribute(dump, "steps");
    struct session_batch batch = {.count = dump_find(dump, "target/1")->shape.extent[0]};
    struct step_metrics metrics;
    struct error error = {0};

    for (int step = 1; step <= steps; step++) {
        struct step_scalars scalars = {.step = step,
                                       .batch = step,
                                       .learning_rate =
                                           (float)dump_attribute(dump, "learning_rate"),
                                       .gradient_scale = 1};

        scalars.average_share =
            (float)(1 -
                    schedule_average_decay(reference_setting(dump, "average_decay"), false, step));
        batch.samples = values_of(dump, "samples", step);
        batch.targets = values_of(dump, "target", step);
        batch.lengths = lengths_of(dump, step);
        expect(session_step(session, &batch, PROGRAM_STEP, &scalars, &error), &error);
        session_read_metrics(session, true, &metrics);
        expect_loss(model->name, expected, step, metrics.last_loss, losses[step - 1], tolerance);
    }
}

static void check_trajectory(struct session *session, const struct reference_model *model,
                             const struct dump *dump)
{
    const double *evaluation = dump_find(dump, "expected/evaluation_loss")->values;
    struct session_batch batch = {.count = dump_find(dump, "target/1")->shape.extent[0]};
    struct step_metrics metrics;
    struct error error = {0};

    train(session, model, dump, "losses", loss_tolerance);
    expect_weights(session, dump, model->name);
    batch.samples = values_of(dump, "samples", 1);
    batch.targets = values_of(dump, "target", 1);
    batch.lengths = lengths_of(dump, 1);
    expect(session_evaluate(session, &batch, &error), &error);
    session_read_metrics(session, false, &metrics);
    expect_loss(model->name, "evaluation_loss", 1, metrics.last_loss, *evaluation, loss_tolerance);
}

/* In float32 it compares with PyTorch's losses and weights, in bfloat16 with those of
 * torch.autocast, if the dump has them. */
static bool run_trajectory(const struct reference_model *model, int threads, enum tensor_type type)
{
    const struct backend *backend = backend_cpu();
    struct session_config config = {
        .backend = backend, .build = build, .build_context = (void *)model, .seed = 1};
    struct session *session;
    struct error error = {0};
    struct dump dump;
    char path[256];

    snprintf(path, sizeof path, "tests/reference/data/dumps/trajectories/%s.dump", model->name);
    expect(dump_read(path, &dump, &error), &error);
    if (type != TENSOR_FLOAT32 && !dump_find(&dump, "expected/autocast_losses")) {
        dump_release(&dump);
        return false;
    }
    expect(backend->device_open(
               &(struct backend_device_config){.threads = threads, .emulate_precision = true},
               &config.device, &error),
           &error);
    config.compute_type = type;
    config.optimizer = reference_optimizer(&dump);
    config.average = reference_setting(&dump, "average_decay") > 0;
    config.training_batches[0] = config.evaluation_batches[0] =
        dump_find(&dump, "target/1")->shape.extent[0];
    expect(session_prepare(&config, &session, &error), &error);
    expect(session_allocate(session, &error), &error);
    write_weights(session, &dump);
    if (type == TENSOR_FLOAT32)
        check_trajectory(session, model, &dump);
    else
        train(session, model, &dump, "autocast_losses", autocast_tolerance);
    session_free(session);
    backend->device_close(config.device);
    dump_release(&dump);
    return true;
}

static void test_trajectories(void **state)
{
    int count = 0;

    (void)state;
    for (const struct reference_model *model = reference_models(); model->name; model++, count++)
        for (int threads = 1; threads <= 2; threads++)
            run_trajectory(model, threads, TENSOR_FLOAT32);
    assert_int_equal(count, 36);
}

static void test_autocast(void **state)
{
    int count = 0;

    (void)state;
    for (const struct reference_model *model = reference_models(); model->name; model++)
        count += run_trajectory(model, 2, TENSOR_BFLOAT16);
    assert_int_equal(count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trajectories),
        cmocka_unit_test(test_autocast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
