/* agreement_spread.c: measures how far the loss and the gradient's norm of one batch differ between
 * correct ways of computing. The bounds of engine/train/agreement.c rest on this. It prints one
 * line for each model: float32's two algorithms for convolutions, and bfloat16 and float16 against
 * float32. Differences are relative; the larger one of the initial weights and of those after some
 * steps counts. */
#include "base/alignment.h"
#include "engine/models/models.h"
#include "engine/train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10, BATCH = 64, TRAINED_STEPS = 20 };

struct subject {
    const char *name;
    struct model_config config;
    int64_t shape[3];
    int rank;
};

static int build(void *context, struct graph *graph, struct error *error)
{
    const struct subject *subject = context;
    struct model_data data = {.type = TENSOR_FLOAT32, .rank = subject->rank, .outputs = CLASSES};

    memcpy(data.sample_shape, subject->shape, sizeof subject->shape);
    return model_build(&subject->config, &data, graph, error);
}

struct value {
    double loss, norm;
};

static void expect(int result, const struct error *error)
{
    if (result == 0)
        return;
    fprintf(stderr, "agreement_spread: %s\n", error->text);
    exit(1);
}

/* All variants use the weights after `steps` steps in float32. */
static void measure(struct subject *subject, enum tensor_type type, const char *direct, int steps,
                    void **weights, struct value *value)
{
    const struct backend *backend = backend_cpu();
    struct backend_device_config device_config = {.emulate_precision = true};
    size_t samples = BATCH * sizeof(float);
    struct session_config config = {.backend = backend,
                                    .build = build,
                                    .build_context = subject,
                                    .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
                                    .compute_type = type,
                                    .direct_convolutions = direct,
                                    .training_batches = {BATCH},
                                    .seed = 1};
    struct step_scalars scalars = {
        .batch = 1000, .step = 1000, .seed = 3, .gradient_scale = 1, .momentum_product = 1};
    struct error error = {0};
    struct session *session;
    struct session_batch batch = {.count = BATCH};
    struct session_tensor tensor;
    struct step_metrics metrics;

    for (int i = 0; i < subject->rank; i++)
        samples *= (size_t)subject->shape[i];
    config.staging_bytes = samples + BATCH * sizeof(int32_t) + 2 * MEMORY_ALIGNMENT;
    expect(backend->device_open(&device_config, &config.device, &error), &error);
    expect(session_prepare(&config, &session, &error), &error);
    expect(session_allocate(session, &error), &error);
    batch.samples = session_staging(session);
    batch.targets = (char *)session_staging(session) + align_up(samples, MEMORY_ALIGNMENT);
    for (size_t i = 0; i < samples / sizeof(float); i++)
        ((float *)batch.samples)[i] = (float)(sin((double)i * 0.7) + sin((double)(i % 977)));
    for (int i = 0; i < BATCH; i++)
        ((int32_t *)batch.targets)[i] = i * 31 % CLASSES;
    for (int i = 0; *weights == NULL && i < steps; i++) {
        struct step_scalars step = {.step = i + 1,
                                    .batch = i + 1,
                                    .seed = 3,
                                    .learning_rate = 0.01f,
                                    .gradient_scale = 1,
                                    .momentum_product = 1};

        expect(session_step(session, &batch, PROGRAM_STEP, &step, &error), &error);
    }
    /* first copies the weights out, then in */
    for (int pass = *weights == NULL; pass >= 0; pass--) {
        size_t at = 0;

        for (int i = 0; session_tensor(session, i, &tensor) == 0; i++)
            at += tensor.bytes;
        if (pass)
            *weights = malloc(at);
        at = 0;
        for (int i = 0; session_tensor(session, i, &tensor) == 0; i++) {
            void *place = (char *)*weights + at;

            expect(pass ? session_read(session, i, place, &error)
                        : session_write(session, i, place, &error),
                   &error);
            at += tensor.bytes;
        }
    }
    session_reset_metrics(session, true);
    expect(session_step(session, &batch, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, &error),
           &error);
    expect(session_gradient_norm(session, &value->norm, &error), &error);
    session_read_metrics(session, true, &metrics);
    value->loss = metrics.last_loss;
    session_free(session);
    backend->device_close(config.device);
}

int main(void)
{
    static const int64_t hidden[] = {256, 256}, channels[] = {32, 64}, head[] = {128};
    struct subject subjects[] = {
        {"mlp", {.kind = MODEL_MLP, .hidden = hidden, .hidden_count = 2}, {784}, 1},
        {"cnn",
         {.kind = MODEL_CNN,
          .channels = channels,
          .channel_count = 2,
          .kernel = 3,
          .hidden = head,
          .hidden_count = 1},
         {1, 28, 28},
         3},
        {"resnet18", {.kind = MODEL_RESNET18, .width = 1}, {3, 32, 32}, 3},
        {"mobilenet_v3_small",
         {.kind = MODEL_MOBILENET_V3_SMALL, .width = 1, .stem_stride = 2},
         {3, 32, 32},
         3},
    };
    static const struct {
        const char *name, *direct;
        enum tensor_type type;
    } variants[] = {{"float32, direct", "7777777777777777777777777777777", TENSOR_FLOAT32},
                    {"bfloat16", "", TENSOR_BFLOAT16},
                    {"float16", "", TENSOR_FLOAT16}};

    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
            double loss = 0, norm = 0;

            for (int steps = 0; steps <= TRAINED_STEPS; steps += TRAINED_STEPS) {
                struct value base, other;
                void *weights = NULL;

                measure(&subjects[i], TENSOR_FLOAT32, "", steps, &weights, &base);
                measure(&subjects[i], variants[v].type, variants[v].direct, steps, &weights,
                        &other);
                loss = fmax(loss, fabs(other.loss - base.loss) / base.loss);
                norm = fmax(norm, fabs(other.norm - base.norm) / base.norm);
                free(weights);
            }
            printf("%-20s %-16s loss %.2e  gradient norm %.2e\n", subjects[i].name,
                   variants[v].name, loss, norm);
        }
    return 0;
}
