/* worker_train.c: `traind-worker train` runs one attempt of one job.
 *
 * On SIGTERM and SIGINT it writes a checkpoint at the next step boundary and exits with 75. On
 * SIGUSR1 it writes one and goes on. Every failure leaves an `error` record and exit status 1. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "engine/data/description.h"
#include "engine/train/agreement.h"
#include "engine/train/weight_layouts.h"
#include "proto/profile_view.h"
#include "worker/trainee/pytorch_module.h"
#include "worker/trainee/worker_calibration.h"
#include "worker/trainee/worker_data_check.h"
#include "worker/trainee/worker_estimate.h"
#include "worker/trainee/worker_events.h"
#include "worker/trainee/worker_heads.h"
#include "worker/trainee/worker_profile.h"
#include "worker/trainee/worker_setup.h"
#include "worker/trainee/worker_signals.h"
#include "worker/trainee/worker_weights.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct training_requests requests; /* set by the thread that takes signals */

/* One run from its options to its end. */
struct train_run {
    const struct worker_options *options;
    struct worker_report report;
    struct worker_setup setup;
    struct worker_events events;
    struct worker_choice choice;
    struct training *training;
    struct checkpoint resumed;
    bool resumes;
    bool agrees; /* results agree with those of the previous device */
    char *normalisation, *vocabulary, *module, *job, *data, *layouts; /* as text; owned */
    struct training_result result;
    struct worker_calibration calibration; /* of a profile */
};

/* Where the weights stand in the file of a model that is not traind's own. */
static int describe_layouts(struct worker_setup *setup, char **layouts, struct error *error)
{
    struct graph graph;
    int r;

    graph_init(&graph, 2, false); /* batch norm wants two samples */
    r = worker_setup_build(setup, &graph, error);
    if (r == 0)
        r = weight_layouts_format(&graph, layouts, error);
    graph_release(&graph);
    return r;
}

static int describe_texts(struct train_run *run, struct checkpoint_texts *texts,
                          struct error *error)
{
    struct worker_setup *setup = &run->setup;
    bool symbols = dataset_format_has_symbols(setup->train->format);

    if (symbols)
        run->vocabulary = dataset_vocabulary_format(&setup->train->vocabulary);
    else
        run->normalisation = dataset_normalisation_format(&setup->normalisation);
    if (!(symbols ? run->vocabulary : run->normalisation))
        return error_set_errno(error, -ENOMEM, "cannot describe the data for checkpoints");
    run->module = pytorch_module_describe(setup, error);
    if (!run->module)
        return error->code;
    if (setup->spec.model.onnx && describe_layouts(setup, &run->layouts, error))
        return error->code;
    run->job = worker_spec_keep(&setup->spec);
    run->data = dataset_description_format(setup->train);
    if (!run->job || !run->data)
        return error_no_memory(error, "the description of the job for checkpoints");
    *texts = (struct checkpoint_texts){.specification = setup->spec.digest,
                                       .normalisation = run->normalisation,
                                       .vocabulary = run->vocabulary,
                                       .module = run->module,
                                       .job = run->job,
                                       .data = run->data,
                                       .layouts = run->layouts};
    return 0;
}

static bool texts_differ(const char *a, const char *b)
{
    return a && b && strcmp(a, b) != 0;
}

/* Finds the file of the best checkpoint before the one that the run continues from. If it is
 * damaged or the wrong one, the run loses only the test of its best weights. */
static int find_best(struct train_run *run, struct error *error)
{
    const struct checkpoint_state *state = &run->resumed.state;
    const char *path = run->options->best;
    struct checkpoint best;
    struct error reason = {0};

    if (state->best.best_step == state->step && state->micro_step == 0)
        path = run->options->resume;
    if (!path || checkpoint_open(path, &best, &reason) < 0) {
        if (!path || !state->best.metric[0])
            return 0;
        return worker_events_warning(&run->events, reason.text, error);
    }
    if (best.state.step == state->best.best_step && best.state.micro_step == 0)
        run->setup.spec.training.best_checkpoint = path;
    checkpoint_close(&best);
    return 0;
}

/* Opens the checkpoint that the run continues from, if there is one. */
static int open_checkpoint(struct train_run *run, struct error *error)
{
    int r = 0;

    if (!run->options->resume)
        return 0;
    run->setup.stage = WORKER_STAGE_CHECKPOINT;
    r = checkpoint_open(run->options->resume, &run->resumed, error);
    run->resumes = r == 0;
    return r;
}

/* Warns where the job that is continued has made all steps of this one already. */
static int warn_of_nothing_left(struct train_run *run, const struct checkpoint_texts *stored,
                                const struct checkpoint_texts *texts, struct error *error)
{
    int64_t made = run->resumed.state.step, steps = training_total_steps(run->training);
    AUTO_FREE char *text = NULL;

    if (!run->setup.spec.continues || made < steps ||
        !texts_differ(stored->specification, texts->specification))
        return 0;
    text = memory_format("nothing is trained: the job that this one continues has made %lld steps, "
                         "and %s asks for %lld in all; more of them train it further",
                         (long long)made,
                         run->setup.spec.training.steps ? "train.max_steps" : "train.epochs",
                         (long long)steps);
    return worker_events_warning(&run->events, text, error);
}

static int resume(struct train_run *run, const struct checkpoint_texts *texts, struct error *error)
{
    const struct checkpoint_texts *stored = &run->resumed.texts;
    const char *path = run->options->resume;
    int r = 0;

    if (!run->resumes)
        return 0;
    run->setup.stage = WORKER_STAGE_CHECKPOINT;
    r = worker_data_check(stored, run->setup.train, path, error);
    if (r == 0 && !run->setup.spec.continues &&
        texts_differ(stored->specification, texts->specification))
        r = worker_events_warning(&run->events,
                                  "the specification has changed since the checkpoint was written; "
                                  "the run goes on with the new one",
                                  error);
    if (r < 0 || (r = training_resume(run->training, &run->resumed, error)) < 0 ||
        (r = warn_of_nothing_left(run, stored, texts, error)) < 0)
        return r;
    run->setup.stage = WORKER_STAGE_AGREEMENT;
    return agreement_check(run->training, &run->resumed, &run->agrees, error);
}

static int report_start(struct train_run *run, struct error *error)
{
    const struct backend_device_info *info = &run->setup.device_info;
    const struct precision *precision = &run->setup.precision;
    struct json_object *fields;

    if (run->report.person) {
        printf("%s on %s (%s), %d threads, %s (%s), %lld steps\n", run->setup.spec.name, info->name,
               info->model, info->threads, tensor_type_to_string(precision->type),
               precision->reason, (long long)run->events.steps);
        for (int i = 0; i < run->choice.reason_count; i++)
            printf("%s\n", run->choice.reasons[i]);
        fflush(stdout);
        return 0;
    }
    fields = json_object_new_object();
    json_set_string(fields, "device", info->name);
    json_set_int(fields, "threads", info->threads);
    json_set_string(fields, "precision", tensor_type_to_string(precision->type));
    json_set_string(fields, "precision_reason", precision->reason);
    json_set_int(fields, "steps", run->events.steps);
    json_set_int(fields, "epochs", run->events.epochs);
    if (run->resumes)
        json_set_int(fields, "resumed_from_step", run->resumed.state.step);
    else
        json_set(fields, "resumed_from_step", NULL);
    json_set_string(fields, "agrees_with",
                    run->agrees ? run->resumed.state.agreement.device : NULL);
    json_set(fields, "choices", worker_choices_json(&run->setup));
    json_set(fields, "versions", worker_versions_json(info));
    if (run->options->mps_refused)
        json_set_bool(fields, "mps", false);
    json_set(fields, "startup", worker_startup_json(&run->setup.startup, info));
    return worker_report_record(&run->report, "start", fields, error);
}

static void on_first_step(void *context)
{
    struct train_run *run = context;

    if (worker_startup_finish(&run->setup.startup) && run->options->timings)
        worker_startup_print(&run->setup.startup, &run->setup.device_info);
}

static int text_baseline_values(const struct worker_setup *setup, struct training_values *values,
                                struct error *error)
{
    struct text_baselines baselines;
    int r;

    if (setup->split.validation.count == 0)
        return 0;
    r = text_baselines(&setup->split.train, &setup->split.validation, &baselines, error);
    if (r < 0)
        return r;
    values->values[values->count++] =
        (struct training_value){"baseline_uniform_loss", baselines.uniform};
    values->values[values->count++] =
        (struct training_value){"baseline_bigram_loss", baselines.bigram};
    return 0;
}

static int warn_of_season(struct train_run *run, const char *part, int64_t season,
                          struct error *error)
{
    char message[256];

    snprintf(message, sizeof message,
             "%s_baseline_season_mse and _mae are left out: the data has fewer than %lld rows "
             "(season) before the first that the %s part predicts",
             part, (long long)season, part);
    return worker_events_warning(&run->events, message, error);
}

/* The errors of forecasts without a model, beside which those of the model stand. */
static int series_baseline_values(struct train_run *run, struct training_values *values,
                                  struct error *error)
{
    static const char *const names[2][4] = {
        {"validation_baseline_last_mse", "validation_baseline_last_mae",
         "validation_baseline_season_mse", "validation_baseline_season_mae"},
        {"test_baseline_last_mse", "test_baseline_last_mae", "test_baseline_season_mse",
         "test_baseline_season_mae"}};
    const struct worker_setup *setup = &run->setup;
    int64_t season = setup->spec.train.config.series.season;
    struct dataset_view views[2] = {setup->split.validation, worker_setup_test(setup)};
    int r = 0;

    for (int i = 0; i < 2 && r == 0; i++) {
        struct series_baselines errors;

        if (views[i].count == 0)
            continue;
        errors = series_baselines(&views[i], season);
        const double numbers[] = {errors.last_mse, errors.last_mae, errors.season_mse,
                                  errors.season_mae};
        for (int k = 0; k < 4; k++)
            if (!isnan(numbers[k]))
                values->values[values->count++] = (struct training_value){names[i][k], numbers[k]};
        if (season > 0 && setup->train->target == DATASET_TARGET_VALUE && isnan(errors.season_mse))
            r = warn_of_season(run, i ? "test" : "validation", season, error);
    }
    return r;
}

/* Reports at the start what a model of a text, of a time series or with heads must beat. */
static int report_baselines(struct train_run *run, const struct training_events *callbacks,
                            struct error *error)
{
    const struct worker_setup *setup = &run->setup;
    struct training_values values = {0};
    int r = 0;

    if (run->resumes)
        return 0;
    if (setup->spec.head_count)
        return worker_heads_report_baselines(setup, callbacks, error);
    if (setup->train->format == DATASET_TIME_SERIES)
        r = series_baseline_values(run, &values, error);
    else if (dataset_format_is_text(setup->train->format))
        r = text_baseline_values(setup, &values, error);
    if (r < 0 || values.count == 0)
        return r;
    return callbacks->metrics(callbacks->context, 0, 0, &values, error);
}

/* The last part of the path. */
static const char *folder_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    return slash ? slash + 1 : path;
}

static int make_checkpoint_folder(const char *path, struct error *error)
{
    if (!path || mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return error_set_errno(error, -errno, "cannot make the checkpoint folder %s", path);
}

static int report_warnings(struct train_run *run, struct error *error)
{
    struct worker_warnings warnings;
    int r = 0;

    worker_warnings_find(&run->setup, &warnings);
    for (int i = 0; r == 0 && i < warnings.count; i++)
        r = worker_events_warning(&run->events, warnings.text[i], error);
    return r;
}

/* ---- the profile ---- */

enum {
    PROFILE_RECORD_BYTES = 900 * 1024 /* it must fit into a message */
};

/* Sets how many steps are recorded. Also measures the device's speeds, unless they are known,
 * before the run allocates its memory. */
static int prepare_profile(struct train_run *run, struct error *error)
{
    struct worker_setup *setup = &run->setup;
    const struct worker_options *options = run->options;
    int64_t *steps = &setup->spec.training.profile_steps;
    int r;

    if (options->profile_steps)
        *steps = options->profile_steps;
    else if (options->profile && !*steps)
        *steps = PROFILE_STEPS_DEFAULT;
    if (!*steps)
        return 0;
    r = worker_device_calibration(options, &setup->simulation, &setup->device_info,
                                  &run->calibration, error);
    if (r < 0 || run->calibration.known ||
        !worker_calibration_is_due(&setup->device_info, setup->spec.memory_limit))
        return r;
    return worker_calibration_measure(setup->backend, setup->device, true, &run->calibration,
                                      error);
}

/* Reports the profile after a run, complete or interrupted. */
static int report_profile(struct train_run *run, struct error *error)
{
    const struct profile *profile = training_profile(run->training);
    const char *path = run->options->profile;
    JSON_AUTO struct json_object *json = NULL, *fields = NULL;
    int r = 0;

    if (!profile)
        return 0;
    json = worker_profile_json(&run->setup, profile,
                               run->calibration.known ? &run->calibration.speeds : NULL,
                               run->report.person ? SIZE_MAX : PROFILE_RECORD_BYTES, error);
    if (!json)
        return error->code;
    if (run->report.person) {
        putchar('\n');
        profile_print(json, run->options->layers, stdout);
    } else {
        fields = json_object_new_object();
        json_set(fields, "profile", json_object_get(json));
        r = worker_report_record(&run->report, "profile", TAKE_POINTER(fields), error);
    }
    if (r == 0 && path)
        r = profile_write_trace_file(json, path, error);
    if (r == 0 && path && run->report.person)
        printf("trace of the steps: %s\n", path);
    return r;
}

/* Readers assume that the results are those of the exported weights. Reports a warning if they are
 * not. */
static int report_weights(struct train_run *run, struct error *error)
{
    const struct checkpoint_state *state = training_state(run->training);
    const struct training_result *result = &run->result;
    char message[WORKER_WARNING_BYTES];

    if (!worker_setup_test(&run->setup).count || !run->options->checkpoints ||
        result->best_weights || !state->best.metric[0] || isnan(state->best.best) ||
        state->best.best_step == state->step)
        return 0;
    snprintf(
        message, sizeof message,
        "the test metrics are the last weights', not those of the best checkpoint (step %lld), "
        "which an export takes: %.700s",
        (long long)state->best.best_step,
        result->best_problem.code ? result->best_problem.text : "it is not at hand");
    return worker_events_warning(&run->events, message, error);
}

static int train(struct train_run *run, struct error *error)
{
    struct worker_setup *setup = &run->setup;
    struct training_events callbacks = worker_events_callbacks(&run->events);
    struct checkpoint_texts texts = {0};
    struct worker_opening opening = {.stop = &requests.stop};
    int r = open_checkpoint(run, error);

    if (r < 0)
        return r;
    opening.trained = run->resumes ? &run->resumed.texts : NULL;
    if ((r = worker_setup_open(run->options, &opening, setup, error)) < 0 ||
        (r = make_checkpoint_folder(run->options->checkpoints, error)) < 0)
        return r;
    setup->stage = WORKER_STAGE_CHECKPOINT;
    if (run->resumes && (r = find_best(run, error)) < 0)
        return r;
    if (!run->resumes && setup->spec.continues)
        return error_set(error, -EINVAL,
                         "weights.continue goes on with a job of a daemon, which hands its last "
                         "checkpoint over; by hand, name it: --resume FILE");
    setup->stage = WORKER_STAGE_PLAN;
    if ((!run->resumes && (r = worker_weights_check(setup, error)) < 0) ||
        (r = prepare_profile(run, error)) < 0)
        return r;
    r = worker_choice_prepare(setup, run->options, run->resumes ? &run->resumed.state : NULL,
                              &run->choice, &run->training, error);
    if (r < 0)
        return r;
    worker_startup_enter(&setup->startup, STARTUP_MEMORY);
    if ((r = training_allocate(run->training, error)) < 0)
        return r;
    worker_startup_enter(&setup->startup, STARTUP_CHECKPOINT);
    run->events.epochs = training_total_epochs(run->training);
    if ((!run->resumes &&
         (r = worker_weights_load(setup, training_session(run->training), error)) < 0) ||
        (r = describe_texts(run, &texts, error)) < 0 || (r = resume(run, &texts, error)) < 0)
        return r;
    run->events.steps = training_total_steps(run->training); /* a resumed run may have others */
    setup->stage = WORKER_STAGE_TRAINING;
    worker_startup_enter(&setup->startup, STARTUP_FIRST_STEP);
    if ((r = report_start(run, error)) < 0 || (r = report_warnings(run, error)) < 0 ||
        (r = report_baselines(run, &callbacks, error)) < 0)
        return r;
    r = training_run(run->training, &texts, &callbacks, &requests, &run->result, error);
    if (r == 0 && !run->report.person) /* the result is the last record */
        r = report_profile(run, error);
    if (r == 0 && run->result.outcome == TRAINING_COMPLETED)
        r = report_weights(run, error);
    if (r == 0 && run->result.outcome == TRAINING_COMPLETED)
        r = worker_heads_report_losses(setup, &run->events, &run->result, error);
    if (r == 0 && run->result.outcome == TRAINING_COMPLETED)
        r = worker_events_result(&run->events, &run->result, &training_state(run->training)->best,
                                 worker_startup_json(&setup->startup, &setup->device_info), error);
    return r == 0 && run->report.person ? report_profile(run, error) : r;
}

static void train_run_release(struct train_run *run)
{
    if (run->resumes)
        checkpoint_close(&run->resumed);
    training_free(run->training);
    worker_setup_release(&run->setup);
    worker_report_close(&run->report);
    free(run->normalisation);
    free(run->vocabulary);
    free(run->module);
    free(run->job);
    free(run->data);
    free(run->layouts);
    worker_calibration_release(&run->calibration);
}

/* The kind of a device's failure (backend.h); NULL: the code is none of these. */
static const char *device_failure(int code)
{
    switch (code) {
    case -ERROR_DEVICE_ACCESS:
        return "illegal_access";
    case -ERROR_DEVICE_CORRUPTION:
        return "device_memory";
    case -ERROR_DEVICE_LOST:
        return "device_lost";
    case -ERROR_DEVICE_FAILURE:
        return "launch_failure";
    default:
        return NULL;
    }
}

/* The `kind` of the error record. After a lack of memory, a retry may take smaller batches. */
/* Whether a checkpoint or a record of the running training had no room. */
static bool is_disk_full(int code, enum worker_stage stage)
{
    return stage == WORKER_STAGE_TRAINING && (code == -ENOSPC || code == -EDQUOT);
}

static const char *failure_kind(int code, enum worker_stage stage)
{
    if (code == -ERROR_NONFINITE_LOSS)
        return "nonfinite_loss";
    if (code == -ERROR_DISAGREEMENT)
        return "disagreement";
    if ((code == -ENOMEM || code == -ERROR_DEVICE_MEMORY) && stage >= WORKER_STAGE_PLAN)
        return "out_of_memory";
    if (is_disk_full(code, stage))
        return "disk_full";
    return stage >= WORKER_STAGE_PLAN && device_failure(code) ? device_failure(code)
                                                              : worker_stage_to_string(stage);
}

int worker_train(const struct worker_options *options)
{
    struct train_run run = {.options = options};
    struct error error = {0};
    int r, status = EXIT_SUCCESS;

    worker_signals_serve(&requests);
    r = worker_report_open(&run.report, options->spool, options->json, &error);
    if (r < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
        return EXIT_FAILURE;
    }
    run.events.report = &run.report;
    run.events.folder = folder_name(options->checkpoints);
    run.events.first_step = on_first_step;
    run.events.first_step_context = &run;
    r = train(&run, &error);
    if (r == -EINTR && run.setup.stage <= WORKER_STAGE_DEVICE) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
        status = EXIT_REQUEUE;
    } else if (r < 0) {
        bool training = run.setup.stage == WORKER_STAGE_TRAINING;

        worker_report_failure(&run.report, failure_kind(r, run.setup.stage),
                              training ? training_state(run.training)->step : -1,
                              r == -ERROR_DISAGREEMENT ? run.resumed.state.agreement.device : NULL,
                              &error);
        status = is_disk_full(r, run.setup.stage) ? EXIT_DISK_FULL : EXIT_FAILURE;
    } else if (run.result.outcome == TRAINING_INTERRUPTED) {
        fprintf(stderr, "%straind-worker: interrupted at step %lld%s\n",
                run.report.terminal ? "\r\033[K" : "", (long long)run.result.steps,
                options->checkpoints ? ", a checkpoint was written" : "; no checkpoint folder");
        status = EXIT_REQUEUE;
    }
    train_run_release(&run);
    return status;
}
