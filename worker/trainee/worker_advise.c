/* worker_advise.c: `traind-worker advise` measures a job as it is and with its settings changed one
 * by one, and says what would make it faster. */
#include "base/memory.h"
#include "proto/advice_view.h"
#include "proto/job_spec.h"
#include "worker/trainee/advice_text.h"
#include "worker/trainee/advice_variants.h"
#include "worker/trainee/worker_child.h"
#include "worker/trainee/worker_signals.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SPECIFICATION_BYTES_MAX = 1024 * 1024,
    GROUP = 3,         /* variants between two measurements of the specification as it is */
    CONFIRMED_MAX = 4, /* findings that are measured again, longer */
    TURNS_MIN = 2,     /* of such a finding and the base; more where other work disturbs them */
    TURNS_MAX = 5,
    PROFILE_STEPS_MIN = 4,
    PROFILE_STEPS_MAX = 200,
    EVALUATIONS_MIN = 8,
    EVALUATIONS_MAX = 48,           /* among at most PROFILE_STEPS_MAX steps */
    PROFILE_EVALUATIONS_MAX = 1000, /* as the job makes them */
    BATCH_FACTOR_MAX = 64
};
/* Seconds of steps of a measurement, of one that is repeated, and of a profile. */
static const double look_seconds = 1, confirm_seconds = 1.2, profile_seconds = 1;
/* An evaluation is measured on as many samples as take about this long. */
static const double evaluation_seconds = 0.4;
/* To write a parameter with the optimizer's states, about: 12 bytes at 500 MB a second. */
static const double checkpoint_seconds = 24e-9;
/* Repeated measurements whose fastest two differ by less are settled. */
static const double settled_noise = 0.05;
/* A batch twice as large must shorten the time by this part, or a larger one is not looked at. */
static const double doubling_saves = 0.08;

struct adviser {
    const struct worker_options *options;
    struct json_object *specification, *normalised; /* owned */
    char *text;                                     /* of the specification; owned */
    struct worker_setup setup;                      /* with its data open, and without a device */
    struct advice_place place;
    struct measurement base;
    struct measured_parts parts;
    struct advice_times base_times; /* seconds for a sample */
    struct advice_variant variants[ADVICE_VARIANTS_MAX];
    struct measurement measured[ADVICE_VARIANTS_MAX];
    struct advice_times times[ADVICE_VARIANTS_MAX];
    bool confirmed[ADVICE_VARIANTS_MAX];
    struct advice_option options_found[ADVICE_VARIANTS_MAX];
    int count;
    struct advice_finding findings[ADVICE_KINDS];
    int found;
};

/* ---- beginning ---- */

/* Reads the specification. The weights that it begins with make no difference to the time. */
static int load(struct adviser *adviser, struct error *error)
{
    char present[PATH_MAX];
    int r = json_parse_file(adviser->options->input, SPECIFICATION_BYTES_MAX,
                            &adviser->specification, error);

    if (r < 0)
        return r;
    if (json_object_is_type(adviser->specification, json_type_object)) {
        if (!json_get(adviser->specification, "directory") && getcwd(present, sizeof present))
            json_set_string(adviser->specification, "directory", present);
        json_object_object_del(adviser->specification, "weights");
    }
    r = job_spec_normalise(adviser->specification, &adviser->normalised, NULL, error);
    if (r < 0)
        return r;
    adviser->text = memory_copy_text(json_text(adviser->specification, NULL));
    return worker_setup_open_data(adviser->options, adviser->text, &adviser->setup, error);
}

static int count_cores(void)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    return sched_getaffinity(0, sizeof cores, &cores) < 0 ? 1 : CPU_COUNT(&cores);
}

/* In a child, whose device ends with it. */
static struct json_object *calibrate(void *data)
{
    struct adviser *adviser = data;
    struct worker_calibration calibration = {0};
    struct worker_setup *setup = &adviser->setup;
    struct error ignored;

    if (worker_setup_vary(adviser->options, adviser->text, setup, &ignored) == 0 &&
        worker_calibration_is_due(&setup->device_info, setup->spec.memory_limit))
        worker_calibration_measure(setup->backend, setup->device, true, &calibration, &ignored);
    return json_object_new_object();
}

/* ---- measuring ---- */

static double fastest_base(const struct adviser *adviser)
{
    return adviser->base_times.fastest;
}

/* Measures the specification as it is. */
static void measure_base(struct adviser *adviser, double seconds)
{
    struct measurement measurement;

    measurement_take(adviser->options, &adviser->setup, adviser->text, seconds, true, &measurement);
    if (adviser->base_times.count == 0)
        adviser->base = measurement;
    advice_times_add(&adviser->base_times, measurement.step);
    adviser->base.step = advice_times_step(&adviser->base_times);
}

/* Measures a variant, once more if it was measured before. Its fastest measurement counts; one that
 * fails after others takes nothing away. */
static void measure_variant(struct adviser *adviser, int index, double seconds, bool chooses)
{
    struct measurement measurement = {.step = NAN};
    struct advice_times *times = &adviser->times[index];
    struct error error = {0};
    AUTO_FREE char *text =
        advice_variant_text(adviser->specification, adviser->variants[index].changes, &error);

    if (text)
        measurement_take(adviser->options, &adviser->setup, text, seconds, chooses, &measurement);
    else
        snprintf(measurement.reason, sizeof measurement.reason, "%.*s",
                 MEASUREMENT_REASON_BYTES - 1, error.text);
    if (times->count == 0 || measurement.step > 0)
        adviser->measured[index] = measurement;
    advice_times_add(times, measurement.step);
    adviser->measured[index].step = advice_times_step(times);
    adviser->options_found[index] =
        (struct advice_option){.kind = adviser->variants[index].kind,
                               .step = advice_times_step(times),
                               .rhythm = adviser->measured[index].rhythm,
                               .noise = advice_times_noise(times)};
}

/* Measures the variants from `first` on, with the base behind each group. Those that may pay are
 * measured twice: the base has more chances, too, to find the machine quiet. */
static void measure_variants(struct adviser *adviser, int first)
{
    const double hopeless = 1.3;

    for (int look = 0; look < 2; look++) {
        for (int i = first; i < adviser->count; i++) {
            if (look > 0 && !(adviser->measured[i].step < hopeless * fastest_base(adviser)))
                continue;
            measure_variant(adviser, i, look_seconds, false);
            if ((i - first) % GROUP == GROUP - 1)
                measure_base(adviser, look_seconds);
        }
    }
}

/* Doubles the batch as long as that pays. It ends after two doublings in a row that do not pay,
 * each measured twice: one measurement may have been beside other work. */
static void measure_batches(struct adviser *adviser)
{
    double least = fastest_base(adviser);
    int in_vain = 0;

    for (int64_t factor = 2; factor <= BATCH_FACTOR_MAX && in_vain < 2; factor *= 2) {
        int index = adviser->count;
        double step;

        if (index == ADVICE_VARIANTS_MAX ||
            !advice_variant_of_batch(adviser->normalised, &adviser->base, &adviser->place, factor,
                                     &adviser->variants[index]))
            return;
        adviser->count++;
        measure_variant(adviser, index, look_seconds, false);
        if (adviser->measured[index].step >= (1 - doubling_saves) * least)
            measure_variant(adviser, index, look_seconds, false);
        step = adviser->measured[index].step;
        if (step < (1 - doubling_saves) * least)
            in_vain = 0;
        else
            in_vain++;
        least = fmin(least, step);
    }
}

static struct advice_base base_of(const struct adviser *adviser)
{
    struct advice_base base = {.costs = adviser->parts.costs,
                               .rhythm = adviser->base.rhythm,
                               .noise = advice_times_noise(&adviser->base_times),
                               .data_share =
                                   adviser->base.loader_threads || adviser->parts.reason[0]
                                       ? INFINITY
                                       : adviser->parts.time.part[ADVICE_DATA]};

    base.costs.step = fastest_base(adviser);
    return base;
}

/* Rarer evaluations and checkpoints follow from what one takes. */
static bool is_worked_out(const struct adviser *adviser, int index)
{
    return adviser->variants[index].kind == ADVICE_EVALUATE ||
           adviser->variants[index].kind == ADVICE_CHECKPOINT;
}

/* Finds what pays, `with_noise` only what pays in spite of it. What is worked out has the steps of
 * the base, which may have been measured again since. */
static void find(struct adviser *adviser, bool with_noise)
{
    struct advice_option options[ADVICE_VARIANTS_MAX];
    struct advice_base base = base_of(adviser);

    for (int i = 0; i < adviser->count; i++) {
        if (is_worked_out(adviser, i))
            adviser->options_found[i].step = base.costs.step;
        options[i] = adviser->options_found[i];
        if (!with_noise)
            options[i].noise = 0;
    }
    if (!with_noise)
        base.noise = 0;
    adviser->found = advice_find(&base, options, adviser->count, adviser->findings);
}

static bool is_settled(const struct advice_times *times)
{
    return times->count >= TURNS_MIN && advice_times_noise(times) <= settled_noise;
}

/* Measures an option again, in turns with the base, and longer: until the fastest two of each
 * agree, which they do as soon as nothing disturbed them. */
static void confirm_option(struct adviser *adviser, int index)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (turn >= TURNS_MIN && is_settled(&adviser->base_times) &&
            is_settled(&adviser->times[index]))
            break;
        measure_base(adviser, confirm_seconds);
        measure_variant(adviser, index, confirm_seconds, true);
    }
    adviser->confirmed[index] = true;
}

/* Confirms the best findings, and then those that are the best only because of what that told. */
static void confirm(struct adviser *adviser)
{
    for (int round = 0; round < 2; round++) {
        int left = CONFIRMED_MAX;

        find(adviser, round > 0);
        for (int i = 0; i < adviser->found && left > 0; i++) {
            const int index = adviser->findings[i].option;

            if (is_worked_out(adviser, index) || adviser->confirmed[index])
                continue;
            confirm_option(adviser, index);
            left--;
        }
    }
    find(adviser, true);
}

/* ---- evaluations and checkpoints ---- */

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)))
        unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    rmdir(path);
}

/* Steps between two evaluations of the job. */
static int64_t evaluation_interval(const struct advice_rhythm *rhythm)
{
    double epoch = ceil(rhythm->epoch_samples / rhythm->step_samples);

    return rhythm->evaluate_steps ? rhythm->evaluate_steps
                                  : (int64_t)((double)rhythm->evaluate_epochs * epoch);
}

/* How many steps are profiled, and how often they are evaluated: as often as the job does it, if
 * that fits. The farther apart evaluations are, and the shorter a job trains, the more of them are
 * the best. */
static struct division plan_division(const struct adviser *adviser, const char *folder)
{
    const struct measurement *base = &adviser->base;
    double update = base->step * base->rhythm.step_samples;
    double evaluated = fmax(evaluation_seconds / base->step, 4 * (double)base->batch);
    double samples = fmin(evaluated, (double)adviser->setup.split.validation.count);
    /* a third of a step is its forward part, and the best weights are written */
    double seconds = samples * base->step / 3 + base->parameters * checkpoint_seconds;
    int64_t evaluations =
        (int64_t)fmin(fmax(profile_seconds / seconds, EVALUATIONS_MIN), EVALUATIONS_MAX);
    int64_t present = evaluation_interval(&base->rhythm);
    double fitting = profile_seconds / ((double)present * update + seconds);
    struct division division = {
        .steps =
            (int64_t)fmin(fmax(profile_seconds / update, PROFILE_STEPS_MIN), PROFILE_STEPS_MAX),
        .evaluated = (int64_t)fmin(evaluated, 1e15),
        .checkpoints = folder};

    division.evaluate_every = division.steps > evaluations ? division.steps / evaluations : 1;
    if (fitting >= EVALUATIONS_MIN || (present && present < division.evaluate_every)) {
        evaluations = (int64_t)fmin(fmax(fitting, EVALUATIONS_MIN), PROFILE_EVALUATIONS_MAX);
        division.evaluate_every = present;
        division.steps = evaluations * present;
    }
    return division;
}

static void divide(struct adviser *adviser)
{
    const char *chosen = getenv("TMPDIR");
    struct division division;
    char path[PATH_MAX];
    static struct training_requests requests; /* as worker_signals_serve() wants it */

    /* who ends this waits until the folder is removed: seconds, and less if the child ends, too */
    worker_signals_serve(&requests);
    snprintf(path, sizeof path, "%s/traind-advise.XXXXXX", chosen && *chosen ? chosen : "/tmp");
    if (!mkdtemp(path)) {
        snprintf(adviser->parts.reason, sizeof adviser->parts.reason,
                 "cannot make a folder in %.200s: %s; set TMPDIR to another one",
                 chosen && *chosen ? chosen : "/tmp", strerror(errno));
    } else {
        division = plan_division(adviser, path);
        measurement_divide(adviser->options, &adviser->setup, adviser->text, &division,
                           &adviser->parts);
        remove_folder(path);
    }
    worker_signals_serve(NULL);
    if (atomic_load(&requests.stop)) {
        kill(getpid(), SIGTERM);
        pause(); /* until the thread that takes signals has it */
    }
}

/* Adds an option that is worked out. Takes `changes`. */
static void add_interval(struct adviser *adviser, enum advice_kind kind,
                         const struct advice_rhythm *rhythm, struct json_object *changes)
{
    double step = fastest_base(adviser);
    int index = adviser->count;

    if (index == ADVICE_VARIANTS_MAX) {
        json_object_put(changes);
        return;
    }
    adviser->variants[index] = (struct advice_variant){kind, changes};
    adviser->measured[index] = (struct measurement){.step = step};
    adviser->options_found[index] =
        (struct advice_option){.kind = kind, .step = step, .rhythm = *rhythm};
    adviser->count++;
}

/* Adds what follows from the time of an evaluation and of a checkpoint without being tried. */
static void add_intervals(struct adviser *adviser)
{
    struct advice_base base = base_of(adviser);
    struct advice_rhythm rhythm;
    enum advice_kind kind;

    if (advice_evaluate_seldom(&base, &rhythm))
        add_interval(adviser, ADVICE_EVALUATE, &rhythm, advice_evaluate_changes(&rhythm));
    if (advice_checkpoint_seldom(&base, &rhythm))
        add_interval(adviser, ADVICE_CHECKPOINT, &rhythm, advice_checkpoint_changes(&rhythm));
    if (advice_both_seldom(&base, &rhythm, &kind)) {
        struct json_object *changes = advice_evaluate_changes(&rhythm);
        JSON_AUTO struct json_object *more = advice_checkpoint_changes(&rhythm);

        json_object_object_foreach (more, key, value) {
            json_set(changes, key, json_object_get(value));
        }
        add_interval(adviser, kind, &rhythm, changes);
    }
}

static int measure(struct adviser *adviser, struct error *error)
{
    int status;

    adviser->place = (struct advice_place){.cores = count_cores(),
                                           .threads_are_given = adviser->options->threads > 0,
                                           .samples = adviser->setup.split.train.count};
    json_object_put(worker_child_ask(calibrate, adviser, &status));
    measure_base(adviser, look_seconds);
    if (adviser->base_times.count == 0)
        return error_set(error, -EINVAL, "%s", adviser->base.reason);
    divide(adviser);
    measure_base(adviser, look_seconds);
    measure_batches(adviser);
    adviser->count += advice_variants_list(adviser->normalised, &adviser->base, &adviser->place,
                                           adviser->variants + adviser->count);
    return 0;
}

/* ---- the report ---- */

static struct advice_facts facts_of(const struct adviser *adviser)
{
    struct json_object *optimizer = json_get(json_get(adviser->normalised, "train"), "optimizer");
    struct advice_base base = base_of(adviser);
    struct advice_facts facts = {.base = &adviser->base,
                                 .parts = &adviser->parts,
                                 .cost = advice_cost_of(&base.costs, &base.rhythm),
                                 .rhythm = base.rhythm,
                                 .cores = adviser->place.cores,
                                 .optimizer = json_get_string(optimizer, "name", ""),
                                 .learning_rate = json_get_double(optimizer, "lr", 0)};

    for (int i = 0; i < ADVICE_EVALUATION; i++)
        facts.time.part[i] = adviser->parts.time.part[i] * base.costs.step / facts.cost.all;
    facts.time.part[ADVICE_EVALUATION] = facts.cost.evaluation / facts.cost.all;
    facts.time.part[ADVICE_CHECKPOINTS] = facts.cost.checkpoints / facts.cost.all;
    return facts;
}

static struct json_object *finding_json(const struct adviser *adviser,
                                        const struct advice_facts *facts,
                                        const struct advice_finding *finding)
{
    const struct advice_option *option = &adviser->options_found[finding->option];
    const struct measurement *measured = &adviser->measured[finding->option];
    struct json_object *json = json_object_new_object(), *consider = json_object_new_object();
    char text[ADVICE_TEXT_BYTES];

    json_set_string(json, "problem", advice_kind_to_string(option->kind));
    json_set_string(json, "cause", advice_cause(facts, option, measured, text));
    json_set(json, "changes", json_object_get(adviser->variants[finding->option].changes));
    json_set_double(json, "gain", finding->gain);
    json_set_double(json, "saved", finding->saved);
    json_set_string(json, "result", advice_result(facts, option, measured, text));
    if (option->kind == ADVICE_BATCH)
        json_set_double(consider, "train.optimizer.lr",
                        advice_learning_rate(facts->learning_rate,
                                             (double)measured->batch / (double)facts->base->batch,
                                             strcmp(facts->optimizer, "sgd") == 0));
    json_set(json, "consider", consider);
    return json;
}

static struct json_object *tried_json(const struct adviser *adviser)
{
    struct json_object *list = json_object_new_array();

    for (int i = 0; i < adviser->count; i++) {
        const struct advice_option *option = &adviser->options_found[i];
        struct json_object *json = json_object_new_object();

        json_set_string(json, "problem", advice_kind_to_string(option->kind));
        json_set(json, "changes", json_object_get(adviser->variants[i].changes));
        if (adviser->measured[i].batch)
            json_set_double(json, "step_gain", fastest_base(adviser) / option->step);
        if (adviser->measured[i].reason[0])
            json_set_string(json, "reason", adviser->measured[i].reason);
        json_object_array_add(list, json);
    }
    return list;
}

static struct json_object *measured_json(const struct adviser *adviser,
                                         const struct advice_facts *facts)
{
    const struct measurement *base = &adviser->base;
    const struct advice_costs *costs = &adviser->parts.costs;
    struct json_object *json = json_object_new_object();

    json_set_double(json, "samples_per_second", 1 / facts->cost.all);
    json_set_double(json, "step_seconds", base->step * base->rhythm.step_samples);
    json_set_double(json, "step_samples", base->rhythm.step_samples);
    json_set_double(json, "epoch_seconds", facts->cost.all * base->rhythm.epoch_samples);
    json_set_double(json, "evaluation_seconds", costs->evaluation);
    json_set_double(json, "checkpoint_seconds", costs->checkpoint);
    json_set_double(json, "best_share", costs->best_share);
    json_set_double(json, "update_share", adviser->parts.update_share);
    json_set_double(json, "ceiling_share", adviser->parts.ceiling_share);
    json_set_double(json, "noise", advice_times_noise(&adviser->base_times));
    json_set_double(json, "least_saved",
                    advice_least_saved(advice_times_noise(&adviser->base_times)));
    json_set_int(json, "batch_size", base->batch);
    json_set_int(json, "accumulate", base->accumulate);
    json_set_string(json, "precision", base->precision);
    json_set_string(json, "recompute", base->recompute);
    json_set_int(json, "threads", base->threads);
    json_set_int(json, "loader_threads", base->loader_threads);
    json_set_double(json, "parameters", base->parameters);
    return json;
}

static struct json_object *report_new(const struct adviser *adviser)
{
    struct json_object *json = json_object_new_object(), *time = json_object_new_object();
    struct json_object *list = json_object_new_array(), *notes = json_object_new_array();
    struct advice_facts facts = facts_of(adviser);
    bool is_divided = !adviser->parts.reason[0];
    char text[ADVICE_TEXT_BYTES];

    json_set_string(json, "job", json_get_string(adviser->normalised, "name", NULL));
    json_set_string(json, "device", adviser->base.device);
    json_set_string(json, "model", adviser->base.model);
    json_set(json, "measured", measured_json(adviser, &facts));
    for (int i = 0; i < ADVICE_BOTTLENECKS; i++)
        json_set_double(time, advice_bottleneck_to_string((enum advice_bottleneck)i),
                        facts.time.part[i]);
    json_set(json, "time", time);
    json_set_string(json, "bottleneck",
                    is_divided ? advice_bottleneck_to_string(advice_time_largest(&facts.time))
                               : NULL);
    json_set_string(json, "bound", is_divided ? advice_bound(&facts, text) : NULL);
    for (int i = 0; i < adviser->found; i++)
        json_object_array_add(list, finding_json(adviser, &facts, &adviser->findings[i]));
    json_set(json, "advice", list);
    json_set(json, "tried", tried_json(adviser));
    if (!is_divided) {
        AUTO_FREE char *note = memory_format("what the time goes into could not be measured: %s",
                                             adviser->parts.reason);

        json_object_array_add(notes, json_object_new_string(note));
    }
    json_set(json, "notes", notes);
    return json;
}

/* ---- the command ---- */

static void release(struct adviser *adviser)
{
    for (int i = 0; i < adviser->count; i++)
        advice_variant_release(&adviser->variants[i]);
    worker_setup_release(&adviser->setup);
    json_object_put(adviser->normalised);
    json_object_put(adviser->specification);
    free(adviser->text);
    free(adviser);
}

int worker_advise(const struct worker_options *options)
{
    struct adviser *adviser = memory_zero(sizeof *adviser);
    struct error error = {0};
    int r;

    adviser->options = options;
    r = load(adviser, &error);
    if (r == 0)
        r = measure(adviser, &error);
    if (r < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
    } else {
        JSON_AUTO struct json_object *report = NULL;
        int first = 0;

        while (first < adviser->count && adviser->variants[first].kind == ADVICE_BATCH)
            first++;
        measure_variants(adviser, first);
        add_intervals(adviser);
        confirm(adviser);
        report = report_new(adviser);
        if (options->json)
            json_print(report, stdout);
        else
            advice_print(report, stdout);
    }
    release(adviser);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
