/* sweep.c: `trainctl sweep` shows the jobs of a sweep as trials: what each was given, how far it
 * came, and which one is the best. */
#include "client/connection/sweep.h"

#include "base/memory.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/view/job.h"
#include "client/view/table.h"
#include "proto/split_rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS_MAX = 32, COLUMNS_OTHER = 6, SETTLING_NANOSECONDS = 200000000, SETTLING_TRIES = 50 };

/* ---- the trials ------------------------------------------------------------------------------ */

/* Fetches all pages. `reply` becomes the first page with the trials of all; the caller owns it. */
static enum exit_status trials_fetch(struct invocation *invocation, int64_t sweep,
                                     struct json_object **reply)
{
    struct json_object *trials = NULL, *next = NULL;

    do {
        CLEANUP(varlink_reply_release) struct varlink_reply page = {0};
        struct json_object *parameters = json_object_new_object(), *rows;
        enum exit_status status;

        json_set_int(parameters, "id", sweep);
        if (next)
            json_set_int(parameters, "first", json_object_get_int64(next));
        status = connection_call(invocation, "Trials", parameters, &page);
        if (status)
            return status;
        json_object_put(next);
        next = json_object_get(json_get(page.parameters, "next"));
        rows = json_get(page.parameters, "trials");
        if (!trials) {
            *reply = json_object_get(page.parameters);
            trials = rows;
            continue;
        }
        for (size_t i = 0; i < json_object_array_length(rows); i++)
            json_object_array_add(trials, json_object_get(json_object_array_get_idx(rows, i)));
    } while (next);
    json_set(*reply, "next", NULL);
    return EXIT_STATUS_DONE;
}

static bool all_have_ended(struct json_object *trials)
{
    for (size_t i = 0; i < json_object_array_length(trials); i++)
        if (!job_state_is_final(json_get_string(json_object_array_get_idx(trials, i), "state", "")))
            return false;
    return true;
}

/* The same. When all trials have ended, the daemon may still be comparing what they measured: then
 * this waits for it, because another trial may become the best one. */
static enum exit_status trials_fetch_settled(struct invocation *invocation, int64_t sweep,
                                             struct json_object **reply)
{
    const struct timespec pause = {.tv_nsec = SETTLING_NANOSECONDS};

    for (int tries = 0;; tries++) {
        enum exit_status status = trials_fetch(invocation, sweep, reply);
        struct json_object *search = status ? NULL : json_get(*reply, "search");

        if (!search || json_get_bool(search, "settled", true) || tries == SETTLING_TRIES ||
            !all_have_ended(json_get(*reply, "trials")))
            return status;
        json_object_put(TAKE_POINTER(*reply));
        nanosleep(&pause, NULL);
    }
}

static struct json_object *trial_find(struct json_object *trials, int64_t job)
{
    for (size_t i = 0; i < json_object_array_length(trials); i++)
        if (json_get_int(json_object_array_get_idx(trials, i), "job", 0) == job)
            return json_object_array_get_idx(trials, i);
    return NULL;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* How trials compare: those of a higher rung go before those of a lower one, then the better value
 * first. What has no value comes last, in the order of the jobs. */
struct order {
    bool falls;
};

static int trial_compare(const void *first, const void *second, void *data)
{
    struct json_object *a = *(struct json_object *const *)first;
    struct json_object *b = *(struct json_object *const *)second;
    const struct order *order = data;
    double x = json_get_double(a, "value", NAN), y = json_get_double(b, "value", NAN);
    int64_t rungs = json_get_int(b, "rung", -1) - json_get_int(a, "rung", -1);

    if (isnan(x) != isnan(y))
        return isnan(x) ? 1 : -1;
    if (!isnan(x) && rungs)
        return rungs > 0 ? 1 : -1;
    if (!isnan(x) && x != y)
        return (order->falls ? x < y : x > y) ? -1 : 1;
    return json_get_int(a, "job", 0) < json_get_int(b, "job", 0) ? -1 : 1;
}

/* The trials, the best first; the caller frees the array, whose elements are borrowed. */
static struct json_object **trials_sort(struct json_object *trials, const struct order *order)
{
    size_t count = json_object_array_length(trials);
    struct json_object **sorted = memory_zero((count + 1) * sizeof(struct json_object *));
    struct order copy = *order;

    for (size_t i = 0; i < count; i++)
        sorted[i] = json_object_array_get_idx(trials, i);
    qsort_r(sorted, count, sizeof(struct json_object *), trial_compare, &copy);
    return sorted;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* The path without its first part, for example "optimizer.lr". */
static const char *key_title(const char *path)
{
    const char *dot = strchr(path, '.');

    return dot ? dot + 1 : path;
}

static const char *value_format(struct json_object *value, char *text, size_t size)
{
    if (json_object_is_type(value, json_type_string))
        snprintf(text, size, "%s", json_object_get_string(value));
    else if (json_object_is_type(value, json_type_double))
        snprintf(text, size, "%.6g", json_object_get_double(value));
    else
        snprintf(text, size, "%s", value ? json_text(value, NULL) : "null");
    return text;
}

/* The keys that vary, from the values of a trial; at most KEYS_MAX. */
static size_t keys_collect(struct json_object *trial, const char **keys)
{
    size_t count = 0;

    json_object_object_foreach (json_get(trial, "values"), key, value) {
        (void)value;
        if (count < KEYS_MAX)
            keys[count++] = key;
    }
    return count;
}

static void trial_add(struct table *table, struct json_object *trial, const char *const *keys,
                      size_t key_count, const char *unit)
{
    const char *state = json_get_string(trial, "state", "?");
    double value = json_get_double(trial, "value", NAN), at = json_get_double(trial, unit, NAN);
    bool stopped = json_get_bool(trial, "stopped", false);
    char text[256];

    table_add_integer(table, json_get_int(trial, "job", 0));
    for (size_t i = 0; i < key_count; i++)
        table_add(table,
                  value_format(json_get(json_get(trial, "values"), keys[i]), text, sizeof text),
                  STYLE_PLAIN);
    table_add(table, stopped ? "stopped" : state, stopped ? STYLE_PLAIN : job_state_style(state));
    snprintf(text, sizeof text, "%.6g", at);
    table_add(table, isnan(at) ? "" : text, STYLE_PLAIN);
    /* a step without a value: it is not finite */
    table_add(table, json_get(trial, "step") ? display_format_value(value, text, sizeof text) : "",
              STYLE_PLAIN);
    table_add(table,
              json_get(trial, "ran")
                  ? text_format_duration(json_get_double(trial, "ran", 0), text, sizeof text)
                  : "",
              STYLE_PLAIN);
    table_add(table, json_get_string(trial, "device", ""), STYLE_PLAIN);
}

static void table_of_trials(const struct invocation *invocation, struct json_object *reply,
                            struct json_object *const *sorted, size_t count)
{
    struct json_object *search = json_get(reply, "search");
    const char *unit = json_get_string(search, "unit", "epoch");
    const char *metric = json_get_string(search, "metric", NULL);
    const char *keys[KEYS_MAX];
    size_t key_count = count ? keys_collect(sorted[0], keys) : 0, columns_count = 0;
    struct table_column columns[KEYS_MAX + COLUMNS_OTHER];
    struct table *table;

    if (!metric && count)
        metric = json_get_string(sorted[0], "metric", NULL);
    columns[columns_count++] = (struct table_column){"JOB", true, 0};
    for (size_t i = 0; i < key_count; i++)
        columns[columns_count++] = (struct table_column){key_title(keys[i]), true, 6};
    columns[columns_count++] = (struct table_column){"STATE", false, 0};
    columns[columns_count++] =
        (struct table_column){strcmp(unit, "step") == 0 ? "STEP" : "EPOCH", true, 0};
    columns[columns_count++] = (struct table_column){metric ? metric : "METRIC", true, 0};
    columns[columns_count++] = (struct table_column){"RAN", true, 0};
    columns[columns_count++] = (struct table_column){"DEVICE", false, 0};
    table = table_new(columns, columns_count);
    for (size_t i = 0; i < count; i++)
        trial_add(table, sorted[i], keys, key_count, unit);
    table_print(table, &invocation->output, stdout);
    table_free(table);
}

/* Prints, for example, "asha over 64 random trials by validation_accuracy (max): 57 stopped early;
 * 12 min on devices". */
static void summary_print(struct json_object *reply, struct json_object *const *trials,
                          size_t count)
{
    struct json_object *search = json_get(reply, "search");
    int64_t stopped = 0;
    double ran = 0;
    char text[64];

    for (size_t i = 0; i < count; i++) {
        stopped += json_get_bool(trials[i], "stopped", false);
        ran += json_get_double(trials[i], "ran", 0);
    }
    sweep_print_sentence(json_get(reply, "sweep"), stdout);
    if (count && json_get(json_get(trials[0], "values"), SPLIT_FOLD_KEY))
        printf("`trainctl compare sweep:%" PRId64
               "` shows the mean and the deviation over the folds\n",
               json_get_int(json_get(reply, "sweep"), "id", 0));
    if (search)
        printf("search: %s over %" PRId64 " trials (%s) by %s (%s): %" PRId64
               " stopped early, %s on devices\n",
               json_get_string(search, "algorithm", ""),
               json_get_int(json_get(reply, "sweep"), "points", 0),
               json_get_string(search, "sampler", ""), json_get_string(search, "metric", ""),
               json_get_string(search, "mode", ""), stopped,
               text_format_duration(ran, text, sizeof text));
}

/* Prints the best trial, and its values as options of submit and resubmit. */
static void best_print(struct json_object *best, const char *unit, bool settled)
{
    char value[32], name[256], text[1024];

    printf("best%s: job %" PRId64 ", %s %s", settled ? "" : " so far", json_get_int(best, "job", 0),
           text_escape_controls(json_get_string(best, "metric", ""), name, sizeof name),
           display_format_value(json_get_double(best, "value", NAN), value, sizeof value));
    if (json_get(best, unit))
        printf(" at %s %.6g", unit, json_get_double(best, unit, NAN));
    fputs(":", stdout);
    json_object_object_foreach (json_get(best, "values"), key, chosen) {
        snprintf(text, sizeof text, "%s=%s", key, chosen ? json_text(chosen, NULL) : "null");
        fputs(" --set ", stdout);
        display_print_word(text, stdout);
    }
    putchar('\n');
}

/* The daemon warns at the first trial that was done without coming to a rung. */
static void no_best_print(const char *metric, struct json_object *const *trials, size_t count)
{
    char name[256];
    int64_t done = 0;
    size_t ended = 0;

    text_escape_controls(metric, name, sizeof name);
    for (size_t i = 0; i < count; i++) {
        const char *state = json_get_string(trials[i], "state", "");

        done += strcmp(state, "done") == 0;
        ended += job_state_is_final(state);
    }
    if (done)
        printf("no trial could be compared by %s, and %" PRId64
               " are done: `trainctl show` of the first of these says why\n",
               name, done);
    else if (count && ended == count)
        printf("no trial has measured %s, and all have ended: `trainctl show` of one says why\n",
               name);
    else
        printf("no trial has measured %s yet\n", name);
}

static void sweep_print(const struct invocation *invocation, struct json_object *reply)
{
    struct json_object *trials = json_get(reply, "trials"), *search = json_get(reply, "search");
    struct json_object *best = trial_find(trials, json_get_int(search, "best", 0));
    size_t count = json_object_array_length(trials);
    struct order order = {strcmp(json_get_string(search, "mode", "max"), "min") == 0};
    struct json_object **sorted = trials_sort(trials, &order);

    table_of_trials(invocation, reply, sorted, count);
    summary_print(reply, sorted, count);
    if (best)
        best_print(best, json_get_string(search, "unit", "epoch"),
                   json_get_bool(search, "settled", true));
    else if (search)
        no_best_print(json_get_string(search, "metric", ""), sorted, count);
    free(sorted);
}

/* Prints the specification of the best trial. */
static enum exit_status best_spec_print(struct invocation *invocation, struct json_object *reply)
{
    CLEANUP(varlink_reply_release) struct varlink_reply shown = {0};
    struct json_object *parameters;
    int64_t best = json_get_int(json_get(reply, "search"), "best", 0);
    enum exit_status status;

    if (!best) {
        complain(json_get(reply, "search")
                     ? "no trial has measured the search's metric yet"
                     : "the sweep has no search that says which metric is the best");
        return EXIT_STATUS_FAILED;
    }
    parameters = json_object_new_object();
    json_set_int(parameters, "id", best);
    status = connection_call(invocation, "Show", parameters, &shown);
    if (!status)
        json_print_indented(json_get(shown.parameters, "spec"), stdout);
    return status;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *reply = NULL;
    const char *word = invocation->arguments[0];
    enum exit_status status;
    int64_t sweep;
    char *end;

    if (!sweep_named(word, &sweep)) {
        sweep = strtoll(word, &end, 10);
        if (*end || sweep < 1) {
            complain(
                "\"%s\" is no sweep: it is named by the number of its first job, such as 14 or "
                "sweep:14",
                word);
            return EXIT_STATUS_USAGE;
        }
    }
    status = trials_fetch_settled(invocation, sweep, &reply);
    if (status)
        return status;
    if (invocation_flag(invocation, "best"))
        return best_spec_print(invocation, reply);
    if (invocation->json)
        json_print(reply, stdout);
    else
        sweep_print(invocation, reply);
    return EXIT_STATUS_DONE;
}

static const struct command_option sweep_options[] = {
    {"best", 0, NULL, "Print the whole specification of the best trial of a search",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_sweep = {
    .name = "sweep",
    .place = 145,
    .arguments = "SWEEP",
    .summary = "Show the jobs of a sweep as trials, the best first, with what each was given",
    .details = "SWEEP is the number of its first job, such as 14 or sweep:14. STATE stopped: the "
               "search ended the\ntrial early; `trainctl show JOB` says why. RAN counts all "
               "attempts. The last line names the best\ntrial of a search, with its values as "
               "options of submit and resubmit.",
    .minimum = 1,
    .maximum = 1,
    .options = sweep_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
