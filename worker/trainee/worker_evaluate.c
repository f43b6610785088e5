/* worker_evaluate.c: `traind-worker eval` computes loss and accuracy of a checkpoint on the test
 * set, or on the validation part if there is no test set. With --logits it also writes the
 * outputs. */
#include "base/cleanup.h"
#include "base/log.h"
#include "engine/train/evaluation.h"
#include "worker/trainee/worker_choice.h"
#include "worker/trainee/worker_precision.h"
#include "worker/trainee/worker_setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The outputs and targets that the sink gathers, one row per sample. */
struct gathered {
    float *outputs;   /* owned: [count][width] */
    uint8_t *targets; /* owned: int32 [count] or float32 [count][width] */
    size_t target_bytes;
    int64_t width;
};

static int gather(void *context, struct session *session, const struct loader_batch *batch,
                  struct error *error)
{
    struct gathered *gathered = context;

    memcpy(gathered->targets + (size_t)batch->position * gathered->target_bytes, batch->targets,
           (size_t)batch->count * gathered->target_bytes);
    return session_read_output(session, gathered->outputs + batch->position * gathered->width,
                               error);
}

static int gathered_init(struct gathered *gathered, const struct worker_setup *setup,
                         const struct dataset_view *view, struct error *error)
{
    gathered->width = setup->model_data.outputs;
    gathered->target_bytes = dataset_target_bytes(view->dataset);
    gathered->outputs = malloc((size_t)(view->count * gathered->width) * sizeof *gathered->outputs);
    gathered->targets = malloc((size_t)view->count * gathered->target_bytes);
    return gathered->outputs && gathered->targets
               ? 0
               : error_set_errno(error, -ENOMEM, "cannot hold the model's outputs");
}

static int gathered_write(const struct gathered *gathered, const struct worker_setup *setup,
                          int64_t count, const char *path, struct error *error)
{
    bool classes = setup->spec.loss == LOSS_CROSS_ENTROPY;
    struct safetensors_tensor tensors[2] = {
        {.name = classes ? "logits" : "prediction",
         .type = SAFETENSORS_FLOAT32,
         .rank = 2,
         .shape = {count, gathered->width}},
        {.name = classes ? "labels" : "targets",
         .type = classes ? SAFETENSORS_INT32 : SAFETENSORS_FLOAT32,
         .rank = classes ? 1 : 2,
         .shape = {count, gathered->width}}};
    struct safetensors_writer *writer = NULL;
    int r = safetensors_writer_open(path, NULL, 0, tensors, 2, &writer, error);

    if (r == 0)
        r = safetensors_writer_add(writer, gathered->outputs, tensors[0].bytes, error);
    if (r == 0)
        r = safetensors_writer_add(writer, gathered->targets, tensors[1].bytes, error);
    if (r == 0)
        r = safetensors_writer_finish(TAKE_POINTER(writer), NULL, NULL, error);
    safetensors_writer_abort(writer);
    return r;
}

static void show_json(const char *set, bool accuracy, const struct step_metrics *metrics)
{
    JSON_AUTO struct json_object *json = json_object_new_object();
    char name[32];

    json_set_string(json, "set", set);
    json_set_int(json, "samples", metrics->samples);
    snprintf(name, sizeof name, "%s_loss", set);
    json_set_double(json, name, metrics->loss_sum / (double)metrics->labels);
    snprintf(name, sizeof name, "%s_accuracy", set);
    if (accuracy)
        json_set_double(json, name, (double)metrics->correct / (double)metrics->labels);
    json_print(json, stdout);
}

static void show(const char *set, bool accuracy, const struct step_metrics *metrics)
{
    printf("%s set, %lld samples: loss %.6g", set, (long long)metrics->samples,
           metrics->loss_sum / (double)metrics->labels);
    if (accuracy)
        printf(", accuracy %.4f", (double)metrics->correct / (double)metrics->labels);
    printf("\n");
}

/* Prepares the session that evaluates `view`, and its batches. */
static int prepare(struct worker_setup *setup, const struct dataset_view *view,
                   const struct checkpoint_state *checkpoint, struct session **session,
                   struct feed **feed, struct error *error)
{
    int64_t batch = worker_choice_evaluation_batch(setup, checkpoint);
    struct loader_config config = {.view = *view,
                                   .batch = batch,
                                   .normalisation = dataset_format_is_text(setup->train->format)
                                                        ? NULL
                                                        : &setup->normalisation,
                                   .threads = worker_setup_loader_threads(setup, batch)};
    struct session_config wanted = {
        .backend = setup->backend,
        .device = setup->device,
        .build = worker_setup_build,
        .build_context = setup,
        .compute_type = setup->precision.type,
        .direct_convolutions = checkpoint->direct_convolutions,
        .evaluation_batches = {view->count < batch ? view->count : batch, view->count % batch},
        .staging_bytes = loader_memory_bytes(&config)};
    int r = session_prepare(&wanted, session, error);

    if (r == 0)
        r = session_allocate(*session, error);
    if (r == 0)
        r = feed_create(&(struct feed_config){.session = *session,
                                              .loader = config,
                                              .memory = session_staging(*session),
                                              .data = -1},
                        feed, error);
    return r;
}

static int evaluate(const struct worker_options *options, struct worker_setup *setup,
                    struct error *error)
{
    struct checkpoint checkpoint;
    struct session *session = NULL;
    struct feed *feed = NULL;
    struct gathered gathered = {0};
    struct step_metrics metrics;
    struct dataset_view view = {0};
    int r = checkpoint_open(options->checkpoint, &checkpoint, error);

    if (r < 0)
        return r;
    r = worker_setup_open(options,
                          &(struct worker_opening){.normalisation = checkpoint.texts.normalisation,
                                                   .evaluates = true},
                          setup, error);
    worker_precision_adopt(&checkpoint.state, true, setup);
    for (int i = 0; i < setup->data_warnings.count; i++)
        log_warning("%s", setup->data_warnings.text[i]);
    if (r == 0) {
        view = setup->test ? dataset_view_all(setup->test) : setup->split.validation;
        if (view.count == 0)
            r = error_set(error, -EINVAL,
                          "the specification has neither data.test nor a validation part");
    }
    if (r == 0)
        r = prepare(setup, &view, &checkpoint.state, &session, &feed, error);
    if (r == 0)
        r = checkpoint_restore(&checkpoint, session, false, NULL, error);
    if (r == 0 && options->logits)
        r = gathered_init(&gathered, setup, &view, error);
    if (r == 0)
        r = evaluation_run(session, feed, 1, options->logits ? gather : NULL, &gathered, NULL,
                           &metrics, error);
    if (r == 0 && options->logits)
        r = gathered_write(&gathered, setup, view.count, options->logits, error);
    if (r == 0)
        (options->json ? show_json : show)(setup->test ? "test" : "validation",
                                           setup->spec.loss == LOSS_CROSS_ENTROPY, &metrics);
    feed_free(feed);
    session_free(session);
    checkpoint_close(&checkpoint);
    free(gathered.outputs);
    free(gathered.targets);
    return r;
}

int worker_evaluate(const struct worker_options *options)
{
    struct worker_setup setup = {.stage = WORKER_STAGE_CHECKPOINT};
    struct error error = {0};
    int r = evaluate(options, &setup, &error);

    worker_setup_release(&setup);
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
