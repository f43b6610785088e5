/* report_job.c: what a report says of one job: how it went, what it was to do, results, attempts,
 * decisions. */
#include "base/text.h"
#include "client/reports/document.h"
#include "client/reports/report.h"
#include "client/view/job.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { VALUE_BYTES = 2000 /* of a key of the specification: longer ones are cut */ };

char *report_job_title(const struct report_job *job, char *output, size_t size)
{
    const char *name = json_get_string(json_get(job->shown, "job"), "name", "");

    snprintf(output, size, "%" PRId64 "%s%s", job->id, *name ? " " : "", name);
    text_make_utf8(output);
    return output;
}

/* ---- times --------------------------------------------------------------------------------- */

static double *time_of_state(struct report_times *times, const char *state)
{
    return strcmp(state, "queued") == 0   ? &times->waited
           : strcmp(state, "paused") == 0 ? &times->paused
           : job_state_is_final(state)    ? NULL
                                          : &times->ran;
}

struct report_times report_times_find(struct json_object *shown, double now)
{
    struct json_object *transitions = json_get(shown, "transitions");
    size_t count = transitions ? json_object_array_length(transitions) : 0;
    struct report_times times = {.complete = count > 0};

    for (size_t i = 0; i < count; i++) {
        struct json_object *transition = json_object_array_get_idx(transitions, i);
        struct json_object *next = json_object_array_get_idx(transitions, i + 1);
        double *sum = time_of_state(&times, json_get_string(transition, "to", ""));
        double begin = json_get_double(transition, "time", NAN);
        double end = i + 1 < count ? json_get_double(next, "time", NAN) : now;

        if (i == 0 && json_get_string(transition, "from", NULL))
            times.complete = false;
        if (sum && end > begin) /* a clock that was set back takes no time away */
            *sum += end - begin;
    }
    return times;
}

static void duration_add(struct json_object *table, const char *name, double seconds, bool complete)
{
    char text[64];

    if (!isnan(seconds))
        document_pair(table, name, "%s%s", complete ? "" : "at least ",
                      text_format_duration(seconds, text, sizeof text));
}

static void time_add(struct json_object *table, const char *name, double time)
{
    char text[64];

    if (!isnan(time))
        document_pair(table, name, "%s", display_format_time(time, text, sizeof text));
}

/* Adds the energy of all attempts. */
static void energy_add(struct json_object *table, struct json_object *attempts)
{
    double part = 0, whole = 0;

    for (size_t i = 0; attempts && i < json_object_array_length(attempts); i++) {
        struct json_object *attempt = json_object_array_get_idx(attempts, i);

        part += json_get_double(attempt, "energy_joules", 0);
        whole += json_get_double(attempt, "device_energy_joules", 0);
    }
    if (part > 0)
        document_pair(table, "energy", "%.4g kJ (%.4g Wh), of %.4g kJ that its devices took",
                      part / 1e3, part / 3600, whole / 1e3);
}

static void summary_add(struct json_object *document, const struct report_job *job, double now)
{
    static const char *const titles[] = {"", ""};
    struct json_object *table = document_table(document, titles, 2);
    struct json_object *of_job = json_get(job->shown, "job"), *best = json_get(of_job, "best");
    struct report_times times = report_times_find(job->shown, now);
    double ran = json_get_double(of_job, "ran", NAN);
    char value[32];

    document_pair(table, "state", "%s", json_get_string(of_job, "state", "?"));
    document_pair(table, "reason", "%s", job_reason(of_job));
    document_pair(table, "device", "%s", json_get_string(of_job, "device", ""));
    document_pair(table, "user", "%s", json_get_string(of_job, "user", ""));
    document_pair(table, "group", "%s", json_get_string(of_job, "group", ""));
    document_pair(table, "priority", "%" PRId64, json_get_int(of_job, "priority", 0));
    time_add(table, "submitted", json_get_double(of_job, "submitted", NAN));
    time_add(table, "started", json_get_double(of_job, "started", NAN));
    time_add(table, "ended", json_get_double(of_job, "ended", NAN));
    duration_add(table, "waited", times.waited, times.complete);
    duration_add(table, "ran", isnan(ran) ? times.ran : ran, true);
    if (times.paused > 0)
        duration_add(table, "was paused", times.paused, times.complete);
    energy_add(table, json_get(job->shown, "attempts"));
    if (best)
        document_pair(
            table, "best", "%s %s at step %" PRId64, json_get_string(best, "metric", ""),
            display_format_value(json_get_double(best, "value", NAN), value, sizeof value),
            json_get_int(best, "step", 0));
}

/* ---- configuration ------------------------------------------------------------------------- */

static void configuration_add(struct json_object *document, const struct report_job *job)
{
    static const char *const titles[] = {"Key", "Value"};
    JSON_AUTO struct json_object *flat = json_object_new_object();
    struct json_object *plan = json_get(job->shown, "plan"), *table;
    size_t left_out = 0;
    char text[64];

    document_heading(document, 3, "Configuration");
    json_flatten(json_get(job->shown, "spec"), "", flat);
    table = document_table(document, titles, 2);
    json_object_object_foreach (flat, key, value) {
        bool string = json_object_is_type(value, json_type_string);

        if (report_key_is_private(key))
            left_out++;
        else
            document_pair(table, key, "%.*s", VALUE_BYTES,
                          string ? json_object_get_string(value) : json_text(value, NULL));
    }
    if (plan) {
        document_pair(
            table, "(plan) parameters", "%s",
            display_format_count(json_get_double(plan, "parameters", 0), text, sizeof text));
        document_pair(table, "(plan) steps", "%" PRId64, json_get_int(plan, "steps", 0));
        document_pair(table, "(plan) precision", "%s", json_get_string(plan, "precision", ""));
        document_pair(
            table, "(plan) memory", "%s",
            text_format_bytes((uint64_t)json_get_int(plan, "memory_bytes", 0), text, sizeof text));
    }
    if (left_out)
        document_text(document,
                      "%zu variable%s of the environment %s not shown, as they may hold secrets.",
                      left_out, left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are");
}

/* ---- results ------------------------------------------------------------------------------- */

struct extreme {
    double value, step;
};

/* The least or the greatest value of the buckets, and where its bucket begins. */
static struct extreme extreme_find(struct json_object *curve, const char *list, double sign)
{
    struct json_object *values = json_get(curve, list), *steps = json_get(curve, "steps");
    struct extreme found = {NAN, NAN};

    for (size_t i = 0; values && i < json_object_array_length(values); i++) {
        double value = json_object_get_double(json_object_array_get_idx(values, i));

        if (isnan(found.value) || sign * value < sign * found.value)
            found = (struct extreme){
                value, (double)json_object_get_int64(json_object_array_get_idx(steps, i))};
    }
    return found;
}

static void extreme_cells(struct json_object *row, struct extreme extreme)
{
    char text[32];

    document_cell(row, "%s",
                  isnan(extreme.value) ? ""
                                       : display_format_value(extreme.value, text, sizeof text));
    if (isnan(extreme.step))
        document_cell(row, "%s", "");
    else
        document_cell(row, "%.0f", extreme.step);
}

static void metrics_add(struct json_object *document, const struct report_job *job)
{
    static const char *const titles[] = {"Metric",    "#last",    "#least",  "#at step",
                                         "#greatest", "#at step", "#values", "#not finite"};
    struct json_object *metrics = json_get(json_get(job->shown, "job"), "metrics"), *table;
    int count = metrics ? json_object_object_length(metrics) : 0;
    char text[32];

    if (count == 0)
        return;
    document_heading(document, 3, "Metrics");
    if (count > REPORT_METRICS && job->curves &&
        json_object_object_length(job->curves) == REPORT_METRICS)
        document_text(document, "Curves were fetched of the first %d of the %d metrics.",
                      REPORT_METRICS, count);
    table = document_table(document, titles, sizeof titles / sizeof *titles);
    json_object_object_foreach (metrics, name, value) {
        struct json_object *row = document_row(table), *curve = json_get(job->curves, name);

        document_cell(row, "%s", name);
        document_cell(row, "%s",
                      display_format_value(json_object_get_double(value), text, sizeof text));
        if (!curve)
            continue;
        extreme_cells(row, extreme_find(curve, "minima", 1));
        extreme_cells(row, extreme_find(curve, "maxima", -1));
        document_cell(row, "%" PRId64, json_get_int(curve, "rows", 0));
        document_cell(row, "%" PRId64, json_get_int(curve, "nonfinite", 0));
    }
}

/* ---- attempts and decisions ---------------------------------------------------------------- */

static void attempts_add(struct json_object *document, const struct report_job *job, double now)
{
    static const char *const titles[] = {"#Attempt",   "Device",  "Started", "#Ran",
                                         "#From step", "Ending",  "Moved",   "#Peak memory",
                                         "#Step",      "#Energy", "Message"};
    struct json_object *attempts = json_get(job->shown, "attempts"), *table;
    char text[64];

    if (!attempts || json_object_array_length(attempts) == 0)
        return;
    document_heading(document, 3, "Attempts and devices");
    table = document_table(document, titles, sizeof titles / sizeof *titles);
    for (size_t i = 0; i < json_object_array_length(attempts); i++) {
        struct json_object *attempt = json_object_array_get_idx(attempts, i);
        struct json_object *row = document_row(table);
        double step = json_get_double(attempt, "step_seconds", NAN);
        double energy = json_get_double(attempt, "energy_joules", NAN);
        int64_t peak = json_get_int(attempt, "peak_bytes", 0);

        document_cell(row, "%" PRId64, json_get_int(attempt, "number", 0));
        document_cell(row, "%s", json_get_string(attempt, "device", ""));
        document_cell(
            row, "%s",
            display_format_time(json_get_double(attempt, "started", 0), text, sizeof text));
        document_cell(row, "%s",
                      text_format_duration(job_run_seconds(attempt, now), text, sizeof text));
        if (json_get(attempt, "resumed_from_step"))
            document_cell(row, "%" PRId64, json_get_int(attempt, "resumed_from_step", 0));
        else
            document_cell(row, "%s", "");
        document_cell(row, "%s", json_get_string(attempt, "ending", "still running"));
        document_cell(row, "%s", json_get_string(attempt, "preemption", ""));
        document_cell(row, "%s",
                      peak > 0 ? text_format_bytes((uint64_t)peak, text, sizeof text) : "");
        document_cell(row, "%s", isnan(step) ? "" : text_format_duration(step, text, sizeof text));
        if (isnan(energy))
            document_cell(row, "%s", "");
        else
            document_cell(row, "%.4g kJ", energy / 1e3);
        document_cell(row, "%s", json_get_string(attempt, "message", ""));
    }
}

/* Writes "cuda:0 12.5 s (chosen), cpu 3 min 20 s (slower)". */
static void candidates_format(struct json_object *candidates, char *output, size_t size)
{
    size_t used = 0;

    *output = '\0';
    for (size_t i = 0; candidates && i < json_object_array_length(candidates) && used < size; i++) {
        struct json_object *candidate = json_object_array_get_idx(candidates, i);
        double seconds = json_get_double(candidate, "seconds", NAN);
        char text[64] = "";

        if (!isnan(seconds))
            text_format_duration(seconds, text, sizeof text);
        used += (size_t)snprintf(output + used, size - used, "%s%s%s%s (%s)", i ? ", " : "",
                                 json_get_string(candidate, "device", ""), *text ? " " : "", text,
                                 json_get_string(candidate, "verdict", ""));
    }
    text_make_utf8(output);
}

static void decisions_add(struct json_object *document, const struct report_job *job)
{
    static const char *const titles[] = {"When",   "Verdict", "Device",
                                         "Reason", "Needs",   "Candidates"};
    struct json_object *decisions = json_get(job->explained, "decisions"), *table;

    if (!decisions || json_object_array_length(decisions) == 0)
        return;
    document_heading(document, 3, "Decisions");
    table = document_table(document, titles, sizeof titles / sizeof *titles);
    for (size_t i = 0; i < json_object_array_length(decisions); i++) {
        struct json_object *decision = json_object_array_get_idx(decisions, i);
        struct json_object *row = document_row(table);
        double time = json_get_double(decision, "time", NAN);
        char text[2048];

        document_cell(row, "%s", isnan(time) ? "" : display_format_time(time, text, sizeof text));
        document_cell(row, "%s", json_get_string(decision, "verdict", ""));
        document_cell(row, "%s", json_get_string(decision, "device", ""));
        document_cell(row, "%s", json_get_string(decision, "reason", ""));
        document_cell(row, "%s", json_get_string(decision, "needs", ""));
        candidates_format(json_get(decision, "candidates"), text, sizeof text);
        document_cell(row, "%s", text);
    }
}

static void transitions_add(struct json_object *document, const struct report_job *job)
{
    static const char *const titles[] = {"When", "State", "Reason"};
    struct json_object *transitions = json_get(job->shown, "transitions"), *table;

    if (!transitions || json_object_array_length(transitions) == 0)
        return;
    document_heading(document, 3, "History");
    table = document_table(document, titles, 3);
    for (size_t i = 0; i < json_object_array_length(transitions); i++) {
        struct json_object *transition = json_object_array_get_idx(transitions, i);
        struct json_object *row = document_row(table);
        char text[64];

        document_cell(
            row, "%s",
            display_format_time(json_get_double(transition, "time", 0), text, sizeof text));
        document_cell(row, "%s", json_get_string(transition, "to", ""));
        document_cell(row, "%s", json_get_string(transition, "reason", ""));
    }
}

void report_add_job(struct json_object *document, const struct report_job *job, bool compared,
                    double now)
{
    struct json_object *warnings = json_get(job->shown, "warnings");
    char title[512];

    document_heading(document, 2, "Job %s", report_job_title(job, title, sizeof title));
    summary_add(document, job, now);
    for (size_t i = 0; warnings && i < json_object_array_length(warnings); i++)
        document_text(document, "Warning: %s",
                      json_object_get_string(json_object_array_get_idx(warnings, i)));
    report_add_curves(document, job, compared);
    metrics_add(document, job);
    attempts_add(document, job, now);
    decisions_add(document, job);
    configuration_add(document, job);
    transitions_add(document, job);
}
