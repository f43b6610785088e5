/* worker_sample.c: `traind-worker sample` writes text. It draws each symbol from the model's
 * distribution given the previous symbols. It needs no data, because the checkpoint has the
 * vocabulary. */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/philox.h"
#include "worker/trainee/worker_precision.h"
#include "worker/trainee/worker_setup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Draws from softmax(logits / temperature); temperature 0 takes the largest. `uniform` in [0, 1).
 * `weights` is scratch of `count` values. */
static int32_t draw_symbol(const float *logits, int64_t count, double temperature, double uniform,
                           double *weights)
{
    int64_t largest = 0;
    double sum = 0, reached = 0;

    for (int64_t i = 1; i < count; i++)
        largest = logits[i] > logits[largest] ? i : largest;
    if (temperature <= 0)
        return (int32_t)largest;
    for (int64_t i = 0; i < count; i++) {
        weights[i] = exp(((double)logits[i] - (double)logits[largest]) / temperature);
        sum += weights[i];
    }
    for (int64_t i = 0; i < count; i++) {
        reached += weights[i];
        if (uniform * sum < reached)
            return (int32_t)i;
    }
    return (int32_t)largest;
}

/* Fills the context before the first symbol with line ends, if the vocabulary has them. */
static void fill_context(const struct dataset_vocabulary *vocabulary, int32_t *context,
                         int64_t length)
{
    int32_t symbol = 0;
    size_t count;

    if (dataset_vocabulary_encode(vocabulary, "\n", &symbol, 1, &count, NULL) < 0)
        symbol = 0;
    for (int64_t i = 0; i < length; i++)
        context[i] = symbol;
}

static int write_text(const struct worker_options *options, const struct worker_setup *setup,
                      struct session *session, struct error *error)
{
    const struct dataset_vocabulary *vocabulary = &setup->vocabulary;
    int64_t length = setup->model_data.sample_shape[0];
    int32_t *context = session_staging(session);
    AUTO_FREE float *logits = calloc((size_t)vocabulary->count, sizeof *logits);
    AUTO_FREE double *weights = calloc((size_t)vocabulary->count, sizeof *weights);
    uint64_t seed = options->seed_given ? options->seed : setup->spec.training.seed;
    size_t row = align_up((size_t)length * sizeof *context, MEMORY_ALIGNMENT);
    struct session_batch batch = {1, context, (uint8_t *)context + row};

    if (!logits || !weights)
        return error_set_errno(error, -ENOMEM, "cannot sample");
    fill_context(vocabulary, context, length);
    for (int i = 0; i < options->length; i++) {
        struct philox draw = philox_draw(seed, philox_stream(PHILOX_SAMPLING, 0), (uint64_t)i);
        char bytes[4];
        int32_t symbol;
        int r = session_evaluate(session, &batch, error);

        if (r == 0)
            r = session_read_output(session, logits, error);
        if (r < 0)
            return r;
        symbol = draw_symbol(logits, vocabulary->count, options->temperature,
                             (double)philox_uniform(draw.word[0]), weights);
        fwrite(bytes, 1, (size_t)dataset_vocabulary_decode(vocabulary, symbol, bytes), stdout);
        memmove(context, context + 1, (size_t)(length - 1) * sizeof *context);
        context[length - 1] = symbol;
    }
    printf("\n");
    return 0;
}

static int sample(const struct worker_options *options, struct worker_setup *setup,
                  struct error *error)
{
    struct checkpoint checkpoint;
    struct session *session = NULL;
    int r = checkpoint_open(options->checkpoint, &checkpoint, error);

    if (r < 0)
        return r;
    r = worker_setup_open_text(options, checkpoint.texts.vocabulary, setup, error);
    if (r == 0) {
        worker_precision_adopt(&checkpoint.state, true, setup);
        size_t context = (size_t)setup->model_data.sample_shape[0] * sizeof(int32_t);
        struct session_config config = {.backend = setup->backend,
                                        .device = setup->device,
                                        .build = worker_setup_build,
                                        .build_context = setup,
                                        .compute_type = setup->precision.type,
                                        .evaluation_batches = {1},
                                        .staging_bytes =
                                            align_up(context, MEMORY_ALIGNMENT) + MEMORY_ALIGNMENT};

        r = session_prepare(&config, &session, error);
    }
    if (r == 0)
        r = session_allocate(session, error);
    if (r == 0)
        r = checkpoint_restore(&checkpoint, session, false, NULL, error);
    if (r == 0)
        r = write_text(options, setup, session, error);
    session_free(session);
    checkpoint_close(&checkpoint);
    return r;
}

int worker_sample(const struct worker_options *options)
{
    struct worker_setup setup = {.stage = WORKER_STAGE_CHECKPOINT};
    struct error error = {0};
    int r = sample(options, &setup, &error);

    worker_setup_release(&setup);
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
