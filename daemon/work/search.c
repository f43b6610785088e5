/* search.c: see search.h. */
#include "daemon/work/search.h"

#include "daemon/types/job_types.h"
#include "daemon/work/job_preemption.h"
#include "proto/metric_kinds.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const search_algorithm_names[] = {
    [SEARCH_ASHA] = "asha",     [SEARCH_HALVING] = "successive_halving",
    [SEARCH_MEDIAN] = "median", [SEARCH_POPULATION] = "pbt",
    [SEARCH_NONE] = "none",
};
DEFINE_STRING_TABLE(search_algorithm, enum search_algorithm, search_algorithm_names)

static const char *const search_sampler_names[] = {
    [SAMPLER_RANDOM] = "random",
    [SAMPLER_GRID] = "grid",
    [SAMPLER_SOBOL] = "sobol",
    [SAMPLER_TPE] = "tpe",
};
DEFINE_STRING_TABLE(search_sampler, enum search_sampler, search_sampler_names)

enum { MODE_MIN, MODE_MAX };
static const char *const mode_names[] = {[MODE_MIN] = "min", [MODE_MAX] = "max"};
DECLARE_STRING_TABLE(mode, int);
DEFINE_STRING_TABLE(mode, int, mode_names)

/* Beyond this a value is a mistake, and a product of two of them is still exact. */
static const double RESOURCE_MAX = 1e12;

/* ---- reading --------------------------------------------------------------------------------- */

static int fail(struct job_spec_fault *fault, struct error *error, const char *key,
                const char *sentence)
{
    if (fault)
        snprintf(fault->path, sizeof fault->path, "sweep.search%s%s", *key ? "." : "", key);
    return error_set(error, -EINVAL, "search%s%s: %s", *key ? "." : "", key, sentence);
}

/* The algorithms that have a key, as bits. */
enum {
    OF_ASHA = 1 << SEARCH_ASHA,
    OF_HALVING = 1 << SEARCH_HALVING,
    OF_MEDIAN = 1 << SEARCH_MEDIAN,
    OF_POPULATION = 1 << SEARCH_POPULATION,
    OF_NONE = 1 << SEARCH_NONE,
    OF_ALL = OF_ASHA | OF_HALVING | OF_MEDIAN | OF_POPULATION | OF_NONE
};

static const struct {
    const char *name;
    unsigned algorithms;
} keys[] = {
    {"algorithm", OF_ALL},
    {"metric", OF_ALL},
    {"mode", OF_ALL},
    {"max_epochs", OF_ALL},
    {"max_steps", OF_ALL},
    {"sampler", OF_ALL},
    {"trials", OF_ALL},
    {"seed", OF_ALL},
    {"space", OF_ALL},
    {"scramble", OF_ALL},
    {"grace_period", OF_ASHA | OF_HALVING | OF_MEDIAN},
    {"reduction_factor", OF_ASHA | OF_HALVING},
    {"interval", OF_MEDIAN | OF_POPULATION | OF_NONE},
    {"min_trials", OF_MEDIAN},
    {"quantile_fraction", OF_POPULATION},
    {"resample_probability", OF_POPULATION},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

static int keys_check(struct json_object *object, enum search_algorithm algorithm,
                      struct job_spec_fault *fault, struct error *error)
{
    char sentence[320];

    json_object_object_foreach (object, name, value) {
        size_t i = 0;

        (void)value;
        while (i < KEY_COUNT && strcmp(keys[i].name, name) != 0)
            i++;
        if (i < KEY_COUNT && keys[i].algorithms >> algorithm & 1)
            continue;
        if (i < KEY_COUNT) {
            snprintf(sentence, sizeof sentence, "the algorithm %s has no such key",
                     search_algorithm_to_string(algorithm));
        } else {
            size_t used =
                (size_t)snprintf(sentence, sizeof sentence, "there is no such key; a search has");

            for (size_t k = 0; k < KEY_COUNT; k++)
                used += (size_t)snprintf(sentence + used, sizeof sentence - used, "%s %s",
                                         k ? "," : "", keys[k].name);
        }
        return fail(fault, error, name, sentence);
    }
    return 0;
}

/* Reads a word; absent: `*choice` stays. `choices` names the valid ones. */
static int word_read(struct json_object *object, const char *key,
                     int (*from_string)(const char *name), const char *choices, int *choice,
                     struct job_spec_fault *fault, struct error *error)
{
    struct json_object *value = json_get(object, key);
    int found;

    if (!value)
        return 0;
    found = json_object_is_type(value, json_type_string)
                ? from_string(json_object_get_string(value))
                : -1;
    if (found < 0)
        return fail(fault, error, key, choices);
    *choice = found;
    return 0;
}

/* Reads a number; absent: `*number` stays. */
static int number_read(struct json_object *object, const char *key, double from, double to,
                       bool whole, double *number, struct job_spec_fault *fault,
                       struct error *error)
{
    struct json_object *value = json_get(object, key);
    int digits = whole ? 17 : 15; /* 9007199254740992, and 0.1 */
    char sentence[128];
    bool good;

    if (!value)
        return 0;
    good = json_object_is_type(value, json_type_int) ||
           (!whole && json_object_is_type(value, json_type_double));
    if (good)
        *number = json_object_get_double(value);
    if (good && *number >= from && *number <= to)
        return 0;
    snprintf(sentence, sizeof sentence, "it must be a%s number from %.*g to %.*g",
             whole ? " whole" : "", digits, from, digits, to);
    return fail(fault, error, key, sentence);
}

static int metric_read(struct json_object *object, struct search *search,
                       struct job_spec_fault *fault, struct error *error)
{
    const char *metric = json_get_string(object, "metric", "");

    if (!*metric || strlen(metric) >= sizeof search->metric)
        return fail(fault, error, "metric",
                    "it must name the metric that counts, such as validation_accuracy; of a "
                    "command, one that it reports");
    snprintf(search->metric, sizeof search->metric, "%s", metric);
    return 0;
}

/* Reads how long trials are, and where their rungs lie. */
static int rungs_read(struct json_object *object, struct search *search,
                      struct job_spec_fault *fault, struct error *error)
{
    bool epochs = json_get(object, "max_epochs") != NULL;
    int result;

    search->by_steps = json_get(object, "max_steps") != NULL;
    if (epochs && search->by_steps)
        return fail(fault, error, "max_steps", "give either max_epochs or max_steps");
    result = number_read(object, search->by_steps ? "max_steps" : "max_epochs", 1, RESOURCE_MAX,
                         true, &search->most, fault, error);
    if (result == 0)
        result = number_read(object, "grace_period", 1, RESOURCE_MAX, true, &search->grace, fault,
                             error);
    if (result == 0)
        result =
            number_read(object, "interval", 1, RESOURCE_MAX, true, &search->interval, fault, error);
    if (result == 0)
        result = number_read(object, "reduction_factor", 2, 1000, false, &search->reduction, fault,
                             error);
    return result;
}

static int numbers_read(struct json_object *object, struct search *search,
                        struct job_spec_fault *fault, struct error *error)
{
    double trials = 0, seed = 0, least = (double)search->least_trials;
    int result = number_read(object, "trials", 1, SEARCH_TRIALS_MAX, true, &trials, fault, error);

    if (result == 0)
        result = number_read(object, "seed", 0, (double)(1LL << 53), true, &seed, fault, error);
    if (result == 0)
        result =
            number_read(object, "min_trials", 1, SEARCH_TRIALS_MAX, true, &least, fault, error);
    if (result == 0)
        result = number_read(object, "quantile_fraction", 0, 0.5, false, &search->quantile, fault,
                             error);
    if (result == 0)
        result = number_read(object, "resample_probability", 0, 1, false, &search->resampling,
                             fault, error);
    search->trials = (int64_t)trials;
    search->seed = (uint64_t)seed;
    search->least_trials = (int64_t)least;
    return result;
}

static int words_read(struct json_object *object, struct search *search,
                      struct job_spec_fault *fault, struct error *error)
{
    int algorithm = SEARCH_ASHA, sampler = SAMPLER_RANDOM, mode = MODE_MAX;
    int result = word_read(object, "algorithm", search_algorithm_from_string,
                           "it is one of asha, successive_halving, median, pbt, none", &algorithm,
                           fault, error);

    if (result == 0)
        result = word_read(object, "sampler", search_sampler_from_string,
                           "it is one of random, grid, sobol, tpe", &sampler, fault, error);
    if (result == 0)
        result = word_read(object, "mode", mode_from_string,
                           "it is min (a lower metric is better) or max", &mode, fault, error);
    search->algorithm = (enum search_algorithm)algorithm;
    search->sampler = (enum search_sampler)sampler;
    search->falls = mode == MODE_MIN;
    return result;
}

int search_read(struct json_object *object, struct search *search, struct job_spec_fault *fault,
                struct error *error)
{
    struct json_object *scramble = json_get(object, "scramble");
    int result;

    *search = (struct search){.grace = 1,
                              .interval = 1,
                              .reduction = 4,    /* as in the paper on ASHA */
                              .least_trials = 5, /* as Optuna's MedianPruner */
                              .quantile = 0.25,  /* these two as Ray Tune */
                              .resampling = 0.25,
                              .scramble = json_get_bool(object, "scramble", true)};
    if (!json_object_is_type(object, json_type_object))
        return fail(fault, error, "", "it must be an object with metric, space and trials");
    if (scramble && !json_object_is_type(scramble, json_type_boolean))
        return fail(fault, error, "scramble", "it must be true or false");
    result = words_read(object, search, fault, error);
    if (result == 0)
        result = keys_check(object, search->algorithm, fault, error);
    if (result == 0)
        result = metric_read(object, search, fault, error);
    if (result == 0)
        result = rungs_read(object, search, fault, error);
    if (result == 0)
        result = numbers_read(object, search, fault, error);
    if (result < 0)
        return result;
    if (search->sampler != SAMPLER_GRID && search->trials == 0)
        return fail(fault, error, "trials", "how many trials to make, 1 or more");
    if (search->sampler == SAMPLER_GRID && search->trials > 0)
        return fail(fault, error, "trials", "a grid has as many trials as points; leave it out");
    if (search->most > 0 && search->algorithm != SEARCH_POPULATION &&
        search->algorithm != SEARCH_NONE && search->grace >= search->most)
        return fail(fault, error, "grace_period",
                    "it must be below max_epochs (or max_steps); otherwise no trial ever stops "
                    "early");
    if (search->most > 0 && search->algorithm == SEARCH_POPULATION &&
        search->interval >= search->most)
        return fail(fault, error, "interval", "it must be below max_epochs (or max_steps)");
    return 0;
}

static bool rungs_multiply(const struct search *search)
{
    return search->algorithm == SEARCH_ASHA || search->algorithm == SEARCH_HALVING;
}

/* The most rungs that a trial may have, where there are so many (0: not counted yet). */
static uint32_t rungs_allowed(int64_t trials)
{
    return trials > SEARCH_RESULTS_MAX / SEARCH_RUNGS_MAX ? (uint32_t)(SEARCH_RESULTS_MAX / trials)
                                                          : SEARCH_RUNGS_MAX;
}

/* ---- the specification of the trials --------------------------------------------------------- */

bool search_trials_pause(struct json_object *spec)
{
    JSON_AUTO struct json_object *normalised = NULL;
    struct error error;

    if (!job_spec_is_command(spec))
        return true;
    if (job_spec_normalise(spec, &normalised, NULL, &error) < 0)
        return false;
    return job_preemption_read(normalised, JOB_COMMAND).possible;
}

/* Whether a native job's metric improves when it falls. */
static bool metric_falls(const char *metric)
{
    static const struct {
        const char *name;
        unsigned traits;
    } kinds[] = {
#define KIND(upper, name, traits, help) {#name, traits},
        METRIC_KINDS(KIND)
#undef KIND
    };
    const char *name = strchr(metric, '_');

    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name + 1) == 0)
            return kinds[i].traits & METRIC_FALLS;
    return true; /* the loss of one head of several */
}

static struct json_object *section_of(struct json_object *spec, const char *name)
{
    struct json_object *section = json_get(spec, name);

    if (!section) {
        section = json_object_new_object();
        json_set(spec, name, section);
    }
    return section;
}

/* Makes the search's metric the one that chooses a trial's best checkpoint: so it is measured. */
static int metric_watch(struct search *search, struct json_object *spec,
                        struct job_spec_fault *fault, struct error *error)
{
    JSON_AUTO struct json_object *normalised = NULL;
    struct json_object *checkpoint = section_of(spec, "checkpoint");
    const char *best = json_get_string(checkpoint, "best", search->metric);
    struct error wrong;
    char sentence[512];

    if (strcmp(best, search->metric) != 0) {
        snprintf(sentence, sizeof sentence,
                 "the trials' checkpoint.best is %.100s; leave that out, or make both the same",
                 best);
        return fail(fault, error, "metric", sentence);
    }
    json_set_string(checkpoint, "best", search->metric);
    if (job_spec_normalise(spec, &normalised, fault, &wrong) == 0)
        return 0;
    snprintf(sentence, sizeof sentence, "%.400s", wrong.text);
    return fail(fault, error, "metric", sentence);
}

/* The length of a native trial is the search's, and the other way round. */
static int length_agree(struct search *search, struct json_object *object, struct json_object *spec,
                        struct json_object *normalised, struct job_spec_fault *fault,
                        struct error *error)
{
    const char *key = search->by_steps ? "max_steps" : "epochs";
    struct json_object *train = section_of(spec, "train");
    bool said = json_get(train, key) != NULL;
    int64_t length = json_get_int(json_get(normalised, "train"), key, 0);
    char sentence[256];

    if (search->most == 0 && length == JOB_SPEC_EPOCHS_MAX)
        return fail(fault, error, "max_epochs",
                    "train.max_steps ends the trials: give the search max_steps, or the trials "
                    "train.epochs");
    if (search->most == 0) {
        search->most = (double)length;
        json_set_int(object, "max_epochs", length);
    } else if (said && search->most != (double)length) {
        snprintf(sentence, sizeof sentence,
                 "the trials' train.%s is %lld; leave one of them out, or make both the same", key,
                 (long long)length);
        return fail(fault, error, search->by_steps ? "max_steps" : "max_epochs", sentence);
    }
    json_set_int(train, key, (int64_t)search->most);
    if (search->by_steps) { /* its rungs are steps, so it is measured by steps, and steps end it */
        snprintf(sentence, sizeof sentence, "%.0f steps",
                 rungs_multiply(search) ? search->grace : search->interval);
        if (!json_get(train, "evaluate_every"))
            json_set_string(train, "evaluate_every", sentence);
        if (!json_get(train, "epochs"))
            json_set_int(train, "epochs", JOB_SPEC_EPOCHS_MAX);
    }
    return 0;
}

/* The keys that a checkpoint does not depend on, so that they may change in mid-run. */
static const char *const changeable[] = {
    "train.optimizer.lr",
    "train.optimizer.weight_decay",
    "train.optimizer.betas",
    "train.optimizer.eps",
    "train.optimizer.alpha",
    "train.optimizer.rho",
    "train.optimizer.lr_decay",
    "train.optimizer.adamw.lr",
    "train.optimizer.adamw.weight_decay",
    "train.optimizer.momentum_decay",
    "train.label_smoothing",
    "train.clip_norm",
    "train.clip_value",
};
enum { CHANGEABLE_COUNT = sizeof changeable / sizeof *changeable };

/* A command learns of other values by its environment, when it starts again. */
static int variables_check(struct json_object *space, struct job_spec_fault *fault,
                           struct error *error)
{
    char key[160];

    json_object_object_foreach (space, path, value) {
        (void)value;
        if (strncmp(path, "environment.", sizeof "environment." - 1) == 0)
            continue;
        snprintf(key, sizeof key, "space.%.100s", path);
        return fail(fault, error, key,
                    "pbt changes values in mid-run, and of a command these can only be variables: "
                    "environment.NAME");
    }
    return 0;
}

static int changes_check(struct json_object *space, struct job_spec_fault *fault,
                         struct error *error)
{
    char key[160], sentence[640];

    json_object_object_foreach (space, path, value) {
        size_t i = 0, used;

        (void)value;
        while (i < CHANGEABLE_COUNT && strcmp(path, changeable[i]) != 0)
            i++;
        if (i < CHANGEABLE_COUNT)
            continue;
        snprintf(key, sizeof key, "space.%.100s", path);
        used = (size_t)snprintf(sentence, sizeof sentence,
                                "pbt changes values in mid-run, which this key does not allow; "
                                "these do:");
        for (i = 0; i < CHANGEABLE_COUNT; i++)
            used += (size_t)snprintf(sentence + used, sizeof sentence - used, "%s %s", i ? "," : "",
                                     changeable[i]);
        return fail(fault, error, key, sentence);
    }
    return 0;
}

static int native_complete(struct search *search, struct json_object *object,
                           struct json_object *spec, struct job_spec_fault *fault,
                           struct error *error)
{
    JSON_AUTO struct json_object *normalised = NULL;
    int result = job_spec_normalise(spec, &normalised, fault, error);

    if (result == 0 && search->algorithm == SEARCH_POPULATION)
        result = changes_check(json_get(object, "space"), fault, error);
    if (result == 0)
        result = metric_watch(search, spec, fault, error);
    if (result == 0)
        result = length_agree(search, object, spec, normalised, fault, error);
    if (result == 0 && !json_get(object, "mode"))
        json_set_string(object, "mode",
                        mode_to_string(metric_falls(search->metric) ? MODE_MIN : MODE_MAX));
    return result;
}

static int command_complete(struct search *search, struct json_object *object,
                            struct json_object *spec, struct job_spec_fault *fault,
                            struct error *error)
{
    bool needs_length = search->algorithm != SEARCH_MEDIAN && search->algorithm != SEARCH_NONE;

    if (!json_get(object, "mode"))
        return fail(fault, error, "mode",
                    "it must say whether a lower (min) or a higher (max) metric is better");
    if (needs_length && search->most == 0)
        return fail(
            fault, error, "max_epochs",
            "it must say how many epochs the command trains (or max_steps: how many steps)");
    if (search->algorithm == SEARCH_POPULATION && !search_trials_pause(spec))
        return fail(fault, error, "algorithm",
                    "pbt gives a trial what another one has saved, and this command does not say "
                    "that it saves its state below TRAIND_CHECKPOINT_DIRECTORY (preemptible)");
    if (search->algorithm == SEARCH_POPULATION)
        return variables_check(json_get(object, "space"), fault, error);
    if (search->algorithm == SEARCH_HALVING && !search_trials_pause(spec))
        return fail(fault, error, "algorithm",
                    "trials of successive_halving wait for each other, and this command does not "
                    "say that it saves its state (preemptible); asha stops its trials instead");
    return 0;
}

/* Chooses the interval by the trials' length and number where nobody said it, so that the last rung
 * is a trial's end. */
static int results_bound(struct search *search, struct json_object *object, int64_t trials,
                         struct job_spec_fault *fault, struct error *error)
{
    double rungs =
        rungs_multiply(search) ? search_rungs(search) : ceil(search->most / search->interval);
    double allowed = rungs_allowed(trials), least = ceil(search->most / allowed);
    char sentence[320];
    int used;

    if (search->most == 0 || rungs <= allowed)
        return 0;
    if (!rungs_multiply(search) && !json_get(object, "interval")) {
        search->interval = least;
        json_set_int(object, "interval", (int64_t)least);
        return 0;
    }
    if (rungs * (double)trials > SEARCH_RESULTS_MAX)
        used = snprintf(sentence, sizeof sentence,
                        "%lld trials of %.0f rungs each make more than %d results; ",
                        (long long)trials, rungs, SEARCH_RESULTS_MAX);
    else
        used = snprintf(sentence, sizeof sentence, "a trial would have %.0f rungs, of %d at most; ",
                        rungs, SEARCH_RUNGS_MAX);
    if (rungs_multiply(search))
        snprintf(sentence + used, sizeof sentence - (size_t)used,
                 "a longer grace_period or a larger reduction_factor makes fewer rungs");
    else
        snprintf(sentence + used, sizeof sentence - (size_t)used,
                 "an interval of %.0f or more makes fewer rungs", least);
    return fail(fault, error, rungs_multiply(search) ? "grace_period" : "interval", sentence);
}

int search_complete(struct json_object *object, struct json_object *spec, int64_t trials,
                    struct job_spec_fault *fault, struct error *error)
{
    struct search search;
    int result = search_read(object, &search, fault, error);

    if (result == 0) /* before it says how often native trials are measured */
        result = results_bound(&search, object, trials, fault, error);
    if (result == 0)
        result = job_spec_is_command(spec) ? command_complete(&search, object, spec, fault, error)
                                           : native_complete(&search, object, spec, fault, error);
    if (result == 0) /* the trials may have said how long they are */
        result = results_bound(&search, object, trials, fault, error);
    return result < 0 ? result : search_read(object, &search, fault, error);
}

/* ---- rungs ----------------------------------------------------------------------------------- */

double search_rung_at(const struct search *search, uint32_t rung)
{
    double at = rungs_multiply(search) ? floor(search->grace * pow(search->reduction, rung) + 1e-9)
                                       : search->interval * ((double)rung + 1);

    return search->most > 0 && at > search->most ? search->most : at;
}

uint32_t search_rungs(const struct search *search)
{
    uint32_t rungs = 1;

    if (search->most == 0)
        return rungs_allowed(search->trials);
    while (rungs < SEARCH_RUNGS_MAX && search_rung_at(search, rungs - 1) < search->most)
        rungs++;
    return rungs;
}

const char *search_unit(const struct search *search)
{
    return search->by_steps ? "step" : "epoch";
}
