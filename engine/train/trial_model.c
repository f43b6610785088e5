/* trial_model.c: see trial_model.h. */
#include "engine/train/trial_model.h"

#include "base/philox.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_SEED = 9, STEP_SEED = 5, UNCOUNTED_EVERY = 7 };

int trial_model_build(void *model, struct graph *graph, struct error *error)
{
    const struct trial_model *trial = model;
    bool text = trial->vocabulary > 0;
    struct model_data data = {.type = text ? TENSOR_INT32 : TENSOR_FLOAT32,
                              .rank = trial->rank,
                              .vocabulary = trial->vocabulary,
                              .padded = trial->padded,
                              .outputs = text ? trial->vocabulary : TRIAL_CLASSES};

    if (trial->heads) {
        data.loss = LOSS_HEADS;
        data.heads = trial->heads;
        data.head_count = trial->head_count;
    }
    memcpy(data.sample_shape, trial->shape, sizeof trial->shape);
    return model_build(&trial->config, &data, graph, error);
}

/* ---- batches --------------------------------------------------------------------------------- */

static float draw(uint64_t index)
{
    return philox_uniform(philox_draw(BATCH_SEED, philox_stream(PHILOX_TEST, 2), index).word[0]);
}

static int64_t count_numbers(const struct trial_model *model)
{
    int64_t count = 1;

    for (int i = 0; i < model->rank; i++)
        count *= model->shape[i];
    return count;
}

static int64_t count_labels(const struct trial_model *model)
{
    int64_t count = 0;

    for (int i = 0; i < model->head_count; i++)
        count += model->heads[i].labels;
    return model->each ? model->shape[0] : model->heads ? count : 1;
}

/* How many values a label has; `i` is its place among those of the sample. */
static int64_t count_classes(const struct trial_model *model, int64_t i)
{
    for (int head = 0; head < model->head_count; i -= model->heads[head++].labels)
        if (i < model->heads[head].labels)
            return model->heads[head].classes;
    return model->vocabulary ? model->vocabulary : TRIAL_CLASSES;
}

static void fill_targets(const struct trial_model *model, uint64_t base, int32_t *targets)
{
    int64_t labels = count_labels(model);

    for (int64_t i = 0; i < model->batch * labels; i++) {
        float drawn = draw(base + (1u << 31) + (uint64_t)i);

        targets[i] = (int32_t)(drawn * ((float)count_classes(model, i % labels) - 0.01f));
        if (model->each && i % UNCOUNTED_EVERY == 0)
            targets[i] = -1;
    }
}

/* Where the padding of a text begins. */
static int64_t find_end(const struct trial_model *model, int64_t row)
{
    return model->padded ? 1 + row * 7 % model->shape[0] : model->shape[0];
}

static int32_t make_symbol(const struct trial_model *model, bool padding, float value)
{
    return (int32_t)(padding ? model->vocabulary - 1
                             : (int64_t)(value * ((float)model->vocabulary - 1.01f)));
}

static void fill_samples(const struct trial_model *model, uint64_t base, const int32_t *targets,
                         void *samples)
{
    int64_t size = count_numbers(model), labels = count_labels(model);
    int32_t *symbols = samples;
    float *numbers = samples;

    for (int64_t row = 0; row < model->batch; row++)
        for (int64_t i = 0; i < size; i++) {
            int64_t place = row * size + i;
            float value = draw(base + (uint64_t)place);
            bool shifted = (i + targets[row * labels]) % TRIAL_CLASSES == 0;

            if (model->vocabulary)
                symbols[place] = make_symbol(model, i >= find_end(model, row), value);
            else
                numbers[place] = 3 * value - 1.5f + (shifted ? 0.5f : 0);
        }
}

static void *allocate(int64_t numbers)
{
    size_t bytes = (size_t)numbers * sizeof(float);

    return aligned_alloc(MEMORY_ALIGNMENT, (bytes / MEMORY_ALIGNMENT + 1) * MEMORY_ALIGNMENT);
}

int trial_batch_make(const struct trial_model *model, int number, struct session_batch *batch,
                     struct error *error)
{
    uint64_t base = (uint64_t)number << 32;
    void *samples = allocate(model->batch * count_numbers(model));
    int32_t *targets = allocate(model->batch * count_labels(model));

    *batch = (struct session_batch){.count = model->batch, .samples = samples, .targets = targets};
    if (!samples || !targets)
        return error_no_memory(error, "a batch");
    fill_targets(model, base, targets);
    fill_samples(model, base, targets, samples);
    return 0;
}

void trial_batch_release(struct session_batch *batch)
{
    free((void *)batch->samples);
    free((void *)batch->targets);
    *batch = (struct session_batch){.count = 0};
}

/* ---- steps ----------------------------------------------------------------------------------- */

int trial_step(struct session *session, const struct session_batch *batch, int64_t step,
               enum tensor_type type, float learning_rate, double *loss, struct error *error)
{
    const float loss_scale = 1024;
    struct step_scalars scalars = {.step = step,
                                   .batch = step,
                                   .seed = STEP_SEED,
                                   .learning_rate = learning_rate,
                                   .gradient_scale = 1,
                                   .momentum_product = 1,
                                   .loss_scale = type == TENSOR_FLOAT16 ? loss_scale : 0};
    struct step_metrics metrics;
    int r = session_step(session, batch, PROGRAM_STEP, &scalars, error);

    session_read_metrics(session, true, &metrics);
    *loss = metrics.last_loss;
    return r;
}
