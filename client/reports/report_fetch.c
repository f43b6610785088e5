/* report_fetch.c: fetches what a report says of jobs: Show, Explain, and curves in buckets, so that
 * a job of millions of steps costs what a short one costs. */
#include "client/connection/connection.h"
#include "client/connection/sweep.h"
#include "client/reports/figure_svg.h"
#include "client/reports/report.h"
#include "client/view/job.h"

#include <stdlib.h>
#include <string.h>

static struct json_object *parameters_of(int64_t id)
{
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", id);
    return parameters;
}

static enum exit_status ask(struct invocation *invocation, const char *method,
                            struct json_object *parameters, struct json_object **answer)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status = connection_call(invocation, method, parameters, &reply);

    if (!status)
        *answer = json_object_get(reply.parameters);
    return status;
}

/* ---- the jobs ------------------------------------------------------------------------------ */

/* Adds a job, unless it is one of the first `known` ones. */
static enum exit_status job_add(struct report_jobs *jobs, size_t known, int64_t id)
{
    struct report_job *grown;

    for (size_t i = 0; i < known; i++)
        if (jobs->jobs[i].id == id)
            return EXIT_STATUS_DONE;
    grown = reallocarray(jobs->jobs, jobs->count + 1, sizeof *grown);
    if (!grown) {
        complain("not enough memory for %zu jobs", jobs->count + 1);
        return EXIT_STATUS_FAILED;
    }
    jobs->jobs = grown;
    grown[jobs->count++] = (struct report_job){.id = id};
    return EXIT_STATUS_DONE;
}

static enum exit_status jobs_find(struct invocation *invocation, struct report_jobs *jobs)
{
    enum exit_status status = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count && !status; i++) {
        struct id_list list = {0};
        size_t known = jobs->count; /* a sweep has each of its jobs once */

        status = sweep_append_ids(invocation, invocation->arguments[i], &list);
        for (size_t k = 0; k < list.count && !status; k++)
            status = job_add(jobs, known, list.ids[k]);
        if (!status && list.count == 0) {
            complain("%s has no jobs", invocation->arguments[i]);
            status = EXIT_STATUS_FAILED;
        }
        free(list.ids);
    }
    return status;
}

/* ---- curves -------------------------------------------------------------------------------- */

static enum exit_status curve_fetch(struct invocation *invocation, struct report_job *job,
                                    const char *metric)
{
    struct json_object *parameters = parameters_of(job->id), *curve = NULL;
    enum exit_status status;

    json_set_string(parameters, "name", metric);
    json_set_int(parameters, "points", FIGURE_POINTS);
    status = ask(invocation, "Curve", parameters, &curve);
    if (!status)
        json_set(job->curves, metric, curve);
    return status;
}

static enum exit_status curves_fetch(struct invocation *invocation, struct report_job *job,
                                     struct json_object *names)
{
    struct json_object *metrics = json_get(json_get(job->shown, "job"), "metrics");
    enum exit_status status = EXIT_STATUS_DONE;
    size_t count = names ? json_object_array_length(names) : 0, fetched = 0;

    job->curves = json_object_new_object();
    for (size_t i = 0; i < count && !status; i++)
        status = curve_fetch(invocation, job,
                             json_object_get_string(json_object_array_get_idx(names, i)));
    if (names || !metrics)
        return status;
    json_object_object_foreach (metrics, name, value) {
        (void)value;
        if (!status && fetched++ < REPORT_METRICS)
            status = curve_fetch(invocation, job, name);
    }
    return status;
}

/* Whether a job has values of the metric. A curve of none has no steps. */
static bool metric_has_values(const struct report_jobs *jobs, const char *metric)
{
    for (size_t i = 0; i < jobs->count; i++) {
        struct json_object *steps = json_get(json_get(jobs->jobs[i].curves, metric), "steps");

        if (steps && json_object_array_length(steps) > 0)
            return true;
    }
    return false;
}

/* Tells which of the metrics that --name lists no job has: the report has the others. */
static void absent_complain(const struct report_jobs *jobs, struct json_object *names)
{
    size_t count = names ? json_object_array_length(names) : 0;

    for (size_t i = 0; i < count && jobs->count <= REPORT_CURVES_JOBS; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));

        if (!metric_has_values(jobs, name))
            complain("there are no values of %s", name);
    }
}

/* Frees what the tables of many jobs do not say. */
static void unused_drop(struct json_object *shown)
{
    static const char *const unused[] = {"plan", "dependencies", "warnings"};

    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        json_object_object_del(shown, unused[i]);
}

enum exit_status report_jobs_fetch(struct invocation *invocation, struct json_object *names,
                                   struct report_jobs *jobs)
{
    enum exit_status status = jobs_find(invocation, jobs);

    for (size_t i = 0; i < jobs->count && !status; i++) {
        struct report_job *job = &jobs->jobs[i];

        status = ask(invocation, "Show", parameters_of(job->id), &job->shown);
        if (!status && jobs->count <= REPORT_DETAILED_JOBS)
            status = ask(invocation, "Explain", parameters_of(job->id), &job->explained);
        if (!status && jobs->count > REPORT_DETAILED_JOBS)
            unused_drop(job->shown);
        if (!status)
            job_complete_metrics(json_get(job->shown, "job"));
        if (!status && jobs->count <= REPORT_CURVES_JOBS)
            status = curves_fetch(invocation, job, names);
    }
    if (!status)
        absent_complain(jobs, names);
    return status;
}

void report_jobs_release(struct report_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++) {
        json_object_put(jobs->jobs[i].shown);
        json_object_put(jobs->jobs[i].explained);
        json_object_put(jobs->jobs[i].curves);
    }
    free(jobs->jobs);
    *jobs = (struct report_jobs){0};
}
