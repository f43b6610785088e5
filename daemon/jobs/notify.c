/* notify.c: see notify.h. */
#include "daemon/jobs/notify.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/jobs/notices.h"
#include "daemon/jobs/notify_queue.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/jobs/transition.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"

#include <stdlib.h>
#include <string.h>

struct notification {
    struct jobs *jobs;
    int64_t job;
    uid_t owner;                   /* the user whose place in the queue it has */
    struct json_object *spec;      /* the job's; owned */
    struct json_object *variables; /* what the command is told about the job; owned */
    uid_t uid;
    int64_t attempts;
    bool failed;
};

/* ---- what a job wants ------------------------------------------------------------------------ */

static void notification_free(struct notification *notification)
{
    json_object_put(notification->spec);
    json_object_put(notification->variables);
    free(notification);
}

static int notification_read(struct store_connection *connection, void *data, struct error *error)
{
    static const char *const variables[JOB_END_TEXTS] = {[JOB_END_NAME] = "TRAIND_NAME",
                                                         [JOB_END_STATE] = "TRAIND_STATE",
                                                         [JOB_END_REASON] = "TRAIND_REASON",
                                                         [JOB_END_DEVICE] = "TRAIND_DEVICE",
                                                         [JOB_END_EXIT_STATUS] =
                                                             "TRAIND_EXIT_STATUS"};
    struct notification *notification = data;
    struct job_end end;
    int result = job_end_read(connection, notification->job, &end, error);

    if (result == 0) {
        notification->variables = json_object_new_object();
        for (int i = 0; i < JOB_END_TEXTS; i++)
            json_set_string(notification->variables, variables[i], end.texts[i]);
        notification->failed = end.state == JOB_FAILED;
        notification->uid = end.uid;
        notification->attempts = end.attempts;
        notification->spec = json_object_get(end.spec);
    }
    job_end_release(&end);
    return result;
}

/* The job's own variables, and over them those that tell about its end. */
static struct json_object *environment_make(const struct notification *notification)
{
    struct json_object *made = json_object_new_object();
    struct json_object *sources[] = {json_get(notification->spec, "environment"),
                                     notification->variables};

    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (!sources[i])
            continue;
        json_object_object_foreach (sources[i], name, value) {
            json_set(made, name, json_object_get(value));
        }
    }
    return made;
}

static void notify_by(const struct notification *notification, int folder,
                      struct json_object *command)
{
    struct notice_order order = {
        .job = notification->job,
        .attempts = notification->attempts,
        .folder = folder,
        .uid = notification->uid,
        .command = command,
        .directory = json_get_string(notification->spec, "directory", NULL),
        .environment = environment_make(notification),
    };

    notify_queue_take(notification->jobs, order.uid);
    notice_start(notification->jobs, &order);
}

static void on_notification_read(void *data, int result, const struct error *error)
{
    struct notification *notification = data;
    struct jobs *jobs = notification->jobs;
    struct json_object *notify = json_get(notification->spec, "notify");
    struct json_object *end = json_get(notify, "end"), *failure = json_get(notify, "failure");

    if (result < 0)
        log_warning("job %lld: the commands that its end runs cannot be read: %s",
                    (long long)notification->job, error->text);
    if (result == 0 && !jobs->stopping && end)
        notify_by(notification, NOTIFY_END, end);
    if (result == 0 && !jobs->stopping && failure && notification->failed)
        notify_by(notification, NOTIFY_FAILURE, failure);
    notify_queue_give_back(jobs, notification->owner);
    notification_free(notification);
}

void notify_of_end(struct jobs *jobs, int64_t job, uid_t uid)
{
    struct notification *notification = memory_zero(sizeof *notification);

    notification->owner = uid;
    notification->jobs = jobs;
    notification->job = job;
    store_read(jobs->daemon->store, notification_read, on_notification_read, notification);
}

/* ---- when no job is left -------------------------------------------------------------------- */

/* Splits the text at spaces and tabs; there is no shell and no quoting. */
static struct json_object *words_split(const char *text)
{
    struct json_object *words = json_object_new_array();
    AUTO_FREE char *copy = memory_copy_text(text);
    char *rest = NULL;

    for (char *word = strtok_r(copy, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
        json_object_array_add(words, json_object_new_string(word));
    return words;
}

static void notify_of_idleness(struct jobs *jobs)
{
    const char *text = jobs->daemon->config.idle_command;
    JSON_AUTO struct json_object *command = NULL;

    if (!text || !*text)
        return;
    command = words_split(text);
    if (json_object_array_length(command) > 0) {
        notify_queue_take(jobs, geteuid());
        notice_start(jobs, &(struct notice_order){.folder = NOTIFY_IDLE,
                                                  .uid = geteuid(),
                                                  .command = command,
                                                  .directory = "/",
                                                  .environment = json_object_new_object()});
    }
}

void jobs_notify(struct jobs *jobs, const struct transition *transition)
{
    if (transition->update.changes_state && job_state_is_final(transition->update.to) &&
        transition->notifies)
        notify_queue_add(jobs, transition->update.job, transition->uid);
    if (jobs->busy && jobs->table->count == 0 && sweeps_are_done(jobs)) {
        jobs->busy = false;
        notify_of_idleness(jobs);
    }
}
