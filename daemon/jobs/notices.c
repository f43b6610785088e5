/* notices.c: see notices.h. */
#include "daemon/jobs/notices.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/folder/job_cgroup.h"
#include "daemon/jobs/job_warning.h"
#include "daemon/jobs/notify.h"
#include "daemon/jobs/notify_queue.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"

#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_PASSED = 124, TIMEOUT_KILLED = 137 }; /* exit statuses of timeout(1) */

/* One command, from its launch to its end. */
struct notice {
    struct notice *next;
    struct jobs *jobs;
    uv_work_t work;
    struct attempt_launch launch;
    struct error error;
    int result;
    uv_pipe_t pipe; /* to the shim */
    uv_write_t request;
    struct varlink_frames frames;
};

static const char *notice_name(const struct notice *notice)
{
    switch (notice->launch.attempt) {
    case NOTIFY_END:
        return "notify.end";
    case NOTIFY_FAILURE:
        return "notify.failure";
    default:
        return "IdleCommand";
    }
}

static void notice_free(struct notice *notice)
{
    struct jobs *jobs = notice->jobs;
    uid_t uid = notice->launch.uid;

    varlink_frames_release(&notice->frames);
    attempt_launch_release(&notice->launch);
    free(notice);
    notify_queue_give_back(jobs, uid);
}

/* ---- what went wrong ------------------------------------------------------------------------- */

static void notice_complain(struct notice *notice, const char *what)
{
    char sentence[JOB_REASON_MAX];

    snprintf(sentence, sizeof sentence, "the command of %s %s", notice_name(notice), what);
    if (notice->launch.job == 0 || notice->jobs->stopping)
        log_warning("job %lld: %s", (long long)notice->launch.job, sentence);
    else
        job_warn(notice->jobs->daemon, notice->launch.job, notice->launch.last_attempt, sentence);
}

static void take_end(struct notice *notice, struct json_object *record)
{
    const char *message = json_get_string(record, "message", NULL);
    int status = (int)json_get_int(record, "exit_status", 0);
    int signal = (int)json_get_int(record, "signal", 0);
    char text[JOB_REASON_MAX - 64], where[64];

    snprintf(where, sizeof where, "what it printed is in %lld.%lld/log of the job's folder",
             (long long)notice->launch.job, (long long)notice->launch.attempt);
    if (message)
        snprintf(text, sizeof text, "could not be started: %.300s", message);
    else if (status == TIMEOUT_PASSED || status == TIMEOUT_KILLED)
        snprintf(text, sizeof text, "was ended because it took longer than %d seconds; %s",
                 NOTIFY_SECONDS, where);
    else if (status == 127)
        snprintf(text, sizeof text,
                 "was not found: give its path, or a PATH that has it in the job's environment; %s",
                 where);
    else if (status != 0)
        snprintf(text, sizeof text, "failed with exit status %d; %s", status, where);
    else if (signal != 0)
        snprintf(text, sizeof text, "was ended by signal %d; %s", signal, where);
    else
        return;
    notice_complain(notice, text);
}

/* ---- waiting for its end --------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    notice_free(handle->data);
}

/* Closes the connection; the shim then writes its record and ends. */
static void notice_close(struct notice *notice)
{
    struct notice **place = &notice->jobs->notices;

    while (*place && *place != notice)
        place = &(*place)->next;
    if (!*place)
        return; /* closed already */
    *place = notice->next;
    uv_close((uv_handle_t *)&notice->pipe, on_closed);
}

static void on_read_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct notice *notice = handle->data;
    size_t size;

    (void)suggested;
    if (varlink_frames_space(&notice->frames, &buffer->base, &size) < 0)
        *buffer = uv_buf_init(NULL, 0); /* libuv reports UV_ENOBUFS */
    else
        buffer->len = size;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct notice *notice = stream->data;
    struct varlink_reply reply;
    const char *message;
    size_t length;
    int result = size;

    (void)buffer;
    if (size > 0) {
        varlink_frames_added(&notice->frames, (size_t)size);
        result = varlink_frames_next(&notice->frames, &message, &length);
    }
    if (size == 0 || (size > 0 && result == 0)) /* the message is not complete yet */
        return;
    if (result > 0 && varlink_reply_parse(message, length, &reply, NULL) == 0) {
        job_cgroup_remove(notice->launch.job, notice->launch.attempt);
        take_end(notice, json_get(reply.parameters, "exit"));
        varlink_reply_release(&reply);
    } else {
        notice_complain(notice, "was given up: its shim was killed");
    }
    notice_close(notice);
}

static void on_written(uv_write_t *request, int status)
{
    (void)request; /* if the shim is gone, reading its answer tells so */
    (void)status;
}

static void notice_wait(struct notice *notice)
{
    static char text[] = "{\"method\":\"io.traind.Worker.Wait\"}";
    uv_buf_t buffer = uv_buf_init(text, sizeof text);
    struct jobs *jobs = notice->jobs;

    uv_pipe_init(jobs->daemon->loop, &notice->pipe, 0);
    notice->pipe.data = notice;
    notice->next = jobs->notices;
    jobs->notices = notice;
    if (uv_pipe_open(&notice->pipe, notice->launch.socket) < 0) {
        close(notice->launch.socket);
        notice_close(notice);
        return;
    }
    if (uv_write(&notice->request, (uv_stream_t *)&notice->pipe, &buffer, 1, on_written) < 0 ||
        uv_read_start((uv_stream_t *)&notice->pipe, on_read_buffer, on_read) < 0)
        notice_close(notice);
}

void notices_stop(struct jobs *jobs)
{
    while (jobs->notices)
        notice_close(jobs->notices);
}

/* ---- starting -------------------------------------------------------------------------------- */

static void notice_work(uv_work_t *work)
{
    struct notice *notice = work->data;

    notice->result = attempt_launch_run(&notice->launch, &notice->error);
}

static void on_started(uv_work_t *work, int status)
{
    struct notice *notice = work->data;
    char text[JOB_REASON_MAX - 64];

    (void)status; /* never cancelled */
    if (notice->result == 0 && !notice->jobs->stopping) {
        notice_wait(notice);
        return;
    }
    if (notice->result < 0) {
        snprintf(text, sizeof text, "could not be started: %.300s", notice->error.text);
        notice_complain(notice, text);
    } else {
        close(notice->launch.socket);
    }
    notice_free(notice);
}

/* Looks for timeout(1) in the usual places, because the job's PATH may lack it. */
static const char *timeout_program(void)
{
    static const char *const programs[] = {"/usr/bin/timeout", "/bin/timeout"};

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (access(programs[i], X_OK) == 0)
            return programs[i];
    return "timeout";
}

/* Puts timeout(1) before the command, which ends it when it takes too long. The shim ends the
 * processes that remain. */
static struct json_object *limited(struct json_object *command)
{
    struct json_object *made = json_object_new_array();
    char text[48];

    json_object_array_add(made, json_object_new_string(timeout_program()));
    snprintf(text, sizeof text, "--kill-after=%d", NOTIFY_GRACE_SECONDS);
    json_object_array_add(made, json_object_new_string(text));
    snprintf(text, sizeof text, "%d", NOTIFY_SECONDS);
    json_object_array_add(made, json_object_new_string(text));
    for (size_t i = 0; i < json_object_array_length(command); i++)
        json_object_array_add(made, json_object_get(json_object_array_get_idx(command, i)));
    return made;
}

void notice_start(struct jobs *jobs, const struct notice_order *order)
{
    struct notice *notice = memory_zero(sizeof *notice);

    notice->jobs = jobs;
    notice->work.data = notice;
    notice->launch = (struct attempt_launch){
        .warm = -1,
        .state_directory = jobs->daemon->state_directory,
        .drivers = jobs->daemon->devices->drivers,
        .config = &jobs->daemon->config,
        .shim_path = jobs->daemon->shim_path,
        .worker_path = jobs->daemon->worker_path,
        .job = order->job,
        .attempt = order->folder,
        .notification = true,
        .last_attempt = order->attempts,
        .uid = order->uid,
        .kind = JOB_COMMAND,
        .threads = 1,
        .tasks_max = job_tasks_max(jobs->daemon->config.tasks_max),
        .descriptors_max = jobs->daemon->job_descriptors,
        .oom_score_adjust = jobs->daemon->config.oom_score_adjust,
        .spec = json_object_new_object(),
    };
    json_set(notice->launch.spec, "command", limited(order->command));
    if (order->directory)
        json_set_string(notice->launch.spec, "directory", order->directory);
    json_set(notice->launch.spec, "environment", order->environment);
    daemon_queue_work(jobs->daemon, &notice->work, notice_work, on_started);
}
