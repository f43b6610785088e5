/* report_curves.c: which curves of a report stand in which figure. */
#include "client/reports/document.h"
#include "client/reports/report.h"

#include <string.h>

/* What the metric measures, whatever the part of the data: "loss" of "validation_loss". */
static const char *metric_kind(const char *metric)
{
    static const char *const parts[] = {"train_", "validation_", "val_", "test_", "eval_"};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(metric, parts[i], strlen(parts[i])) == 0)
            return metric + strlen(parts[i]);
    return metric;
}

/* Whether a curve has two values at least: one is in the table, and makes no curve. */
static bool curve_is_drawn(struct json_object *curve)
{
    struct json_object *steps = json_get(curve, "steps");

    return steps && json_object_array_length(steps) > 1;
}

/* What people look at first. */
static bool kind_is_usual(const char *kind)
{
    return strcmp(kind, "loss") == 0 || strcmp(kind, "accuracy") == 0;
}

/* How many metrics of that kind have a curve. */
static size_t count_kind(const struct report_job *job, const char *kind)
{
    size_t count = 0;

    json_object_object_foreach (job->curves, metric, curve)
        count += curve_is_drawn(curve) && strcmp(metric_kind(metric), kind) == 0;
    return count;
}

/* Adds the figures of usual, or of all other kinds, that have so many curves at least. */
static void figures_add(struct json_object *document, const struct report_job *job, bool usual,
                        size_t curves_min)
{
    JSON_AUTO struct json_object *figures = json_object_new_object();

    json_object_object_foreach (job->curves, metric, curve) {
        const char *kind = metric_kind(metric);
        struct json_object *figure = json_get(figures, kind);

        if (!curve_is_drawn(curve) || kind_is_usual(kind) != usual ||
            count_kind(job, kind) < curves_min)
            continue;
        if (!figure) {
            figure = document_figure(document, kind, "step");
            json_set(figures, kind, json_object_get(figure));
        }
        document_curve(figure, metric, curve);
    }
}

void report_add_curves(struct json_object *document, const struct report_job *job, bool compared)
{
    size_t curves_min = compared ? 2 : 1;

    if (!job->curves)
        return;
    figures_add(document, job, true, curves_min);
    figures_add(document, job, false, curves_min);
}

/* Every metric that some job has a curve of, in the order of their first appearance. */
static void metrics_collect(const struct report_jobs *jobs, bool usual, struct json_object *metrics)
{
    for (size_t i = 0; i < jobs->count; i++) {
        if (!jobs->jobs[i].curves)
            continue;
        json_object_object_foreach (jobs->jobs[i].curves, metric, curve) {
            if (curve_is_drawn(curve) && kind_is_usual(metric_kind(metric)) == usual)
                json_set_bool(metrics, metric, true);
        }
    }
}

void report_add_common_curves(struct json_object *document, const struct report_jobs *jobs)
{
    JSON_AUTO struct json_object *metrics = json_object_new_object();
    char title[512];

    metrics_collect(jobs, true, metrics);
    metrics_collect(jobs, false, metrics);
    if (json_object_object_length(metrics) > 0)
        document_heading(document, 3, "Curves");
    json_object_object_foreach (metrics, metric, unused) {
        struct json_object *figure = document_figure(document, metric, "step");

        (void)unused;
        for (size_t i = 0; i < jobs->count; i++) {
            struct json_object *curve = json_get(jobs->jobs[i].curves, metric);

            if (curve_is_drawn(curve))
                document_curve(figure, report_job_title(&jobs->jobs[i], title, sizeof title),
                               curve);
        }
    }
}
