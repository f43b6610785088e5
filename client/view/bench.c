/* bench.c: see bench.h. */
#include "client/view/bench.h"

#include "base/clock.h"
#include "base/text.h"
#include "client/view/job.h"
#include "client/view/line.h"
#include "client/view/table.h"
#include "proto/device_host.h"

#include <math.h>
#include <string.h>

/* ---- one device ---------------------------------------------------------------------------- */

static struct json_object *result_start(struct json_object *candidate)
{
    static const char *const absent[] = {
        "job",         "step_seconds",     "steps_timed",        "epoch_seconds",
        "seconds",     "ran_seconds",      "samples_per_second", "memory_planned",
        "memory_peak", "host_memory_peak", "joules_per_step",    "energy_reason",
        "error"};
    struct json_object *result = json_object_new_object();

    json_set_string(result, "device", json_get_string(candidate, "device", ""));
    json_set_string(result, "kind", json_get_string(candidate, "kind", NULL));
    json_set(result, "predicted_step_seconds",
             json_object_get(json_get(candidate, "step_seconds")));
    json_set_string(result, "predicted_by", json_get_string(candidate, "basis", NULL));
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        json_set(result, absent[i], NULL);
    return result;
}

struct json_object *bench_result_skipped(struct json_object *candidate, const char *reason)
{
    struct json_object *result = result_start(candidate);

    json_set_string(result, "error", reason);
    return result;
}

static void energy_set(struct json_object *result, double step, double watts)
{
    json_set_double(result, "joules_per_step", watts * step); /* not finite: null */
    if (isnan(watts))
        json_set_string(result, "energy_reason", "the power of this device cannot be read");
    else if (isnan(step))
        json_set_string(result, "energy_reason", "no step was timed");
}

static void native_set(struct json_object *result, struct json_object *attempt,
                       struct json_object *plan)
{
    double step = json_get_double(attempt, "step_seconds", NAN);
    double steps = json_get_double(plan, "steps", NAN), epochs = json_get_double(plan, "epochs", 1);
    double samples = json_get_double(json_get(plan, "samples"), "train", NAN);

    json_set_double(result, "step_seconds", step);
    json_set_double(result, "steps_timed", json_get_double(attempt, "steps_timed", NAN));
    json_set_double(result, "epoch_seconds", step * steps / epochs);
    json_set_double(result, "seconds", step * steps);
    json_set_double(result, "samples_per_second", samples * epochs / (step * steps));
    if (isnan(step))
        json_set_string(result, "error", "too few steps were timed: more --steps are needed");
}

/* Sets a command's measures: what it reports itself, or its duration. */
static void command_set(struct json_object *result, struct json_object *job, const char *ending)
{
    double speed = json_get_double(json_get(job, "metrics"), "samples_per_second", NAN);
    bool done = strcmp(json_get_string(job, "state", ""), "done") == 0;

    json_set_double(result, "samples_per_second", speed);
    if (done)
        json_set_double(result, "seconds", job_run_seconds(job, clock_now()));
    if (!done && strcmp(ending, "timed_out") != 0)
        json_set_string(result, "error", job_reason(job));
    else if (!done && isnan(speed))
        json_set_string(result, "error",
                        "it neither ended in time nor reported samples_per_second");
}

/* Sets the memory. The plan has the device's memory; the attempt reports the machine's memory that
 * its processes held. On the CPU these are the same. */
static void memory_set(struct json_object *result, struct json_object *candidate,
                       struct json_object *plan, struct json_object *peak)
{
    bool is_host = strcmp(json_get_string(result, "kind", ""), DEVICE_HOST) == 0;
    struct json_object *planned = json_get(candidate, "memory");

    if (!planned && is_host)
        planned = json_get(plan, "memory_bytes");
    json_set(result, "memory_planned", json_object_get(planned));
    json_set(result, is_host ? "memory_peak" : "host_memory_peak", json_object_get(peak));
}

struct json_object *bench_result_new(struct json_object *candidate, struct json_object *show,
                                     struct json_object *plan, double watts)
{
    struct json_object *result = result_start(candidate), *job = json_get(show, "job");
    struct json_object *attempts = json_get(show, "attempts"), *attempt = NULL;
    size_t count = attempts ? json_object_array_length(attempts) : 0;
    double ran = job_run_seconds(job, clock_now());

    if (count)
        attempt = json_object_array_get_idx(attempts, count - 1);
    json_set_int(result, "job", json_get_int(job, "id", 0));
    json_set_double(result, "ran_seconds", ran);
    memory_set(result, candidate, plan, json_get(attempt, "peak_bytes"));
    if (!plan)
        command_set(result, job, json_get_string(attempt, "ending", ""));
    else if (strcmp(json_get_string(job, "state", ""), "done") == 0)
        native_set(result, attempt, plan);
    else
        json_set_string(result, "error", job_reason(job));
    energy_set(result, json_get_double(result, "step_seconds", NAN), watts);
    return result;
}

/* ---- all devices --------------------------------------------------------------------------- */

/* The result's cost of one unit of work; NAN: not measured. */
static double result_cost(struct json_object *result, const char *key)
{
    double value = json_get_double(result, key, NAN);

    return strcmp(key, "samples_per_second") == 0 ? 1 / value : value;
}

/* Finds the best and the next best by `key`; false: there is none. */
static bool results_rank(struct json_object *results, const char *key, struct json_object **best,
                         struct json_object **second)
{
    *best = *second = NULL;
    for (size_t i = 0; i < json_object_array_length(results); i++) {
        struct json_object *result = json_object_array_get_idx(results, i);
        double cost = result_cost(result, key);

        if (isnan(cost))
            continue;
        if (!*best || cost < result_cost(*best, key)) {
            *second = *best;
            *best = result;
        } else if (!*second || cost < result_cost(*second, key)) {
            *second = result;
        }
    }
    return *best != NULL;
}

/* The key by which most of the devices can be compared. */
static const char *results_measure(struct json_object *results)
{
    static const char *const keys[] = {"step_seconds", "seconds", "samples_per_second"};
    size_t most = 0;
    const char *measure = keys[0];

    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        size_t count = 0;

        for (size_t i = 0; i < json_object_array_length(results); i++)
            count += !isnan(result_cost(json_object_array_get_idx(results, i), keys[k]));
        if (count > most) {
            most = count;
            measure = keys[k];
        }
    }
    return measure;
}

struct json_object *bench_report_new(struct json_object *results)
{
    struct json_object *report = json_object_new_object(), *best, *second;
    const char *measure = results_measure(results), *device;
    char reason[256];

    json_set(report, "devices", json_object_get(results));
    if (!results_rank(results, measure, &best, &second)) {
        json_set(report, "recommended", NULL);
        json_set_string(report, "reason", "on no device was there anything to compare");
        return report;
    }
    device = json_get_string(best, "device", "");
    json_set_string(report, "recommended", device);
    if (second)
        snprintf(reason, sizeof reason, "%s is %.2f times as fast as %s", device,
                 result_cost(second, measure) / result_cost(best, measure),
                 json_get_string(second, "device", ""));
    else
        snprintf(reason, sizeof reason, "%s alone could be measured", device);
    json_set_string(report, "reason", reason);
    return report;
}

/* ---- for people ---------------------------------------------------------------------------- */

static void duration_add(struct table *table, struct json_object *result, const char *key)
{
    double seconds = json_get_double(result, key, NAN);
    char text[48] = "";

    if (!isnan(seconds))
        text_format_duration(seconds, text, sizeof text);
    table_add(table, text, STYLE_PLAIN);
}

static void bytes_add(struct table *table, struct json_object *result, const char *key)
{
    char text[48] = "";

    if (json_get(result, key))
        text_format_bytes((uint64_t)json_get_int(result, key, 0), text, sizeof text);
    table_add(table, text, STYLE_PLAIN);
}

static void result_add(struct table *table, struct json_object *result, bool recommended)
{
    double speed = json_get_double(result, "samples_per_second", NAN);
    double joules = json_get_double(result, "joules_per_step", NAN);
    char text[64] = "";

    table_add(table, json_get_string(result, "device", ""), recommended ? STYLE_GREEN : STYLE_BOLD);
    duration_add(table, result, "step_seconds");
    duration_add(table, result, "predicted_step_seconds");
    duration_add(table, result, "epoch_seconds");
    duration_add(table, result, "seconds");
    table_add(table, isnan(speed) ? "" : display_format_count(speed, text, sizeof text),
              STYLE_PLAIN);
    bytes_add(table, result, "memory_planned");
    bytes_add(table, result, "memory_peak");
    bytes_add(table, result, "host_memory_peak");
    snprintf(text, sizeof text, "%.3g J", joules);
    table_add(table, isnan(joules) ? "" : text, STYLE_PLAIN);
    if (json_get(result, "job"))
        table_add_integer(table, json_get_int(result, "job", 0));
    else
        table_add(table, "", STYLE_PLAIN);
    table_add(table, json_get_string(result, "error", ""), STYLE_YELLOW);
}

void bench_report_print(struct json_object *report, const struct display *display)
{
    static const struct table_column columns[] = {
        {"DEVICE", false, 4},     {"STEP", true, 0},      {"PREDICTED", true, 0},
        {"EPOCH", true, 0},       {"WHOLE JOB", true, 0}, {"SAMPLES/S", true, 0},
        {"PLANNED", true, 0},     {"PEAK", true, 0},      {"HOST PEAK", true, 0},
        {"ENERGY/STEP", true, 0}, {"JOB", true, 0},       {"NOT MEASURED", false, 12},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    struct json_object *results = json_get(report, "devices");
    const char *recommended = json_get_string(report, "recommended", NULL);

    for (size_t i = 0; i < json_object_array_length(results); i++) {
        struct json_object *result = json_object_array_get_idx(results, i);

        result_add(table, result,
                   recommended && strcmp(json_get_string(result, "device", ""), recommended) == 0);
    }
    table_print(table, display, stdout);
    table_free(table);
    putchar('\n');
    line_print(display, "recommended", recommended ? recommended : "none", STYLE_BOLD);
    line_print(display, "because", json_get_string(report, "reason", NULL), STYLE_PLAIN);
}
