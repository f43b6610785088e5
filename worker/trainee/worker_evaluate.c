/* worker_evaluate.c: `traind-worker eval` computes the metrics of a checkpoint on the test set, or
 * on the validation part if there is no test set; or those of a model on other data. With --logits
 * it also writes the outputs. */
#include "base/cleanup.h"
#include "base/log.h"
#include "engine/train/evaluation.h"
#include "worker/trainee/class_table.h"
#include "worker/trainee/worker_choice.h"
#include "worker/trainee/worker_data_check.h"
#include "worker/trainee/worker_heads.h"
#include "worker/trainee/worker_model.h"
#include "worker/trainee/worker_precision.h"
#include "worker/trainee/worker_setup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The outputs and targets that are gathered, one row per sample. */
struct gathered {
    float *outputs;      /* owned: [count][steps][width]; NULL: they are not wanted */
    uint8_t *targets;    /* owned: [count][target_width], int32 labels or float32 values */
    size_t target_bytes; /* of a sample */
    int64_t target_width;
    bool labels, embeds;
    int64_t steps; /* of a sample that have a label each; 1 where it has one */
    int64_t width;
};

/* What becomes of the outputs. */
struct evaluation {
    const struct dataset_view *view;
    struct metrics *metrics; /* NULL: none reads outputs */
    struct gathered gathered;
};

static int take_batch(void *context, struct session *session, const struct loader_batch *batch,
                      struct error *error)
{
    struct evaluation *evaluation = context;
    struct gathered *gathered = &evaluation->gathered;

    if (gathered->outputs) {
        int r = session_read_output(
            session, gathered->outputs + batch->position * gathered->steps * gathered->width,
            error);

        if (r < 0)
            return r;
        memcpy(gathered->targets + (size_t)batch->position * gathered->target_bytes, batch->targets,
               (size_t)batch->count * gathered->target_bytes);
    }
    if (!evaluation->metrics)
        return 0;
    return metrics_add(evaluation->metrics, session, evaluation->view, batch, error);
}

static int gathered_init(struct gathered *gathered, const struct worker_setup *setup,
                         const struct dataset_view *view, struct error *error)
{
    gathered->steps = view->dataset->labels_each ? view->dataset->sample_elements : 1;
    gathered->width = setup->model_data.outputs;
    gathered->target_bytes = dataset_target_bytes(view->dataset);
    gathered->target_width = (int64_t)(gathered->target_bytes / sizeof(int32_t));
    gathered->labels = view->dataset->target == DATASET_TARGET_CLASS;
    gathered->embeds = setup->spec.loss == LOSS_TRIPLET;
    gathered->outputs = malloc((size_t)(view->count * gathered->steps * gathered->width) *
                               sizeof *gathered->outputs);
    gathered->targets = malloc((size_t)view->count * gathered->target_bytes);
    return gathered->outputs && gathered->targets
               ? 0
               : error_set_errno(error, -ENOMEM, "cannot hold the model's outputs");
}

static int gathered_write(const struct gathered *gathered, int64_t count, const char *path,
                          struct error *error)
{
    bool each = gathered->steps > 1;
    struct safetensors_tensor tensors[2] = {
        {.name = gathered->embeds   ? "embeddings"
                 : gathered->labels ? "logits"
                                    : "prediction",
         .type = SAFETENSORS_FLOAT32,
         .rank = each ? 3 : 2,
         .shape = {count, each ? gathered->steps : gathered->width, gathered->width}},
        {.name = gathered->labels ? "labels" : "targets",
         .type = gathered->labels ? SAFETENSORS_INT32 : SAFETENSORS_FLOAT32,
         .rank = gathered->labels && gathered->target_width == 1 ? 1 : 2,
         .shape = {count, gathered->target_width}}};
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

/* Whether the classes are shown one by one: where each sample has one. */
static bool has_classes(const struct worker_setup *setup)
{
    return setup->train->target == DATASET_TARGET_CLASS && setup->spec.head_count == 0 &&
           setup->spec.loss != LOSS_TRIPLET && !dataset_format_is_text(setup->train->format);
}

/* Whether probabilities of all samples are kept. */
static bool has_scores(metric_set kinds)
{
    return kinds >> METRIC_AUC & 1 || kinds >> METRIC_AVERAGE_PRECISION & 1;
}

static void show_json(const struct worker_setup *setup, bool test, metric_set kinds,
                      struct metrics *metrics, const struct step_metrics *sums)
{
    JSON_AUTO struct json_object *json = json_object_new_object();

    json_set_string(json, "set", test ? "test" : "validation");
    json_set_int(json, "samples", sums->samples);
    for (int i = 0; i < METRIC_COUNT; i++) {
        double value = metrics_value(metrics, i, sums);

        if (kinds >> i & 1 && !isnan(value))
            json_set_double(json, metric_name(test ? METRIC_TEST : METRIC_VALIDATION, i), value);
    }
    for (int i = 0; i < metrics_head_count(metrics); i++) {
        struct metric_mean loss =
            metrics_head_loss(metrics, test ? METRIC_TEST : METRIC_VALIDATION, i);

        json_set_double(json, loss.name, loss.mean);
        json_set_double(json, loss.error_name, loss.error);
    }
    if (metrics_confusion(metrics))
        class_table_json(metrics, setup->train, json);
    if (metrics_labels(metrics))
        label_table_json(metrics_labels(metrics), setup->train, has_scores(kinds), json);
    value_table_json(metrics, setup->train, json);
    json_print(json, stdout);
}

static void show(const struct worker_setup *setup, bool test, metric_set kinds,
                 struct metrics *metrics, const struct step_metrics *sums)
{
    const bool undefined = isnan(metrics_value(metrics, METRIC_LOSS, sums));
    const char *mark = ":";

    printf("%s set, %lld samples", test ? "test" : "validation", (long long)sums->samples);
    for (int i = 0; i < METRIC_COUNT; i++) {
        double value = metrics_value(metrics, i, sums);

        if (!(kinds >> i & 1) || (isnan(value) && !undefined))
            continue; /* of labels that have no such metric */
        if (isnan(value))
            printf("%s %s nan", mark, metric_kind_to_string(i)); /* printf may write "-nan" */
        else
            printf("%s %s %.6g", mark, metric_kind_to_string(i), value);
        mark = ",";
    }
    for (int i = 0; i < metrics_head_count(metrics); i++) {
        struct metric_mean loss =
            metrics_head_loss(metrics, test ? METRIC_TEST : METRIC_VALIDATION, i);

        printf(", %s %.6g ± %.2g", loss.name, loss.mean, loss.error);
    }
    printf("\n");
    if (metrics_confusion(metrics))
        class_table_print(metrics, setup->train);
    if (metrics_labels(metrics))
        label_table_print(metrics_labels(metrics), setup->train, has_scores(kinds));
    value_table_print(metrics, setup->train);
}

/* Prepares the session that evaluates `view`, and its batches. */
static int prepare(struct worker_setup *setup, const struct dataset_view *view,
                   const struct checkpoint *checkpoint, struct session **session,
                   struct feed **feed, struct error *error)
{
    int64_t batch = worker_choice_evaluation_batch(setup, &checkpoint->state);
    struct loader_config config = {.view = *view,
                                   .batch = batch,
                                   .normalisation = dataset_format_has_symbols(setup->train->format)
                                                        ? NULL
                                                        : &setup->normalisation,
                                   .threads = worker_setup_loader_threads(setup, batch)};
    struct session_config wanted = {
        .backend = setup->backend,
        .device = setup->device,
        .build = worker_setup_build,
        .build_context = setup,
        .compute_type = setup->precision.type,
        .quantization = checkpoint->texts.quantization,
        .direct_convolutions = checkpoint->state.direct_convolutions,
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

/* Evaluates the checkpoint's weights on the view. */
static int measure(const struct worker_options *options, struct worker_setup *setup,
                   const struct dataset_view *view, const struct checkpoint *checkpoint,
                   struct error *error)
{
    struct session *session = NULL;
    struct feed *feed = NULL;
    struct evaluation evaluation = {.view = view};
    struct metric_heads heads = worker_heads(setup);
    /* as a run measures the last of its sets */
    metric_set kinds = training_metrics(&setup->spec.training, setup->train, &heads, METRIC_TEST);
    struct metrics_config config = {
        .dataset = setup->train->is_absent ? view->dataset : setup->train,
        .heads = heads,
        .kinds = kinds,
        .batch = worker_choice_evaluation_batch(setup, &checkpoint->state),
        .count = view->count,
        .confusion = has_classes(setup)};
    struct step_metrics sums;
    bool reads;
    int r = prepare(setup, view, checkpoint, &session, &feed, error);

    if (r == 0)
        r = checkpoint_restore(checkpoint, session, false, NULL, error);
    if (r == 0 && options->logits)
        r = gathered_init(&evaluation.gathered, setup, view, error);
    if (r == 0)
        r = metrics_create(&config, &evaluation.metrics, error);
    if (r == 0 && evaluation.metrics)
        metrics_begin(evaluation.metrics, kinds);
    reads = evaluation.metrics || options->logits;
    if (r == 0)
        r = evaluation_run(session, feed, 1, reads ? take_batch : NULL, &evaluation, NULL, &sums,
                           error);
    if (r == 0 && options->logits)
        r = gathered_write(&evaluation.gathered, view->count, options->logits, error);
    if (r == 0)
        (options->json ? show_json : show)(setup, worker_setup_test(setup).count > 0, kinds,
                                           evaluation.metrics, &sums);
    feed_free(feed);
    session_free(session);
    metrics_free(evaluation.metrics);
    free(evaluation.gathered.outputs);
    free(evaluation.gathered.targets);
    return r;
}

/* Opens the model by itself, and the data that it is to be evaluated on. */
static int open_data_of_model(const struct worker_options *options, struct worker_setup *setup,
                              struct checkpoint *checkpoint, struct error *error)
{
    int r = worker_model_open(options, options->input, checkpoint, setup, error);

    if (r == 0)
        r = worker_model_check_files(setup, options, error);
    if (r < 0)
        return r;
    setup->spec.test.config = worker_model_data(setup, &options->data);
    setup->spec.test.config.labels_path = options->labels;
    setup->spec.test.config.lengths_path = options->lengths;
    r = dataset_open(&setup->spec.test.config, setup->train, &setup->test, error);
    return r < 0 ? r : dataset_normalise_targets(&setup->normalisation, setup->test, error);
}

/* Opens a job's specification and its data. */
static int open_data_of_job(const struct worker_options *options, struct worker_setup *setup,
                            struct checkpoint *checkpoint, struct error *error)
{
    int r = checkpoint_open_model(options->checkpoint, checkpoint, error);

    if (r < 0)
        return r;
    r = worker_setup_open(
        options, &(struct worker_opening){.trained = &checkpoint->texts, .evaluates = true}, setup,
        error);
    worker_precision_adopt(&checkpoint->state, true, setup);
    for (int i = 0; i < setup->data_warnings.count; i++)
        log_warning("%s", setup->data_warnings.text[i]);
    return r < 0 ? r
                 : worker_data_check(&checkpoint->texts, setup->train, options->checkpoint, error);
}

static int evaluate(const struct worker_options *options, struct worker_setup *setup,
                    struct error *error)
{
    struct checkpoint checkpoint = {0};
    struct dataset_view view = {0};
    int r;

    r = options->data ? open_data_of_model(options, setup, &checkpoint, error)
                      : open_data_of_job(options, setup, &checkpoint, error);
    if (r == 0) {
        view = worker_setup_test(setup);
        if (view.count == 0)
            view = setup->split.validation;
        if (view.count == 0)
            r = error_set(error, -EINVAL,
                          "the specification has neither a test set nor a validation part");
    }
    if (r == 0)
        r = measure(options, setup, &view, &checkpoint, error);
    checkpoint_close(&checkpoint);
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
