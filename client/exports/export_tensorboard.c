/* export_tensorboard.c: see export_jobs.h. With --follow a stream of Watch tells when a job begins
 * and ends. It does not tell of metrics, so those of jobs that run are asked for once a second. */
#include "base/cleanup.h"
#include "base/text.h"
#include "client/connection/metric_pages.h"
#include "client/connection/stream.h"
#include "client/exports/export_jobs.h"
#include "client/exports/tensorboard.h"
#include "client/view/job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { READ_MILLISECONDS = 1000 };
enum { HYPERPARAMETERS_MAX = 200, HYPERPARAMETER_BYTES = 200 };

struct exported_job {
    int64_t id;
    struct tensorboard_run run;
    struct json_object *shown; /* the last reply of Show; owned */
    int64_t values_before;     /* that an earlier export wrote */
    bool open;                 /* `run` is */
    bool runs;                 /* metrics may arrive */
    bool due;                  /* something may be new */
    bool finished;             /* nothing will be */
};

struct tensorboard_export {
    struct invocation *invocation;
    const char *directory;
    struct exported_job *jobs;
    size_t count, finished;
    enum exit_status worst;
};

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* Adds a key of the specification unless its value is too long for a table. */
static void hyperparameter_add(struct json_object *to, const char *path, struct json_object *value)
{
    size_t length = 0;

    (void)json_text(value, &length);
    if (length <= HYPERPARAMETER_BYTES && json_object_object_length(to) < HYPERPARAMETERS_MAX)
        json_set(to, path, json_object_get(value));
}

/* The keys that the job's sweep varies, then those of `model` and `train`. The caller owns it. */
static struct json_object *hyperparameters_new(struct invocation *invocation,
                                               struct json_object *shown)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    JSON_AUTO struct json_object *flat = json_object_new_object();
    struct json_object *found = json_object_new_object(), *axes = NULL;
    int64_t sweep = json_get_int(json_get(shown, "job"), "sweep", 0);

    json_flatten(json_get(shown, "spec"), "", flat);
    if (sweep) {
        struct json_object *parameters = json_object_new_object();

        json_set_int(parameters, "id", sweep);
        if (connection_try(invocation, "ShowSweep", parameters, &reply))
            axes = json_get(reply.parameters, "axes");
    }
    json_object_object_foreach (flat, varied, its_value)
        if (axes && json_object_object_get_ex(axes, varied, NULL))
            hyperparameter_add(found, varied, its_value);
    json_object_object_foreach (flat, path, value)
        if (strncmp(path, "model", 5) == 0 || strncmp(path, "train.", 6) == 0)
            hyperparameter_add(found, path, value);
    return found;
}

/* ---- one job --------------------------------------------------------------------------------- */

static enum exit_status rows_take(void *context, struct json_object *rows, int64_t cursor)
{
    struct exported_job *job = context;
    struct error error = {0};

    if (tensorboard_write(&job->run, rows, cursor, job->shown, &error) == 0)
        return EXIT_STATUS_DONE;
    complain("%s", error.text);
    return EXIT_STATUS_FAILED;
}

static enum exit_status job_show(struct invocation *invocation, struct exported_job *job)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set_int(parameters, "id", job->id);
    status = connection_call(invocation, "Show", parameters, &reply);
    if (status)
        return status;
    json_object_put(job->shown);
    job->shown = json_object_get(reply.parameters);
    return EXIT_STATUS_DONE;
}

static enum exit_status job_open(struct tensorboard_export *export, struct exported_job *job)
{
    JSON_AUTO struct json_object *hyperparameters =
        hyperparameters_new(export->invocation, job->shown);
    struct error error = {0};

    if (tensorboard_open(&job->run, export->directory, job->shown, hyperparameters, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    job->open = true;
    job->values_before = job->run.file.mark.values;
    return EXIT_STATUS_DONE;
}

/* Prints what the job's run holds. */
static void job_report(struct tensorboard_export *export, const struct exported_job *job)
{
    int64_t values = job->run.file.mark.values;
    char folder[4096];

    if (export->invocation->json) {
        JSON_AUTO struct json_object *result = json_object_new_object();

        json_set_int(result, "id", job->id);
        json_set_string(result, "folder", job->open ? job->run.folder : NULL);
        json_set_int(result, "values", values);
        json_set_int(result, "new", values - job->values_before);
        json_print(result, stdout);
    } else if (!job->open) {
        printf("job %" PRId64 " has not begun: there is nothing to export yet\n", job->id);
    } else {
        printf("%s: %" PRId64 " values, %" PRId64 " of them new\n",
               text_escape_controls(job->run.folder, folder, sizeof folder), values,
               values - job->values_before);
    }
    fflush(stdout);
}

/* Reports the job, and closes its run: nobody else could write it meanwhile, and a process may have
 * only so many files open. */
static void job_finish(struct tensorboard_export *export, struct exported_job *job)
{
    job_report(export, job);
    if (job->open)
        tensorboard_close(&job->run);
    json_object_put(job->shown);
    job->shown = NULL;
    job->open = job->runs = false;
    job->finished = true;
    export->finished++;
}

/* Writes what is new of the job. The job is shown before its rows are read: if it had ended then,
 * there are no more. */
static enum exit_status job_write(struct tensorboard_export *export, struct exported_job *job)
{
    enum exit_status status = job_show(export->invocation, job);
    struct error error = {0};
    struct json_object *shown;
    bool begun;

    if (status)
        return status;
    shown = json_get(job->shown, "job");
    begun = json_get(shown, "started") || json_get_int(shown, "attempt", 0) > 0;
    if (!job->open && begun)
        status = job_open(export, job);
    if (!status && job->open)
        status = metric_pages_walk(export->invocation, job->id, NULL, job->run.next.cursor,
                                   rows_take, job);
    if (!status && job->open && tensorboard_end(&job->run, job->shown, &error) < 0) {
        complain("%s", error.text);
        status = EXIT_STATUS_FAILED;
    }
    job->due = false;
    if (!status && job_state_is_final(json_get_string(shown, "state", "")))
        job_finish(export, job);
    return status;
}

/* A job whose file cannot be written does not keep the others from being exported. */
static void job_give_up(struct tensorboard_export *export, struct exported_job *job,
                        enum exit_status status)
{
    if (job->open)
        tensorboard_close(&job->run);
    job->open = job->runs = job->due = false;
    job->finished = true;
    export->finished++;
    export->worst = status;
}

/* ---- all jobs -------------------------------------------------------------------------------- */

/* Writes what is new of every job for which `due` or `runs` is set. Returns EXIT_STATUS_UNREACHABLE
 * as soon as the daemon does not answer. */
static enum exit_status jobs_write(struct tensorboard_export *export)
{
    for (size_t i = 0; i < export->count; i++) {
        struct exported_job *job = &export->jobs[i];
        enum exit_status status;

        if (job->finished || !(job->due || job->runs))
            continue;
        status = job_write(export, job);
        if (status == EXIT_STATUS_UNREACHABLE)
            return status;
        if (status)
            job_give_up(export, job, status);
    }
    return EXIT_STATUS_DONE;
}

static struct json_object *watch_parameters(void *context)
{
    const struct tensorboard_export *export = context;
    struct json_object *parameters = json_object_new_object(), *ids = json_object_new_array();

    for (size_t i = 0; i < export->count; i++)
        json_object_array_add(ids, json_object_new_int64(export->jobs[i].id));
    json_set(parameters, "ids", ids);
    return parameters;
}

static void watch_receive(struct tensorboard_export *export, struct json_object *job)
{
    int64_t id = json_get_int(job, "id", 0);
    const char *state = json_get_string(job, "state", "");

    for (size_t i = 0; i < export->count; i++) {
        if (export->jobs[i].id != id)
            continue;
        export->jobs[i].due = true;
        export->jobs[i].runs = strcmp(state, "running") == 0 || strcmp(state, "preempting") == 0;
    }
}

static enum exit_status jobs_follow(struct tensorboard_export *export)
{
    struct stream watch = {.method = "Watch", .parameters = watch_parameters, .context = export};
    struct stream *const streams[] = {&watch};
    enum exit_status status = EXIT_STATUS_DONE;
    int signals = stream_signals_open();

    while (!status && export->finished < export->count) {
        struct varlink_reply reply = {0};
        enum stream_event event;

        while ((event = stream_next(&watch, export->invocation, &reply, &status)) == STREAM_REPLY) {
            watch_receive(export, json_get(reply.parameters, "job"));
            varlink_reply_release(&reply);
        }
        if (event == STREAM_FAILED)
            break;
        /* while the daemon is away, the stream tells of it and waits for it */
        if ((watch.client || watch.ended) && jobs_write(export) == EXIT_STATUS_UNREACHABLE &&
            watch.ended)
            status = EXIT_STATUS_UNREACHABLE;
        if (export->finished < export->count && !status &&
            stream_poll(streams, 1, signals, READ_MILLISECONDS) == POLL_DETACH)
            status = EXIT_STATUS_DETACHED;
    }
    stream_close(&watch);
    if (signals >= 0)
        close(signals);
    return status;
}

enum exit_status export_tensorboard(struct invocation *invocation, const char *directory,
                                    bool follow)
{
    struct tensorboard_export export = {.invocation = invocation, .directory = directory};
    AUTO_FREE int64_t *ids = NULL;
    enum exit_status status = export_find_jobs(invocation, &ids, &export.count);

    if (status)
        return status;
    export.jobs = calloc(export.count + 1, sizeof *export.jobs);
    if (!export.jobs) {
        complain("not enough memory for %zu jobs", export.count);
        return EXIT_STATUS_FAILED;
    }
    for (size_t i = 0; i < export.count; i++) {
        export.jobs[i].id = ids[i];
        export.jobs[i].run.file.descriptor = -1;
        export.jobs[i].due = true;
        if (follow)
            continue;
        status = job_write(&export, &export.jobs[i]);
        if (status)
            job_give_up(&export, &export.jobs[i], status);
        else if (!export.jobs[i].finished)
            job_finish(&export, &export.jobs[i]);
        if (status == EXIT_STATUS_UNREACHABLE)
            export.count = i + 1;
    }
    status = follow ? jobs_follow(&export) : EXIT_STATUS_DONE;
    for (size_t i = 0; i < export.count; i++) {
        if (!export.jobs[i].finished)
            job_finish(&export, &export.jobs[i]);
        json_object_put(export.jobs[i].shown);
    }
    free(export.jobs);
    return status ? status : export.worst;
}
