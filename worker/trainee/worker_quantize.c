/* worker_quantize.c: `traind-worker quantize` makes the weights of a checkpoint integers of 8 bits.
 * It measures the model before and after on the same set: metrics, bytes and speed. The result is a
 * checkpoint, which `eval`, `sample` and `export` read as any other. */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/train/evaluation.h"
#include "engine/train/quantization.h"
#include "proto/device_host.h"
#include "worker/trainee/worker_choice.h"
#include "worker/trainee/worker_data_check.h"
#include "worker/trainee/worker_heads.h"
#include "worker/trainee/worker_ranges.h"
#include "worker/trainee/worker_setup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Batches are timed in turns for so long; the least time of each counts. */
static const double timing_seconds = 0.25;
enum { TIMINGS_MIN = 3, TIMINGS_MAX = 100000 };

/* The model with one kind of weights, and what was measured of it. */
struct variant {
    const char *name;
    const char *quantization; /* graph_quantize(); NULL: float32 */
    struct session *session;  /* owned */
    double metrics[METRIC_COUNT];
    size_t weights_bytes;
    double sample_seconds, batch_seconds; /* of an evaluation of one sample, and of a batch */
};

struct comparison {
    struct variant variants[2]; /* float32, int8 */
    bool test;                  /* the set is the test set, else the validation part */
    int64_t samples, batch;     /* of the set, and of a batch */
    metric_set kinds;
    uint64_t file_bytes;
    int int8_layers, float_layers; /* with weights of each kind */
    char *ranges;                  /* of static quantization; owned, NULL: dynamic */
    int64_t calibration_samples;
    bool learnt; /* quantization-aware training has learnt the ranges */
};

/* ---- sessions -------------------------------------------------------------------------------- */

static struct loader_config loader_of(const struct worker_setup *setup,
                                      const struct dataset_view *view, int64_t batch)
{
    bool symbols = dataset_format_has_symbols(setup->train->format);

    return (struct loader_config){
        .view = *view, .batch = batch, .normalisation = symbols ? NULL : &setup->normalisation};
}

static int open_session(struct worker_setup *setup, const struct dataset_view *view,
                        const struct checkpoint *checkpoint, int64_t batch, struct variant *variant,
                        struct error *error)
{
    struct loader_config loader = loader_of(setup, view, batch);
    struct session_config wanted = {
        .backend = setup->backend,
        .device = setup->device,
        .build = worker_setup_build,
        .build_context = setup,
        .quantization = variant->quantization,
        .direct_convolutions = checkpoint->state.direct_convolutions,
        .evaluation_batches = {view->count < batch ? view->count : batch, view->count % batch, 1},
        .staging_bytes = loader_memory_bytes(&loader)};
    int r = session_prepare(&wanted, &variant->session, error);

    if (r == 0)
        r = session_allocate(variant->session, error);
    if (r == 0)
        r = variant->quantization
                ? quantization_restore(checkpoint, variant->session, error)
                : checkpoint_restore(checkpoint, variant->session, false, NULL, error);
    return r;
}

/* ---- metrics --------------------------------------------------------------------------------- */

struct sink {
    const struct dataset_view *view;
    struct metrics *metrics;
};

static int take_batch(void *context, struct session *session, const struct loader_batch *batch,
                      struct error *error)
{
    struct sink *sink = context;

    return metrics_add(sink->metrics, session, sink->view, batch, error);
}

static int measure_metrics(struct worker_setup *setup, const struct dataset_view *view,
                           const struct comparison *comparison, struct variant *variant,
                           struct error *error)
{
    struct metrics_config config = {.dataset = setup->train,
                                    .heads = worker_heads(setup),
                                    .kinds = comparison->kinds,
                                    .batch = comparison->batch,
                                    .count = view->count};
    struct sink sink = {.view = view};
    struct feed *feed = NULL;
    struct step_metrics sums;
    int r = feed_create(&(struct feed_config){.session = variant->session,
                                              .loader = loader_of(setup, view, comparison->batch),
                                              .memory = session_staging(variant->session),
                                              .data = -1},
                        &feed, error);

    if (r == 0)
        r = metrics_create(&config, &sink.metrics, error);
    if (r == 0 && sink.metrics)
        metrics_begin(sink.metrics, comparison->kinds);
    if (r == 0)
        r = evaluation_run(variant->session, feed, 1, sink.metrics ? take_batch : NULL, &sink, NULL,
                           &sums, error);
    for (int i = 0; r == 0 && i < METRIC_COUNT; i++)
        variant->metrics[i] =
            comparison->kinds >> i & 1 ? metrics_value(sink.metrics, i, &sums) : NAN;
    feed_free(feed);
    metrics_free(sink.metrics);
    return r;
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* Evaluates the first samples of the set in turns, `count` at a time. */
static int time_batches(struct comparison *comparison, const struct loader_batch *first,
                        int64_t count, struct error *error)
{
    const struct session_batch batch = {.count = count,
                                        .samples = first->samples,
                                        .targets = first->targets,
                                        .lengths = first->lengths};
    double end = clock_monotonic() + timing_seconds;

    for (int i = 0; i < TIMINGS_MAX && (i < TIMINGS_MIN || clock_monotonic() < end); i++)
        for (int k = 0; k < 2; k++) {
            struct variant *variant = &comparison->variants[k];
            double *least = count == 1 ? &variant->sample_seconds : &variant->batch_seconds;
            double begin = clock_monotonic(), seconds;
            int r = session_evaluate(variant->session, &batch, error);

            if (r < 0)
                return r;
            seconds = clock_monotonic() - begin;
            *least = i == 0 || seconds < *least ? seconds : *least;
        }
    return 0;
}

static int measure_speed(struct worker_setup *setup, const struct dataset_view *view,
                         struct comparison *comparison, struct error *error)
{
    struct loader_config config = loader_of(setup, view, comparison->batch);
    AUTO_FREE void *memory =
        aligned_alloc(LOADER_ALIGNMENT, align_up(loader_memory_bytes(&config), LOADER_ALIGNMENT));
    struct loader *loader = NULL;
    struct loader_batch batch;
    int r = memory ? loader_create(&config, memory, &loader, error)
                   : error_set_errno(error, -ENOMEM, "cannot hold a batch");

    if (r == 0)
        r = loader_begin_epoch(loader, 0, 0, error);
    if (r == 0)
        r = loader_next(loader, &batch, error);
    if (r == 0)
        r = time_batches(comparison, &batch, 1, error);
    if (r == 0 && batch.count > 1)
        r = time_batches(comparison, &batch, batch.count, error);
    loader_free(loader);
    return r;
}

/* ---- weights --------------------------------------------------------------------------------- */

static void count_weights(struct comparison *comparison)
{
    struct session_tensor tensor;

    for (int k = 0; k < 2; k++)
        for (int i = 0; session_tensor(comparison->variants[k].session, i, &tensor) == 0; i++)
            if (tensor.evaluated) {
                comparison->variants[k].weights_bytes += tensor.bytes;
                comparison->int8_layers += tensor.type == TENSOR_INT8;
                comparison->float_layers +=
                    k && tensor.type == TENSOR_FLOAT32 && tensor.shape.rank > 1;
            }
}

static int write_checkpoint(const struct worker_options *options,
                            const struct checkpoint *checkpoint, struct comparison *comparison,
                            struct error *error)
{
    struct checkpoint_state state = checkpoint->state;
    struct checkpoint_texts texts = checkpoint->texts;
    char digest[SAFETENSORS_DIGEST_SIZE];

    texts.quantization = comparison->variants[1].quantization;
    state.micro_step = 0; /* there are no gradients */
    return checkpoint_write(comparison->variants[1].session, &state, &texts, NULL, options->output,
                            digest, &comparison->file_bytes, error);
}

/* ---- report ---------------------------------------------------------------------------------- */

static struct json_object *variant_json(const struct comparison *comparison,
                                        const struct variant *variant)
{
    struct json_object *json = json_object_new_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        if (comparison->kinds >> i & 1 && !isnan(variant->metrics[i]))
            json_set_double(json,
                            metric_name(comparison->test ? METRIC_TEST : METRIC_VALIDATION, i),
                            variant->metrics[i]);
    json_set_int(json, "weights_bytes", (int64_t)variant->weights_bytes);
    json_set_double(json, "sample_seconds", variant->sample_seconds);
    if (variant->batch_seconds > 0)
        json_set_double(json, "batch_seconds", variant->batch_seconds);
    return json;
}

static void show_json(const struct worker_options *options, const struct comparison *comparison)
{
    JSON_AUTO struct json_object *json = json_object_new_object();

    json_set_string(json, "output", options->output);
    json_set_int(json, "bytes", (int64_t)comparison->file_bytes);
    json_set_string(json, "method", comparison->ranges ? "static" : "dynamic");
    if (comparison->ranges) {
        json_set_string(json, "ranges", comparison->learnt ? "learnt" : "calibrated");
        json_set_int(json, "calibration_samples", comparison->calibration_samples);
    }
    json_set_string(json, "set", comparison->test ? "test" : "validation");
    json_set_int(json, "samples", comparison->samples);
    json_set_int(json, "batch", comparison->batch);
    json_set_int(json, "quantized_weights", comparison->int8_layers);
    json_set_int(json, "float_weights", comparison->float_layers);
    for (int k = 0; k < 2; k++)
        json_set(json, comparison->variants[k].name,
                 variant_json(comparison, &comparison->variants[k]));
    json_print(json, stdout);
}

static void show_speed(int64_t samples, double before, double after)
{
    char name[48];

    snprintf(name, sizeof name, "%lld %s, ms", (long long)samples,
             samples == 1 ? "sample" : "samples");
    printf("%-22s %14.4g %14.4g   %.2f times as fast\n", name, before * 1e3, after * 1e3,
           before / after);
}

static void show(const struct worker_options *options, const struct comparison *comparison)
{
    const struct variant *before = &comparison->variants[0], *after = &comparison->variants[1];
    enum metric_subset subset = comparison->test ? METRIC_TEST : METRIC_VALIDATION;
    char size[2][32];

    printf("%-22s %14s %14s\n", "", before->name, after->name);
    for (int i = 0; i < METRIC_COUNT; i++)
        if (comparison->kinds >> i & 1 && !isnan(before->metrics[i]))
            printf("%-22s %14.6g %14.6g\n", metric_name(subset, i), before->metrics[i],
                   after->metrics[i]);
    printf("%-22s %14s %14s   %.2f of the size\n", "weights",
           text_format_bytes(before->weights_bytes, size[0], sizeof size[0]),
           text_format_bytes(after->weights_bytes, size[1], sizeof size[1]),
           (double)after->weights_bytes / (double)before->weights_bytes);
    show_speed(1, before->sample_seconds, after->sample_seconds);
    if (before->batch_seconds > 0)
        show_speed(comparison->batch, before->batch_seconds, after->batch_seconds);
    if (comparison->float_layers)
        printf("%d weights are int8; %d stay float32, because %s\n", comparison->int8_layers,
               comparison->float_layers,
               comparison->ranges ? "their layers have no form for integers"
                                  : "other layers read them, or they are convolutions");
    printf("%s: %s\n", options->output,
           text_format_bytes(comparison->file_bytes, size[0], sizeof size[0]));
}

/* ---- command --------------------------------------------------------------------------------- */

static int compare(const struct worker_options *options, struct worker_setup *setup,
                   const struct dataset_view *view, const struct checkpoint *checkpoint,
                   struct comparison *comparison, struct error *error)
{
    struct metric_heads heads = worker_heads(setup);
    int r = 0;

    comparison->test = worker_setup_test(setup).count > 0;
    comparison->samples = view->count;
    comparison->batch = worker_choice_evaluation_batch(setup, &checkpoint->state);
    if (comparison->batch > view->count)
        comparison->batch = view->count;
    /* as a run measures the last of its sets */
    comparison->kinds = training_metrics(&setup->spec.training, setup->train, &heads, METRIC_TEST);
    comparison->learnt = worker_ranges_are_learnt(checkpoint);
    if (options->is_static || comparison->learnt) {
        comparison->ranges = worker_ranges_observe(setup, checkpoint, comparison->batch,
                                                   &comparison->calibration_samples, error);
        if (!comparison->ranges)
            return error->code;
        comparison->variants[1].quantization = comparison->ranges;
    }
    for (int k = 0; k < 2 && r == 0; k++) {
        struct variant *variant = &comparison->variants[k];

        r = open_session(setup, view, checkpoint, comparison->batch, variant, error);
        if (r == 0)
            r = measure_metrics(setup, view, comparison, variant, error);
    }
    if (r == 0)
        r = measure_speed(setup, view, comparison, error);
    if (r < 0)
        return r;
    count_weights(comparison);
    return write_checkpoint(options, checkpoint, comparison, error);
}

static int check_checkpoint(const struct worker_options *options,
                            const struct checkpoint *checkpoint, struct error *error)
{
    if (checkpoint->texts.quantization)
        return error_set(error, -EINVAL, "%s is quantized already: take the checkpoint of the run",
                         options->checkpoint);
    return 0;
}

static int quantize(const struct worker_options *options, struct worker_setup *setup,
                    struct comparison *comparison, struct error *error)
{
    struct checkpoint checkpoint;
    struct dataset_view view = {0};
    int r;

    if (file_check_result(options->output, options->checkpoint, error) < 0)
        return -EINVAL;
    r = checkpoint_open(options->checkpoint, &checkpoint, error);
    if (r < 0)
        return r;
    r = check_checkpoint(options, &checkpoint, error);
    if (r == 0)
        r = worker_setup_open(
            options, &(struct worker_opening){.trained = &checkpoint.texts, .evaluates = true},
            setup, error);
    for (int i = 0; r == 0 && i < setup->data_warnings.count; i++)
        log_warning("%s", setup->data_warnings.text[i]);
    if (r == 0)
        r = worker_data_check(&checkpoint.texts, setup->train, options->checkpoint, error);
    if (r == 0) {
        view = worker_setup_test(setup);
        if (view.count == 0)
            view = setup->split.validation;
        if (view.count == 0)
            r = error_set(
                error, -EINVAL,
                "the specification has neither a test set nor a validation part, on which "
                "the quantized model could be compared");
    }
    if (r == 0)
        r = compare(options, setup, &view, &checkpoint, comparison, error);
    checkpoint_close(&checkpoint);
    return r;
}

int worker_quantize(const struct worker_options *options)
{
    struct worker_options own = *options;
    struct worker_setup setup = {.stage = WORKER_STAGE_CHECKPOINT};
    struct comparison comparison = {
        .variants = {{.name = "float32"}, {.name = "int8", .quantization = "dynamic"}}};
    struct error error = {0};
    int r;

    own.device = DEVICE_HOST; /* integers are multiplied there alone */
    r = own.checkpoint
            ? quantize(&own, &setup, &comparison, &error)
            : error_set(&error, -EINVAL, "quantize needs --checkpoint FILE: the weights");
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    else
        (options->json ? show_json : show)(&own, &comparison);
    session_free(comparison.variants[0].session);
    session_free(comparison.variants[1].session);
    free(comparison.ranges);
    worker_setup_release(&setup);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
