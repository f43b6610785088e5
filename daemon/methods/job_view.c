/* job_view.c: see job_view.h. */
#include "daemon/methods/job_view.h"

#include "daemon/jobs/forecast.h"
#include "daemon/jobs/jobs.h"
#include "daemon/types/job_types.h"
#include "daemon/work/job_rules.h"

static void set_count(struct json_object *object, const char *key, int64_t value)
{
    if (value < 0)
        json_set(object, key, NULL);
    else
        json_set_int(object, key, value);
}

/* Renews the reason. The row keeps the sentence of the moment when the kind of the reason last
 * changed. */
static void add_reason(struct daemon *daemon, struct json_object *job)
{
    char sentence[JOB_REASON_MAX];
    enum wait_reason wait_reason =
        jobs_explain_queued(daemon, json_get_int(job, "id", 0), sentence, sizeof sentence);

    if (wait_reason == WAIT_NONE)
        return;
    json_set_string(job, "wait_reason", wait_reason_to_string(wait_reason));
    json_set_string(job, "reason", sentence);
}

static void add_expected_start(struct daemon *daemon, struct json_object *job)
{
    const struct forecast_row *row = jobs_forecast_find(daemon, json_get_int(job, "id", 0));

    if (!row)
        return;
    json_set_int(job, "queue_position", row->position);
    json_set_double(job, "expected_start", row->start);
}

void job_view_add_progress(struct daemon *daemon, struct json_object *job)
{
    struct job_progress progress;
    struct json_object *object;
    int state = job_state_from_string(json_get_string(job, "state", ""));

    if (state == JOB_QUEUED) {
        add_reason(daemon, job);
        add_expected_start(daemon, job);
    }
    if (job_state_is_final(state) || !jobs_progress(daemon, json_get_int(job, "id", 0), &progress))
        return;
    object = json_object_new_object();
    json_set_int(object, "step", progress.step < 0 ? 0 : progress.step);
    set_count(object, "steps", progress.steps);
    json_set_double(object, "epoch", progress.epoch);
    set_count(object, "epochs", progress.epochs);
    json_set_double(object, "loss", progress.loss);
    json_set_double(object, "samples_per_second", progress.samples_per_second);
    json_set_double(object, "seconds_left", progress.seconds_left);
    json_set_double(object, "fraction", progress.fraction);
    json_set(job, "progress", object);
}

void job_view_hide(struct json_object *job)
{
    static const char *const hidden[] = {"reason", "exit_status", "progress", "best", "group",
                                         "sweep",  "stopped",     "pinned",   "ran",  "nonfinite"};

    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        json_set(job, hidden[i], NULL);
    json_set_string(job, "name", "");
    json_set(job, "metrics", json_object_new_object());
}
