/* verification.c: see verification.h. */
#include "engine/train/verification.h"

#include "engine/graph/cost.h"
#include "engine/train/trial_model.h"

#include <math.h>

enum { VOCABULARY = 29, SEED = 3 };

static const int64_t mlp_hidden[] = {256, 128}, cnn_channels[] = {32, 64}, hidden[] = {64};
static const int64_t text_kernels[] = {3, 5}, dna_kernels[] = {7, 3}, dna_channels[] = {24, 32};

/* EfficientNet-B0 is missing: it enlarges what is rounded so much that a wrong result could hide
 * (tests/cuda/compare_trajectories.c). */
static const struct trial_model subjects[] = {
    {.config = {.kind = MODEL_MLP, .hidden = mlp_hidden, .hidden_count = 2},
     .batch = 128,
     .shape = {1, 28, 28},
     .rank = 3},
    {.config = {.kind = MODEL_CNN,
                .channels = cnn_channels,
                .channel_count = 2,
                .kernel = 3,
                .hidden = hidden,
                .hidden_count = 1,
                .batch_norm = true},
     .batch = 32,
     .shape = {1, 28, 28},
     .rank = 3},
    {.config = {.kind = MODEL_RESNET18, .width = 0.5},
     .batch = 16,
     .shape = {3, 32, 32},
     .rank = 3},
    {.config = {.kind = MODEL_MOBILENET_V3_SMALL, .width = 0.5, .stem_stride = 1},
     .batch = 16,
     .shape = {3, 32, 32},
     .rank = 3},
    {.config =
         {.kind = MODEL_VIT, .embedding = 96, .heads = 3, .depth = 2, .mlp_ratio = 4, .patch = 4},
     .batch = 16,
     .shape = {3, 32, 32},
     .rank = 3},
    {.config = {.kind = MODEL_GPT, .embedding = 96, .heads = 3, .depth = 2, .mlp_ratio = 4},
     .batch = 8,
     .shape = {64},
     .rank = 1,
     .vocabulary = VOCABULARY,
     .each = true},
    {.config = {.kind = MODEL_LSTM, .hidden_size = 64, .num_layers = 2, .bidirectional = true},
     .batch = 24,
     .shape = {24, 9},
     .rank = 2},
    {.config = {.kind = MODEL_GRU, .embedding = 24, .hidden_size = 64, .num_layers = 1},
     .batch = 24,
     .shape = {30},
     .rank = 1,
     .vocabulary = VOCABULARY,
     .each = true},
    {.config = {.kind = MODEL_CHAR_MLP, .embedding = 24, .hidden = hidden, .hidden_count = 1},
     .batch = 64,
     .shape = {16},
     .rank = 1,
     .vocabulary = VOCABULARY},
    {.config = {.kind = MODEL_TEXT_CNN,
                .embedding = 24,
                .filters = 16,
                .kernels = text_kernels,
                .kernel_count = 2},
     .batch = 24,
     .shape = {30},
     .rank = 1,
     .vocabulary = VOCABULARY},
    {.config = {.kind = MODEL_DNA_CNN,
                .embedding = 8,
                .channels = dna_channels,
                .channel_count = 2,
                .kernels = dna_kernels,
                .kernel_count = 2,
                .batch_norm = true},
     .batch = 24,
     .shape = {40},
     .rank = 1,
     .vocabulary = VOCABULARY},
    {.config = {.kind = MODEL_CADUCEUS,
                .embedding = 24,
                .depth = 1,
                .states = 8,
                .expand = 2,
                .kernel = 4,
                .epsilon = 1e-5f},
     .batch = 4,
     .shape = {40},
     .rank = 1,
     .vocabulary = VOCABULARY},
};

size_t verification_count(void)
{
    return sizeof subjects / sizeof *subjects;
}

const char *verification_name(size_t index)
{
    return model_kind_to_string(subjects[index].config.kind);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static int run_steps(struct session *session, const struct session_batch *batch,
                     enum tensor_type type, struct verification_run *run, struct error *error)
{
    /* small: a wrong gradient shows from the second loss on, and rounding is not multiplied */
    const float learning_rate = 0.002f;
    int r = 0;

    run->step_seconds = INFINITY;
    for (int i = 0; r == 0 && i < VERIFICATION_STEPS; i++) {
        double begun = session_seconds(session), seconds;

        r = trial_step(session, batch, i + 1, type, learning_rate, &run->losses[i], error);
        seconds = session_seconds(session) - begun;
        if (i > 0 && seconds < run->step_seconds)
            run->step_seconds = seconds;
    }
    return r;
}

int verification_run(size_t index, const struct backend *backend, struct backend_device *device,
                     enum tensor_type type, struct verification_run *run, struct error *error)
{
    const struct trial_model *subject = &subjects[index];
    struct session_config config = {.backend = backend,
                                    .device = device,
                                    .build = trial_model_build,
                                    .build_context = (void *)subject,
                                    .optimizer = {.kind = OPTIMIZER_SGD, .momentum = 0.9},
                                    .compute_type = type,
                                    .training_batches = {subject->batch},
                                    .seed = SEED};
    struct session *session = NULL;
    struct session_batch batch;
    struct graph_cost cost;
    int r = trial_batch_make(subject, 0, &batch, error);

    if (r == 0)
        r = session_prepare(&config, &session, error);
    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0) {
        session_reset_metrics(session, true);
        graph_cost_measure(session_graph(session), &cost);
        run->flops = graph_cost_total(&cost, PROGRAM_STEP).flops;
        r = run_steps(session, &batch, type, run, error);
    }
    session_free(session);
    trial_batch_release(&batch);
    return r;
}

/* ---- the comparison -------------------------------------------------------------------------- */

double verification_deviation(const struct verification_run *run,
                              const struct verification_run *reference)
{
    double largest = 0;

    for (int i = 0; i < VERIFICATION_STEPS; i++) {
        double deviation = fabs(run->losses[i] / reference->losses[i] - 1);

        if (!isfinite(deviation))
            return NAN;
        largest = fmax(largest, deviation);
    }
    return largest;
}

double verification_limit(enum tensor_type type)
{
    /* On an H200, ten steps of such models stay within 2.1e-4 of a CPU's losses in float32, 4.9e-3
     * in bfloat16 and 2.2e-3 in float16. */
    return type == TENSOR_FLOAT32 ? 1e-3 : type == TENSOR_BFLOAT16 ? 0.02 : 0.01;
}
