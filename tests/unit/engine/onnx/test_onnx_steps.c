/* test_onnx_steps.c: ten training steps beside PyTorch's, for each model of
 * tests/reference/data/onnx. */
#include "engine/models/models.h"
#include "engine/onnx/onnx.h"
#include "engine/train/session.h"
#include "tests/support/dump.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char folder[] = "tests/reference/data/onnx";
static const double tolerance = 1e-5;

static void expect(int result, const struct error *error)
{
    if (result)
        fail_msg("%s", error->text);
}

struct trained {
    struct model_config config;
    struct model_data data;
};

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct trained *trained = context;

    return model_build(&trained->config, &trained->data, graph, error);
}

static void expect_loss(const char *model, int step, double loss, double expected)
{
    if (!(fabs(loss - expected) <= tolerance * fabs(expected)))
        fail_msg("%s: step %d has %.9g, PyTorch %.9g", model, step, loss, expected);
}

static void run_steps(struct session *session, const struct dump *dump, const char *name)
{
    const struct dump_tensor *losses = dump_find(dump, "expected/losses");
    struct step_metrics metrics;
    struct error error = {0};
    struct session_batch batch = {.count = dump_find(dump, "target/1")->shape.extent[0]};

    for (int step = 1; step <= losses->elements; step++) {
        struct step_scalars scalars = {.step = step,
                                       .batch = step,
                                       .learning_rate =
                                           (float)dump_attribute(dump, "learning_rate"),
                                       .gradient_scale = 1};

        batch.samples = dump_find(dump, "samples/%d", step)->values;
        batch.targets = dump_find(dump, "target/%d", step)->values;
        expect(session_step(session, &batch, PROGRAM_STEP, &scalars, &error), &error);
        session_read_metrics(session, true, &metrics);
        expect_loss(name, step, metrics.last_loss, ((const double *)losses->values)[step - 1]);
    }
    batch.samples = dump_find(dump, "samples/1")->values;
    batch.targets = dump_find(dump, "target/1")->values;
    expect(session_evaluate(session, &batch, &error), &error);
    session_read_metrics(session, false, &metrics);
    expect_loss(name, 0, metrics.last_loss,
                *(const double *)dump_find(dump, "expected/evaluation_loss")->values);
}

/* Those of tests/reference/onnx_models.py. */
static const struct loss_head heads[] = {{.classes = 4, .labels = 1, .weight = 1},
                                         {.classes = 3, .labels = 1, .weight = 0.5f}};

static void train(const char *name)
{
    struct session_config config = {.backend = backend_cpu(), .build = build, .seed = 1};
    struct trained trained = {.config = {.kind = MODEL_ONNX}};
    const struct dump_tensor *samples;
    struct session *session;
    struct error error = {0};
    struct dump dump;
    char path[512];

    snprintf(path, sizeof path, "%s/%s.dump", folder, name);
    expect(dump_read(path, &dump, &error), &error);
    snprintf(path, sizeof path, "%s.onnx", name);
    expect(onnx_open(folder, path, &trained.config.onnx, &error), &error);
    samples = dump_find(&dump, "samples/1");
    trained.data = (struct model_data){.rank = samples->shape.rank - 1,
                                       .outputs = (int64_t)dump_attribute(&dump, "classes")};
    if (dump_find(&dump, "target/1")->type != DUMP_INT32)
        trained.data.loss = LOSS_MSE;
    if (strcmp(name, "ends") == 0) {
        trained.data.loss = LOSS_HEADS;
        trained.data.heads = heads;
        trained.data.head_count = 2;
        trained.data.outputs = heads[0].classes + heads[1].classes;
    }
    if (samples->type == DUMP_INT32) {
        trained.data.type = TENSOR_INT32;
        trained.data.vocabulary = trained.data.outputs;
    }
    memcpy(trained.data.sample_shape, samples->shape.extent + 1,
           (size_t)trained.data.rank * sizeof(int64_t));
    config.build_context = &trained;
    config.optimizer = (struct optimizer_config){.kind = OPTIMIZER_SGD, .momentum = 0.9};
    config.training_batches[0] = config.evaluation_batches[0] = samples->shape.extent[0];
    expect(config.backend->device_open(&(struct backend_device_config){.threads = 2},
                                       &config.device, &error),
           &error);
    expect(session_prepare(&config, &session, &error), &error);
    expect(session_allocate(session, &error), &error);
    run_steps(session, &dump, name);
    session_free(session);
    config.backend->device_close(config.device);
    onnx_close(trained.config.onnx);
    dump_release(&dump);
}

static void steps_are_those_of_pytorch(void **state)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    int count = 0;

    (void)state;
    assert_non_null(directory);
    while ((entry = readdir(directory))) {
        char name[256];
        size_t length = strlen(entry->d_name);

        if (length < 6 || strcmp(entry->d_name + length - 5, ".onnx") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - 5), entry->d_name);
        train(name);
        count++;
    }
    closedir(directory);
    assert_true(count >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
