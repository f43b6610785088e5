/* measurement.c: see measurement.h. */
#include "worker/trainee/measurement.h"

#include "base/clock.h"
#include "proto/job_spec.h"
#include "worker/trainee/worker_child.h"
#include "worker/trainee/worker_choice.h"
#include "worker/trainee/worker_convolutions.h"
#include "worker/trainee/worker_profile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Steps touch memory and fill caches before they are timed. */
static const double warm_seconds = 0.25;
/* Windows of steps that are timed. Other processes slow some of them. */
static const double window_seconds = 0.04;
enum { WARM_STEPS = 2, CHECKPOINTS = 8 /* in a profile */, RECORDED_STEPS_MAX = 100 };

/* What a child is asked. */
struct request {
    const struct worker_options *options;
    struct worker_setup *setup;
    const char *specification;
    double seconds;
    bool chooses;
    const struct division *division; /* NULL: steps are timed */
};

static struct json_object *failure_new(const struct error *error)
{
    struct json_object *json = json_object_new_object();

    json_set_string(json, "reason", error->text);
    return json;
}

/* The child's answer; without one, an object with the reason. */
static struct json_object *ask(struct json_object *(*work)(void *data), struct request *request)
{
    int status;
    struct json_object *answer = worker_child_ask(work, request, &status);
    struct error error = {0};

    if (answer)
        return answer;
    if (status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        error_set(&error, -ETIME, "it took more than %d seconds to measure", WORKER_CHILD_SECONDS);
    else if (status != -1 && WIFSIGNALED(status))
        error_set(&error, -EIO, "signal %d ended what measured it", WTERMSIG(status));
    else
        error_set(&error, -EIO, "what measured it ended without an answer");
    return failure_new(&error);
}

/* ---- in the child ---- */

/* Steps until the run is asked to stop, and nothing between them. */
static void configure_steps(struct training_config *config)
{
    config->best_metric = NULL;
    config->epochs = JOB_SPEC_EPOCHS_MAX;
    config->steps = 0;
    config->evaluate_every_steps = 0;
    config->evaluate_every_epochs = JOB_SPEC_EPOCHS_MAX;
    config->profile_steps = 0;
    config->progress_seconds = window_seconds;
}

/* As many steps as are asked for, with evaluations and checkpoints. Half of the steps are recorded,
 * if those are not too many. */
static void configure_profile(const struct division *division, struct training_config *config)
{
    config->epochs = 0;
    config->steps = division->steps;
    config->evaluate_every_steps = division->evaluate_every;
    config->evaluate_every_epochs = 0;
    config->checkpoint_directory = division->checkpoints;
    config->checkpoint_every_steps =
        division->steps / CHECKPOINTS > 0 ? division->steps / CHECKPOINTS : 1;
    config->checkpoint_every_epochs = 0;
    config->checkpoint_every_seconds = 0;
    config->checkpoint_keep = 1;
    config->profile_steps = division->steps / 2 > 0 ? division->steps / 2 : 1;
    if (config->profile_steps > RECORDED_STEPS_MAX)
        config->profile_steps = RECORDED_STEPS_MAX;
}

/* Opens the device and plans as a job would, but for what a measurement leaves out. */
static int prepare(const struct request *request, struct training **training, struct error *error)
{
    struct worker_setup *setup = request->setup;
    struct training_config *config = &setup->spec.training;
    struct worker_choice choice;
    int r = worker_setup_vary(request->options, request->specification, setup, error);

    if (r < 0)
        return r;
    setup->test = NULL;
    setup->split.test.count = 0;
    config->early_metric = NULL;
    config->restore_best = false;
    /* the learning rate changes no time, and a warm-up may be longer than what is measured */
    config->schedule.kind = SCHEDULE_CONSTANT;
    config->schedule.warmup_steps = config->schedule_warmup_epochs = 0;
    if (request->division)
        configure_profile(request->division, config);
    else
        configure_steps(config);
    if (request->division && !setup->train->streams &&
        request->division->evaluated < setup->split.validation.count)
        setup->split.validation.count = request->division->evaluated;
    if ((r = worker_convolutions_choose(setup, request->chooses, error)) < 0 ||
        (r = worker_choice_prepare(setup, request->options, NULL, &choice, training, error)) < 0)
        return r;
    return training_allocate(*training, error);
}

/* ---- steps ---- */

enum { WINDOWS_MAX = 256 };

struct timer {
    struct training_requests requests;
    double epoch_samples, wanted;
    double begun;                /* when the run began */
    double since, since_samples; /* the latest report that counts; since 0: it is to come */
    int64_t first_step;
    double seconds;              /* behind the first */
    double windows[WINDOWS_MAX]; /* seconds for a sample between two reports */
    int count;
};

static int on_progress(void *context, const struct training_progress *progress, struct error *error)
{
    struct timer *timer = context;
    double now = clock_monotonic(), samples = progress->epoch * timer->epoch_samples;

    (void)error;
    if (timer->since > 0 && samples > timer->since_samples && timer->count < WINDOWS_MAX) {
        timer->windows[timer->count++] = (now - timer->since) / (samples - timer->since_samples);
        timer->seconds += now - timer->since;
    }
    if (timer->since == 0) {
        if (now - timer->begun < warm_seconds || progress->step < WARM_STEPS)
            return 0;
        timer->first_step = progress->step;
    }
    timer->since = now;
    timer->since_samples = samples;
    if (timer->count == WINDOWS_MAX ||
        (timer->seconds >= timer->wanted &&
         (progress->step - timer->first_step >= 2 || timer->seconds >= 2 * timer->wanted)))
        atomic_store(&timer->requests.stop, 1);
    return 0;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The mean of the fastest quarter, which it moves to the front: what other processes do makes times
 * longer, never shorter. */
static double mean_of_fast(double *seconds, int count, double absent)
{
    int fast = (count + 3) / 4;
    double sum = 0;

    qsort(seconds, (size_t)count, sizeof *seconds, compare_numbers);
    for (int i = 0; i < fast; i++)
        sum += seconds[i];
    return fast ? sum / fast : absent;
}

/* Of what differs from time to time by itself, as writing to a disk does; 0 if there is none. */
static double median(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare_numbers);
    return count ? seconds[count / 2] : 0;
}

static int64_t count_epoch(const struct worker_setup *setup)
{
    const struct training_config *config = &setup->spec.training;
    int64_t count = setup->split.train.count;

    return config->drop_last ? count - count % config->batch : count;
}

static struct json_object *measurement_json(const struct worker_setup *setup, struct timer *timer,
                                            struct training *training)
{
    const struct training_config *config = &setup->spec.training;
    const struct backend_device_info *info = &setup->device_info;
    struct json_object *json = json_object_new_object();
    double data_seconds = NAN;
    bool overlaps = false;
    struct error ignored;

    training_measure_data(training, &data_seconds, &overlaps, &ignored);
    json_set_double(json, "step", mean_of_fast(timer->windows, timer->count, NAN));
    json_set_double(json, "epoch_samples", (double)count_epoch(setup));
    json_set_int(json, "batch", config->batch);
    json_set_int(json, "accumulate", config->accumulate);
    json_set_int(json, "loader_threads", worker_setup_loader_threads(setup, config->batch));
    json_set_int(json, "threads", setup->device_info.threads);
    json_set_string(json, "precision", tensor_type_to_string(setup->precision.type));
    json_set_string(json, "recompute", recompute_kind_to_string(config->recompute.kind));
    json_set_string(json, "device", info->name);
    json_set_string(json, "model", info->model);
    json_set_int(json, "fast_types",
                 info->compute_types & (info->fast_linear_types | info->fast_convolution_types));
    json_set_bool(json, "owns_memory", info->owns_memory);
    json_set_bool(json, "data_on_device", overlaps && data_seconds == 0);
    json_set_double(json, "parameters",
                    (double)session_parameter_count(training_session(training)));
    return json;
}

static struct json_object *time_steps(void *data)
{
    const struct request *request = data;
    struct worker_setup *setup = request->setup;
    const struct checkpoint_texts texts = {0};
    struct timer timer = {.wanted = request->seconds};
    const struct training_events events = {.context = &timer, .progress = on_progress};
    struct training_result result;
    struct training *training = NULL;
    struct error error = {0};

    if (prepare(request, &training, &error) < 0)
        return failure_new(&error);
    timer.epoch_samples = (double)count_epoch(setup);
    timer.begun = clock_monotonic();
    if (training_run(training, &texts, &events, &timer.requests, &result, &error) < 0)
        return failure_new(&error);
    return measurement_json(setup, &timer, training);
}

/* ---- a profile ---- */

/* The seconds of several evaluations, or checkpoints. */
struct occasions {
    double seconds[WINDOWS_MAX];
    double sum; /* up to the latest */
    int count;
};

struct between {
    const struct training *training;
    const struct training_result *result;
    struct occasions evaluations, checkpoints;
    int evaluated, best; /* evaluations, and those after which the best weights were written */
};

/* Adds an occasion after which the sum is `sum`. */
static void occasion_add(struct occasions *occasions, double sum)
{
    if (sum > occasions->sum && occasions->count < WINDOWS_MAX)
        occasions->seconds[occasions->count++] = sum - occasions->sum;
    occasions->sum = sum;
}

static int on_metrics(void *context, int64_t step, double epoch,
                      const struct training_values *values, struct error *error)
{
    struct between *between = context;

    (void)step;
    (void)epoch;
    (void)values;
    (void)error;
    occasion_add(&between->evaluations, between->result->evaluation_seconds);
    between->evaluated++;
    return 0;
}

/* The time of this checkpoint is counted when it is over, and read at the next one. */
static int on_checkpoint(void *context, const struct training_checkpoint *checkpoint,
                         struct error *error)
{
    struct between *between = context;

    (void)error;
    occasion_add(&between->checkpoints,
                 training_profile(between->training)->seconds[PROFILE_CHECKPOINT]);
    between->best += checkpoint->best;
    return 0;
}

/* Divides the time of the recorded steps among what bounds their operators. */
static void add_operators(struct json_object *profile, const struct calibration *calibration,
                          struct json_object *json)
{
    struct json_object *rows = json_get(profile, "operators");
    double seconds = json_get_double(profile, "seconds", 0), least = 0, taken = 0;
    struct advice_time time = {0};

    for (size_t i = 0; rows && i < json_object_array_length(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        double part = json_get_double(row, "seconds", 0);
        bool arithmetic = strcmp(json_get_string(row, "bound", ""), "arithmetic") == 0;

        advice_time_add(&time, part, (double)json_get_int(row, "calls", 0),
                        calibration ? calibration->kernel_seconds : 0, arithmetic);
        if (!arithmetic)
            continue;
        least += part * json_get_double(row, "ceiling_share", 0);
        taken += part;
    }
    time.part[ADVICE_LAUNCH] += json_get_double(profile, "waiting_seconds", 0) +
                                json_get_double(profile, "idle_seconds", 0);
    for (int i = 0; i < ADVICE_BOTTLENECKS; i++)
        json_set_double(json, advice_bottleneck_to_string((enum advice_bottleneck)i),
                        seconds > 0 ? time.part[i] / seconds : 0);
    json_set_double(json, "ceiling_share", taken > 0 ? least / taken : 0);
}

static struct json_object *parts_json(const struct request *request, struct between *between,
                                      double scale, struct error *error)
{
    const struct profile *profile = training_profile(between->training);
    struct worker_setup *setup = request->setup;
    struct worker_calibration calibration = {0};
    struct json_object *json = json_object_new_object(), *steps = json_object_new_object();
    JSON_AUTO struct json_object *table = NULL;
    const double *phase = profile->seconds;
    double computing = phase[PROFILE_FORWARD] + phase[PROFILE_BACKWARD] + phase[PROFILE_UPDATE];

    worker_device_calibration(request->options, &setup->simulation, &setup->device_info,
                              &calibration, error);
    table = worker_profile_json(setup, profile, calibration.known ? &calibration.speeds : NULL, 0,
                                error);
    if (table)
        add_operators(table, calibration.known ? &calibration.speeds : NULL, steps);
    json_set(json, "steps", steps);
    json_set_bool(json, "calibrated", calibration.known);
    json_set_double(json, "data_share",
                    phase[PROFILE_DATA] / (phase[PROFILE_DATA] + phase[PROFILE_OTHER] + computing));
    json_set_double(json, "update_share", computing > 0 ? phase[PROFILE_UPDATE] / computing : 0);
    json_set_double(json, "evaluation",
                    scale *
                        mean_of_fast(between->evaluations.seconds, between->evaluations.count, 0));
    json_set_double(json, "checkpoint",
                    median(between->checkpoints.seconds, between->checkpoints.count));
    json_set_double(json, "best_share",
                    between->evaluated ? (double)between->best / between->evaluated : 0);
    json_set_double(json, "best_evaluations", between->evaluated);
    return json;
}

static struct json_object *run_profiled(void *data)
{
    const struct request *request = data;
    struct worker_setup *setup = request->setup;
    double validated = (double)setup->split.validation.count, scale = 1;
    const struct checkpoint_texts texts = {0};
    struct training_result result = {0};
    struct between between = {.result = &result};
    const struct training_events events = {
        .context = &between, .metrics = on_metrics, .checkpoint = on_checkpoint};
    struct training_requests requests = {0};
    struct training *training = NULL;
    struct error error = {0};

    if (prepare(request, &training, &error) < 0)
        return failure_new(&error);
    if (setup->split.validation.count)
        scale = validated / (double)setup->split.validation.count;
    between.training = training;
    if (training_run(training, &texts, &events, &requests, &result, &error) < 0)
        return failure_new(&error);
    return parts_json(request, &between, scale, &error);
}

/* ---- what the parent reads ---- */

/* How often the specification evaluates and writes checkpoints. */
static struct advice_rhythm rhythm_of(const char *specification, double epoch_samples,
                                      double step_samples)
{
    struct advice_rhythm rhythm = {.epoch_samples = epoch_samples, .step_samples = step_samples};
    struct worker_spec spec;
    struct error ignored;

    if (worker_spec_parse(specification, "what is measured", &spec, &ignored) < 0)
        return rhythm;
    rhythm.run_samples = spec.training.epochs ? (double)spec.training.epochs * epoch_samples
                                              : (double)spec.training.steps * step_samples;
    if (spec.training.steps)
        rhythm.run_samples = fmin(rhythm.run_samples, (double)spec.training.steps * step_samples);
    rhythm.evaluate_steps = spec.training.evaluate_every_steps;
    rhythm.evaluate_epochs = spec.training.evaluate_every_epochs;
    rhythm.checkpoint_steps = spec.training.checkpoint_every_steps;
    rhythm.checkpoint_epochs = spec.training.checkpoint_every_epochs;
    rhythm.checkpoint_seconds = spec.training.checkpoint_every_seconds;
    worker_spec_release(&spec);
    return rhythm;
}

static void copy_text(struct json_object *answer, const char *key, char *text, size_t size)
{
    snprintf(text, size, "%s", json_get_string(answer, key, ""));
}

void measurement_take(const struct worker_options *options, struct worker_setup *setup,
                      const char *specification, double seconds, bool chooses,
                      struct measurement *measurement)
{
    struct request request = {.options = options,
                              .setup = setup,
                              .specification = specification,
                              .seconds = seconds,
                              .chooses = chooses};
    JSON_AUTO struct json_object *answer = ask(time_steps, &request);
    double epoch_samples;

    *measurement =
        (struct measurement){.step = json_get_double(answer, "step", NAN),
                             .batch = json_get_int(answer, "batch", 0),
                             .accumulate = json_get_int(answer, "accumulate", 0),
                             .loader_threads = (int)json_get_int(answer, "loader_threads", 0),
                             .threads = (int)json_get_int(answer, "threads", 0),
                             .fast_types = (unsigned)json_get_int(answer, "fast_types", 0),
                             .owns_memory = json_get_bool(answer, "owns_memory", false),
                             .data_on_device = json_get_bool(answer, "data_on_device", false),
                             .parameters = json_get_double(answer, "parameters", 0)};
    epoch_samples = json_get_double(answer, "epoch_samples", 0);
    /* a step at the end of an epoch has fewer samples, and of small data each step is one */
    measurement->rhythm =
        rhythm_of(specification, epoch_samples,
                  fmin((double)(measurement->batch * measurement->accumulate), epoch_samples));
    copy_text(answer, "precision", measurement->precision, sizeof measurement->precision);
    copy_text(answer, "recompute", measurement->recompute, sizeof measurement->recompute);
    copy_text(answer, "device", measurement->device, sizeof measurement->device);
    copy_text(answer, "model", measurement->model, sizeof measurement->model);
    copy_text(answer, "reason", measurement->reason, sizeof measurement->reason);
}

void measurement_divide(const struct worker_options *options, struct worker_setup *setup,
                        const char *specification, const struct division *division,
                        struct measured_parts *parts)
{
    struct request request = {.options = options,
                              .setup = setup,
                              .specification = specification,
                              .chooses = true,
                              .division = division};
    JSON_AUTO struct json_object *answer = ask(run_profiled, &request);
    struct json_object *shares = json_get(answer, "steps");
    double data = json_get_double(answer, "data_share", 0);

    *parts = (struct measured_parts){.update_share = json_get_double(answer, "update_share", 0),
                                     .ceiling_share = json_get_double(shares, "ceiling_share", 0),
                                     .calibrated = json_get_bool(answer, "calibrated", false)};
    for (int i = 0; i < ADVICE_BOTTLENECKS; i++)
        parts->time.part[i] =
            (1 - data) *
            json_get_double(shares, advice_bottleneck_to_string((enum advice_bottleneck)i), 0);
    parts->time.part[ADVICE_DATA] = data;
    parts->costs.evaluation = json_get_double(answer, "evaluation", 0);
    parts->costs.checkpoint = json_get_double(answer, "checkpoint", 0);
    parts->costs.best_share = json_get_double(answer, "best_share", 0);
    parts->costs.best_evaluations = json_get_double(answer, "best_evaluations", 0);
    copy_text(answer, "reason", parts->reason, sizeof parts->reason);
}
