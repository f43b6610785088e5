/* report_comparison.c: what a report says of several jobs beside each other: how their
 * specifications differ, their results, their times, and means of groups. */
#include "base/text.h"
#include "client/reports/document.h"
#include "client/reports/report.h"
#include "client/view/comparison.h"
#include "client/view/job.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { KEYS_SHOWN = 100, COLUMNS_MAX = 24 };

/* ---- the jobs ------------------------------------------------------------------------------ */

static void overview_add(struct json_object *document, const struct report_jobs *jobs, double now)
{
    static const char *const titles[] = {"#Job", "Name",    "State",   "Device", "User",  "#Waited",
                                         "#Ran", "#Paused", "#Energy", "Best",   "Reason"};
    struct json_object *table = document_table(document, titles, sizeof titles / sizeof *titles);

    for (size_t i = 0; i < jobs->count; i++) {
        const struct report_job *job = &jobs->jobs[i];
        struct json_object *row = document_row(table), *of_job = json_get(job->shown, "job");
        struct json_object *best = json_get(of_job, "best");
        struct json_object *attempts = json_get(job->shown, "attempts");
        struct report_times times = report_times_find(job->shown, now);
        double energy = 0;
        char text[64];

        for (size_t a = 0; attempts && a < json_object_array_length(attempts); a++)
            energy += json_get_double(json_object_array_get_idx(attempts, a), "energy_joules", 0);
        document_cell(row, "%" PRId64, job->id);
        document_cell(row, "%s", json_get_string(of_job, "name", ""));
        document_cell(row, "%s", json_get_string(of_job, "state", ""));
        document_cell(row, "%s", json_get_string(of_job, "device", ""));
        document_cell(row, "%s", json_get_string(of_job, "user", ""));
        document_cell(row, "%s", text_format_duration(times.waited, text, sizeof text));
        document_cell(
            row, "%s",
            text_format_duration(json_get_double(of_job, "ran", times.ran), text, sizeof text));
        document_cell(row, "%s",
                      times.paused > 0 ? text_format_duration(times.paused, text, sizeof text)
                                       : "");
        if (energy > 0)
            document_cell(row, "%.4g kJ", energy / 1e3);
        else
            document_cell(row, "%s", "");
        if (best)
            document_cell(
                row, "%s %s", json_get_string(best, "metric", ""),
                display_format_value(json_get_double(best, "value", NAN), text, sizeof text));
        else
            document_cell(row, "%s", "");
        document_cell(row, "%s", job_reason(of_job));
    }
}

/* ---- differences --------------------------------------------------------------------------- */

/* A column for each job. */
static void job_columns_add(struct json_object *table, const struct report_jobs *jobs, bool number)
{
    for (size_t i = 0; i < jobs->count && i < COLUMNS_MAX; i++) {
        char title[512];

        document_table_column(table, report_job_title(&jobs->jobs[i], title, sizeof title), number);
    }
}

static const char *value_text(struct json_object *flat, const char *key)
{
    struct json_object *value = json_get(flat, key);

    return !value                                         ? ""
           : json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                          : json_text(value, NULL);
}

/* Notes that a key is there; `differs`: not with the same value in all jobs. */
static void key_note(struct json_object *seen, const char *key, bool differs)
{
    if (differs || !json_get(seen, key))
        json_set_bool(seen, key, differs || json_get_bool(seen, key, false));
}

/* Compares the keys of one job with those of the first one. */
static void keys_note(struct json_object *seen, struct json_object *first, struct json_object *flat)
{
    json_object_object_foreach (first, key, unused) {
        (void)unused;
        key_note(seen, key, strcmp(value_text(first, key), value_text(flat, key)) != 0);
    }
    json_object_object_foreach (flat, other, value) {
        if (!json_object_object_get_ex(first, other, NULL))
            key_note(seen, other, value && *value_text(flat, other));
    }
}

/* The keys that differ, in the order of their first appearance; `*left_out`: how many more are
 * private. */
static struct json_object *keys_that_differ(struct json_object *seen, size_t *left_out)
{
    struct json_object *keys = json_object_new_array();

    json_object_object_foreach (seen, key, differs) {
        if (!json_object_get_boolean(differs))
            continue;
        if (report_key_is_private(key))
            (*left_out)++;
        else
            json_object_array_add(keys, json_object_new_string(key));
    }
    return keys;
}

/* The specifications of the jobs that have a column, each as one flat object. `seen` receives the
 * keys of all jobs: a sweep may have 100,000, so the others' are compared one after the other. */
static struct json_object *flats_new(const struct report_jobs *jobs, struct json_object *seen)
{
    struct json_object *flats = json_object_new_array();

    for (size_t i = 0; i < jobs->count; i++) {
        JSON_AUTO struct json_object *flat = json_object_new_object();

        json_flatten(json_get(jobs->jobs[i].shown, "spec"), "", flat);
        if (i < COLUMNS_MAX)
            json_object_array_add(flats, json_object_get(flat));
        keys_note(seen, json_object_array_get_idx(flats, 0), flat);
    }
    return flats;
}

static void differences_add(struct json_object *document, const struct report_jobs *jobs)
{
    static const char *const titles[] = {"Key"};
    JSON_AUTO struct json_object *seen = json_object_new_object();
    JSON_AUTO struct json_object *flats = flats_new(jobs, seen);
    JSON_AUTO struct json_object *keys = NULL;
    struct json_object *table;
    size_t count, left_out = 0;

    keys = keys_that_differ(seen, &left_out);
    count = json_object_array_length(keys);
    document_heading(document, 3, "Differences of the specifications");
    if (left_out)
        document_text(document, "%zu variable%s of the environment %s.", left_out,
                      left_out == 1 ? "" : "s", left_out == 1 ? "differs" : "differ");
    if (count == 0) {
        document_text(document, left_out ? "Nothing else differs." : "None.");
        return;
    }
    table = document_table(document, titles, 1);
    job_columns_add(table, jobs, false);
    for (size_t k = 0; k < count && k < KEYS_SHOWN; k++) {
        const char *key = json_object_get_string(json_object_array_get_idx(keys, k));
        struct json_object *row = document_row(table);

        document_cell(row, "%s", key);
        for (size_t i = 0; i < jobs->count && i < COLUMNS_MAX; i++)
            document_cell(row, "%.500s", value_text(json_object_array_get_idx(flats, i), key));
    }
    if (count > KEYS_SHOWN)
        document_text(document, "%zu more keys differ.", count - KEYS_SHOWN);
}

/* ---- results ------------------------------------------------------------------------------- */

static void results_add(struct json_object *document, const struct report_jobs *jobs)
{
    static const char *const titles[] = {"Metric, its last value"};
    JSON_AUTO struct json_object *seen = json_object_new_object();
    struct json_object *table;

    for (size_t i = 0; i < jobs->count; i++) {
        struct json_object *metrics = json_get(json_get(jobs->jobs[i].shown, "job"), "metrics");

        if (!metrics)
            continue;
        json_object_object_foreach (metrics, name, unused) {
            (void)unused;
            json_set_bool(seen, name, true);
        }
    }
    if (json_object_object_length(seen) == 0)
        return;
    document_heading(document, 3, "Results");
    table = document_table(document, titles, 1);
    job_columns_add(table, jobs, true);
    json_object_object_foreach (seen, name, unused) {
        struct json_object *row = document_row(table);

        (void)unused;
        document_cell(row, "%s", name);
        for (size_t i = 0; i < jobs->count && i < COLUMNS_MAX; i++) {
            struct json_object *value =
                json_get(json_get(json_get(jobs->jobs[i].shown, "job"), "metrics"), name);
            char text[32];

            document_cell(
                row, "%s",
                value ? display_format_value(json_object_get_double(value), text, sizeof text)
                      : "");
        }
    }
}

static void group_row_add(struct json_object *table, struct json_object *group,
                          struct json_object *by, struct json_object *metrics)
{
    struct json_object *row = document_row(table), *ids = json_get(group, "jobs");

    for (size_t k = 0; k < json_object_array_length(by); k++) {
        const char *key = json_object_get_string(json_object_array_get_idx(by, k));

        document_cell(row, "%.500s",
                      report_key_is_private(key) ? "(not shown)"
                                                 : value_text(json_get(group, "key"), key));
    }
    document_cell(row, "%zu", json_object_array_length(ids));
    for (size_t m = 0; m < json_object_array_length(metrics); m++) {
        struct json_object *value =
            json_get(json_get(group, "values"),
                     json_object_get_string(json_object_array_get_idx(metrics, m)));
        double deviation = json_get_double(value, "deviation", NAN);
        char mean[32], spread[32];

        if (!value)
            document_cell(row, "%s", "");
        else if (isnan(deviation))
            document_cell(
                row, "%s",
                display_format_value(json_get_double(value, "mean", NAN), mean, sizeof mean));
        else
            document_cell(
                row, "%s ± %s",
                display_format_value(json_get_double(value, "mean", NAN), mean, sizeof mean),
                display_format_value(deviation, spread, sizeof spread));
    }
}

/* Means and deviations of jobs that differ by nothing but what repetitions differ by. */
static void groups_add(struct json_object *document, const struct report_jobs *jobs)
{
    JSON_AUTO struct json_object *shown = json_object_new_array(), *comparison = NULL;
    struct json_object *by, *metrics, *groups, *table;
    struct error error = {0};

    for (size_t i = 0; i < jobs->count; i++)
        json_object_array_add(shown, json_object_get(jobs->jobs[i].shown));
    comparison = comparison_new(shown, NULL, NULL, &error);
    by = json_get(comparison, "by");
    metrics = json_get(comparison, "metrics");
    groups = json_get(comparison, "groups");
    if (!groups || json_object_array_length(groups) == 0 || json_object_array_length(metrics) == 0)
        return;
    document_heading(document, 3, "Groups");
    document_text(document, "Mean ± deviation of the jobs that are done, by the keys that differ "
                            "between them; seeds and folds are repetitions.");
    table = document_table(document, NULL, 0);
    for (size_t k = 0; k < json_object_array_length(by); k++)
        document_table_column(table, json_object_get_string(json_object_array_get_idx(by, k)),
                              false);
    document_table_column(table, "jobs", true);
    for (size_t m = 0; m < json_object_array_length(metrics); m++)
        document_table_column(table, json_object_get_string(json_object_array_get_idx(metrics, m)),
                              true);
    for (size_t g = 0; g < json_object_array_length(groups); g++)
        group_row_add(table, json_object_array_get_idx(groups, g), by, metrics);
}

void report_add_comparison(struct json_object *document, const struct report_jobs *jobs, double now)
{
    document_heading(document, 2, "Comparison of %zu jobs", jobs->count);
    overview_add(document, jobs, now);
    if (jobs->count > COLUMNS_MAX)
        document_text(document, "The tables by job have the first %d of the %zu jobs.", COLUMNS_MAX,
                      jobs->count);
    differences_add(document, jobs);
    results_add(document, jobs);
    groups_add(document, jobs);
    report_add_common_curves(document, jobs);
}
