/* recipe_measure.c: see recipe_measure.h. */
#include "worker/trainee/recipe_measure.h"

#include "base/clock.h"
#include "base/text.h"
#include "worker/trainee/recipe_boosting.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    WAYS_MAX = 4,
    SECONDS_DEFAULT = 300,
    PARTS = RECIPE_LOOK, /* that the rows are cut into, again for every so many folds */
    ROWS_MIN = 4 * PARTS,
    SENTENCE_BYTES = 400,
    VALUE_BYTES = 64
};

/* A setting and its values, the usual one first. NULL: the key is left out. */
struct recipe_setting {
    const char *section[3]; /* objects on the way to the key */
    const char *key;
    const char *values[WAYS_MAX];
    const char *plain; /* how the first one is called */
    bool of_numbers;   /* only tables with columns of numbers have it */
    bool of_classes;   /* only where classes are predicted */
};

static const struct recipe_setting recipe_settings[] = {
    /* weights that are right more often may be far too sure, so that their loss is larger */
    {{"checkpoint"},
     "best",
     {NULL, "\"validation_accuracy\""},
     "validation_loss",
     .of_classes = true},
    {{"data", "train"}, "bins", {NULL, "8", "32"}, "none", .of_numbers = true},
    {{"model"}, "dropout", {NULL, "0.1", "0.3"}, "none", .of_numbers = false},
    {{"model"}, "hidden", {"[256, 256]", "[64]"}, "[256, 256]", .of_numbers = false},
};
enum { SETTINGS = sizeof recipe_settings / sizeof *recipe_settings };

struct measure {
    const struct worker_options *options;
    struct json_object *spec;    /* the best so far; owned */
    struct recipe_scores scores; /* of it */
    struct json_object *plain;   /* the specification without what is compared; owned */
    struct json_object *wanted;  /* the caller's, which gets what was compared to the end */
    bool is_class, has_numbers;
    double begun, deadline; /* CLOCK_MONOTONIC */
    double longest;         /* seconds of a training */
    int trainings;
    bool is_complete;
    struct json_object *sentences, *settings, *boosting; /* owned; NULL: not compared */
};

static void say(struct measure *measure, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(struct measure *measure, const char *format, ...)
{
    char text[SENTENCE_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_object_array_add(measure->sentences, json_object_new_string(text));
}

/* "71.2%" of an accuracy, "0.712" of R2. */
static const char *score_format(const struct measure *measure, double score, char text[32])
{
    snprintf(text, 32, measure->is_class ? "%.1f%%" : "%.3f",
             measure->is_class ? 100 * score : score);
    return text;
}

static const char *score_name(const struct measure *measure)
{
    return measure->is_class ? "accuracy" : "R2";
}

/* ---- the trainings ---- */

/* Scores the specification on further folds, up to `folds`. -ETIME: there is not enough time. */
static int score(struct measure *measure, struct json_object *spec, int folds,
                 struct recipe_scores *scores, struct error *error)
{
    while (scores->count < folds) {
        double begun = clock_monotonic();
        struct recipe_trial trial = {.options = measure->options,
                                     .specification = spec,
                                     .folds = PARTS,
                                     .fold = scores->count % PARTS,
                                     .seed =
                                         measure->options->seed + (uint64_t)(scores->count / PARTS),
                                     .deadline = measure->deadline};
        int r = measure->longest > measure->deadline - begun
                    ? error_set(error, -ETIME, "the time is over")
                    : recipe_trial_run(&trial, &scores->score[scores->count], error);

        measure->longest = fmax(measure->longest, clock_monotonic() - begun);
        if (r < 0)
            return r;
        measure->trainings++;
        scores->count++;
    }
    return 0;
}

/* Trains one way as often as it takes to tell it from the best so far, which may be trained further
 * for it. */
static int compare(struct measure *measure, struct json_object *spec, struct recipe_scores *scores,
                   struct recipe_difference *difference, struct error *error)
{
    int r = score(measure, spec, RECIPE_LOOK, scores, error);

    if (r < 0)
        return r;
    *difference = recipe_compare(scores, &measure->scores);
    if (!recipe_is_open(difference))
        return 0;
    r = score(measure, measure->spec, RECIPE_FOLDS, &measure->scores, error);
    if (r == 0)
        r = score(measure, spec, RECIPE_FOLDS, scores, error);
    if (r == 0)
        *difference = recipe_compare(scores, &measure->scores);
    return r;
}

/* ---- settings ---- */

/* The object that has the setting's key. Where it is absent it is made, or NULL if not `makes`. */
static struct json_object *find_section(const struct recipe_setting *setting,
                                        struct json_object *spec, bool makes)
{
    struct json_object *section = spec;

    for (int i = 0; i < 3 && section && setting->section[i]; i++) {
        if (makes && !json_get(section, setting->section[i]))
            json_set(section, setting->section[i], json_object_new_object());
        section = json_get(section, setting->section[i]);
    }
    return section;
}

static void set_value(const struct recipe_setting *setting, int value, struct json_object *spec)
{
    const char *text = setting->values[value];
    struct json_object *section = find_section(setting, spec, text);

    if (text)
        json_set(section, setting->key, json_tokener_parse(text));
    else if (section)
        json_object_object_del(section, setting->key);
}

static const char *value_name(const struct recipe_setting *setting, int value)
{
    return value ? setting->values[value] : setting->plain;
}

static void key_format(const struct recipe_setting *setting, char text[VALUE_BYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < 3 && setting->section[i]; i++)
        used += (size_t)snprintf(text + used, VALUE_BYTES - used, "%s.", setting->section[i]);
    snprintf(text + used, VALUE_BYTES - used, "%s", setting->key);
}

static struct json_object *way_new(const struct recipe_setting *setting, int value,
                                   const struct recipe_scores *scores,
                                   const struct recipe_difference *difference)
{
    struct json_object *way = json_object_new_object();

    json_set(way, "value",
             setting->values[value] ? json_tokener_parse(setting->values[value]) : NULL);
    json_set_double(way, "score", recipe_mean(scores));
    json_set_int(way, "folds", scores->count);
    if (difference) {
        json_set_double(way, "difference", difference->mean);
        json_set_double(way, "error", difference->error);
    }
    return way;
}

/* The way that was chosen last, and the one whose place it took, by the folds that told them
 * apart. */
struct winner {
    int value, beaten;
    struct recipe_scores scores, beaten_scores;
    struct recipe_difference difference;
};

/* Says which way won, and by how much, or that none did. */
static void tell(struct measure *measure, const struct recipe_setting *setting,
                 const struct winner *winner)
{
    char key[VALUE_BYTES], best[32], other[32], by[32], noise[32];

    key_format(setting, key);
    score_format(measure, recipe_mean(winner->value ? &winner->scores : &measure->scores), best);
    if (!winner->value)
        say(measure, "%s stays %s (%s %s): no other value is better by more than a standard error",
            key, setting->plain, score_name(measure), best);
    else
        say(measure, "%s is %s: %s %s against %s with %s, better by %s (standard error %s)", key,
            value_name(setting, winner->value), score_name(measure), best,
            score_format(measure, recipe_mean(&winner->beaten_scores), other),
            value_name(setting, winner->beaten), score_format(measure, winner->difference.mean, by),
            score_format(measure, winner->difference.error, noise));
}

/* One line of progress. */
static void report(const struct measure *measure, const struct recipe_setting *setting, int value,
                   const struct recipe_scores *scores)
{
    char key[VALUE_BYTES], shown[32];

    key_format(setting, key);
    fprintf(stderr, "%s %s: %s %s, %d trainings, %.0f s\n", key, value_name(setting, value),
            score_name(measure), score_format(measure, recipe_mean(scores), shown), scores->count,
            clock_monotonic() - measure->begun);
}

/* A way that does not train is worse than one that does. */
static int try_value(struct measure *measure, const struct recipe_setting *setting, int value,
                     struct recipe_scores *scores, struct recipe_difference *difference,
                     struct json_object **spec, struct error *error)
{
    int r;

    *scores = (struct recipe_scores){0};
    *difference = (struct recipe_difference){.mean = -INFINITY};
    if (json_object_deep_copy(measure->spec, spec, NULL) < 0)
        return error_no_memory(error, "the specification");
    set_value(setting, value, *spec);
    r = compare(measure, *spec, scores, difference, error);
    if (r < 0 && r != -ETIME) {
        *difference = (struct recipe_difference){.mean = -INFINITY};
        r = 0;
    }
    return r;
}

static void keep_setting(struct measure *measure, const struct recipe_setting *setting, int chosen,
                         struct json_object *ways)
{
    struct json_object *entry = json_object_new_object();
    char key[VALUE_BYTES];

    key_format(setting, key);
    json_set_string(entry, "key", key);
    json_set(entry, "chosen",
             setting->values[chosen] ? json_tokener_parse(setting->values[chosen]) : NULL);
    json_set(entry, "ways", json_object_get(ways));
    json_object_array_add(measure->settings, entry);
    set_value(setting, chosen, measure->wanted);
}

/* Compares the values of a setting, the plainest first. -ETIME: nothing is chosen. */
static int choose_value(struct measure *measure, const struct recipe_setting *setting,
                        struct error *error)
{
    JSON_AUTO struct json_object *ways = json_object_new_array();
    struct winner winner = {0};

    json_object_array_add(ways, way_new(setting, 0, &measure->scores, NULL));
    for (int value = 1; value < WAYS_MAX && setting->values[value]; value++) {
        JSON_AUTO struct json_object *spec = NULL;
        struct recipe_scores scores;
        struct recipe_difference difference;
        int r = try_value(measure, setting, value, &scores, &difference, &spec, error);

        if (r < 0)
            return r;
        report(measure, setting, value, &scores);
        json_object_array_add(ways, way_new(setting, value, &scores, &difference));
        if (!recipe_is_better(&difference))
            continue;
        winner = (struct winner){value, winner.value, scores, measure->scores, difference};
        if (winner.beaten_scores.count > scores.count)
            winner.beaten_scores.count = scores.count;
        set_value(setting, value, measure->spec);
        measure->scores = scores;
    }
    tell(measure, setting, &winner);
    keep_setting(measure, setting, winner.value, ways);
    return 0;
}

/* ---- the measurement ---- */

/* Says what was not compared, and how long it takes: of each value the longest possible. */
static void tell_late(struct measure *measure, const struct recipe_setting *setting)
{
    char key[VALUE_BYTES], needed[48], limit[48];
    double seconds = 2 * RECIPE_FOLDS * measure->longest;

    key_format(setting, key);
    say(measure,
        "the time limit of %s did not suffice for %s: to compare one value takes up to %s; give "
        "more --seconds",
        text_format_duration(measure->deadline - measure->begun, limit, sizeof limit), key,
        text_format_duration(seconds, needed, sizeof needed));
}

static bool applies(const struct measure *measure, const struct recipe_setting *setting)
{
    return (!setting->of_numbers || measure->has_numbers) &&
           (!setting->of_classes || measure->is_class);
}

static int run_settings(struct measure *measure, struct error *error)
{
    int r = 0;

    for (int i = 0; i < SETTINGS && r == 0; i++) {
        const struct recipe_setting *setting = &recipe_settings[i];

        if (!applies(measure, setting))
            continue;
        r = choose_value(measure, setting, error);
        if (r == -ETIME)
            tell_late(measure, setting);
    }
    return r;
}

/* ---- beside trees ---- */

/* "; cuts of "age" (61%), "town=Oslo" (12%) gain it the most" */
static void columns_format(const struct recipe_boosting *boosting, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < RECIPE_COLUMNS && boosting->columns[i][0] && used < size; i++) {
        char shown[4 * RECIPE_COLUMN_BYTES];

        used += (size_t)snprintf(text + used, size - used, "%s\"%s\" (%.0f%%)",
                                 i ? ", " : "; it gains most by cuts of ",
                                 text_escape_controls(boosting->columns[i], shown, sizeof shown),
                                 100 * boosting->shares[i]);
    }
}

/* Says how gradient boosting compares: one model is clearly better if the difference is more than
 * two standard errors. */
static void tell_boosting(struct measure *measure, const struct recipe_boosting *boosting,
                          const struct recipe_difference *difference)
{
    char columns[SENTENCE_BYTES / 2], trees[32], network[32], by[32], noise[32];
    const char *name = score_name(measure);

    score_format(measure, recipe_mean(&boosting->scores), trees);
    score_format(measure, recipe_mean(&measure->scores), network);
    score_format(measure, fabs(difference->mean), by);
    score_format(measure, difference->error, noise);
    columns_format(boosting, columns, sizeof columns);
    if (recipe_is_open(difference))
        say(measure,
            "gradient boosting of trees has %s %s on the same rows and the network %s: they do not "
            "tell which is better (difference %s, standard error %s)",
            name, trees, network, by, noise);
    else if (difference->mean > 0)
        say(measure,
            "a network is weak here: gradient boosting of trees has %s %s on the same rows and the "
            "network %s, a difference of %s (standard error %s)%s",
            name, trees, network, by, noise, columns);
    else
        say(measure,
            "a network is the better model: gradient boosting of trees has %s %s on the same rows "
            "and the network %s, a difference of %s (standard error %s)",
            name, trees, network, by, noise);
}

/* Scores trees on the folds of what was chosen. */
static int compare_boosting(struct measure *measure, struct error *error)
{
    const struct recipe_trial trial = {.options = measure->options,
                                       .specification = measure->plain,
                                       .folds = PARTS,
                                       .seed = measure->options->seed,
                                       .deadline = measure->deadline};
    struct recipe_boosting boosting;
    struct recipe_difference difference;
    int r = recipe_boosting_run(&trial, measure->scores.count, &boosting, error);

    if (r < 0) {
        say(measure, "gradient boosting of trees was not compared: %s", error->text);
        return r == -ENOENT ? 0 : -ETIME; /* what was chosen stands */
    }
    difference = recipe_compare(&boosting.scores, &measure->scores);
    measure->boosting = json_object_new_object();
    json_set_double(measure->boosting, "score", recipe_mean(&boosting.scores));
    json_set_double(measure->boosting, "difference", difference.mean);
    json_set_double(measure->boosting, "error", difference.error);
    tell_boosting(measure, &boosting, &difference);
    return 0;
}

/* ---- the command's part ---- */

static struct json_object *report_new(const struct measure *measure)
{
    struct json_object *json = json_object_new_object();

    json_set_string(json, "score", measure->is_class ? "accuracy" : "r2");
    json_set_double(json, "seconds", clock_monotonic() - measure->begun);
    json_set_int(json, "trainings", measure->trainings);
    json_set_bool(json, "is_complete", measure->is_complete);
    json_set(json, "sentences", json_object_get(measure->sentences));
    json_set(json, "settings", json_object_get(measure->settings));
    if (measure->boosting)
        json_set(json, "boosting", json_object_get(measure->boosting));
    return json;
}

/* Scores the plain way, beside which all others stand. */
static int begin(struct measure *measure, int64_t rows, struct error *error)
{
    int r;

    if (rows < ROWS_MIN)
        return error_set(error, -EINVAL,
                         "%lld rows are too few to train and to test on; %d suffice",
                         (long long)rows, ROWS_MIN);
    if (json_object_deep_copy(measure->wanted, &measure->plain, NULL) < 0)
        return error_no_memory(error, "the specification");
    for (int i = 0; i < SETTINGS; i++)
        if (applies(measure, &recipe_settings[i]))
            set_value(&recipe_settings[i], 0, measure->plain);
    if (json_object_deep_copy(measure->plain, &measure->spec, NULL) < 0)
        return error_no_memory(error, "the specification");
    r = score(measure, measure->spec, RECIPE_LOOK, &measure->scores, error);
    if (r == 0)
        fprintf(stderr, "the plain way: %d trainings, %.1f s\n", measure->trainings,
                clock_monotonic() - measure->begun);
    for (int i = 0; r == -ETIME && i < SETTINGS; i++)
        if (applies(measure, &recipe_settings[i])) {
            tell_late(measure, &recipe_settings[i]);
            break;
        }
    return r;
}

struct json_object *recipe_measure(const struct worker_options *options, struct json_object *spec,
                                   int64_t rows, bool has_numbers)
{
    struct measure measure = {.options = options,
                              .wanted = spec,
                              .is_class = !json_get(json_get(spec, "model"), "loss"),
                              .has_numbers = has_numbers,
                              .begun = clock_monotonic(),
                              .sentences = json_object_new_array(),
                              .settings = json_object_new_array()};
    struct json_object *report;
    struct error error = {0};
    int r;

    measure.deadline = measure.begun + (options->seconds ? options->seconds : SECONDS_DEFAULT);
    r = begin(&measure, rows, &error);
    if (r == 0 && (r = run_settings(&measure, &error)) == 0)
        r = compare_boosting(&measure, &error);
    if (r < 0 && r != -ETIME)
        say(&measure, "nothing was compared: %s", error.text);
    measure.is_complete = r == 0;
    report = report_new(&measure);
    json_object_put(measure.spec);
    json_object_put(measure.plain);
    json_object_put(measure.sentences);
    json_object_put(measure.settings);
    json_object_put(measure.boosting);
    return report;
}
