/* link.c: see link.h. */
#include "daemon/attempts/link.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/own_cores.h"
#include "daemon/attempts/stop.h"
#include "daemon/attempts/suspension.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEK_PAUSE_MILLISECONDS = 10, /* between two searches for a shim; doubles with each */
    SEEK_PAUSE_MAX_MILLISECONDS = 500,
    SEEK_PATIENCE_SECONDS = 60, /* a shim makes its socket 50 ms after its start */
};

void attempt_link_init(struct attempt_link *link)
{
    link->socket = -1;
    link->shim = -1;
}

void attempt_link_release(struct attempt_link *link)
{
    if (link->shim >= 0)
        close(link->shim);
    varlink_frames_release(&link->frames);
}

/* ---- search ---------------------------------------------------------------------------------- */

/* Finds out whether the shim lives, and connects to it. If it does not live, finds out what has
 * become of its job. */
static void seek_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;
    struct attempt_place place = attempt_place(attempt);

    attempt->link.trace = attempt_examine(&place, &attempt->exit);
    if (attempt->link.trace == ATTEMPT_ALIVE) {
        attempt->link.socket = attempt_connect(&place, &attempt->link.error);
    } else if (attempt->link.trace != ATTEMPT_UNKNOWN &&
               attempt_kill_processes(&place)) { /* a shim that was killed has left processes */
        json_object_put(attempt->exit);
        attempt->exit = NULL;
        attempt->link.trace = ATTEMPT_ALIVE;
        error_set(&attempt->link.error, -EBUSY, "it has left processes, which are being killed");
    }
}

static void on_seek_due(uv_timer_t *timer)
{
    attempt_link_seek(timer->data);
}

/* Schedules another search: the shim has not made its socket yet, or has too many callers, or
 * processes that a killed shim left are dying. */
static void seek_again(struct attempt *attempt)
{
    double now = clock_now();

    if (attempt->link.sought_since == 0 || attempt->link.trace == ATTEMPT_UNKNOWN ||
        file_opens_later(attempt->link.error.code)) /* that is not the shim's fault */
        attempt->link.sought_since = now;
    if (now - attempt->link.sought_since > SEEK_PATIENCE_SECONDS && !attempt->forced) {
        log_warning("job %lld, attempt %lld: its shim cannot be reached, so it is killed: %s",
                    (long long)attempt->job_id, (long long)attempt->number,
                    attempt->link.error.text);
        attempt_force(attempt);
    }
    attempt->link.seek_pause = 2 * attempt->link.seek_pause;
    if (attempt->link.seek_pause < SEEK_PAUSE_MILLISECONDS)
        attempt->link.seek_pause = SEEK_PAUSE_MILLISECONDS;
    if (attempt->link.seek_pause > SEEK_PAUSE_MAX_MILLISECONDS)
        attempt->link.seek_pause = SEEK_PAUSE_MAX_MILLISECONDS;
    attempt_timer_start(attempt, &attempt->link.seek, on_seek_due, attempt->link.seek_pause);
}

static void on_sought(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;
    int descriptor = TAKE_DESCRIPTOR(attempt->link.socket);
    struct json_object *record = TAKE_POINTER(attempt->exit);

    (void)status;
    attempt->working = false;
    if (attempt->detached) {
        if (descriptor >= 0)
            close(descriptor);
        attempt_release(attempt);
    } else if (descriptor >= 0) {
        attempt->link.sought_since = 0;
        attempt->link.seek_pause = 0;
        attempt_link_connect(attempt, descriptor);
    } else if (attempt->link.trace == ATTEMPT_ALIVE || attempt->link.trace == ATTEMPT_UNKNOWN) {
        seek_again(attempt);
    } else {
        attempt->never_started = attempt->link.trace == ATTEMPT_NEVER_STARTED;
        attempt->ended = clock_now();
        if (record)
            attempt_take_exit(attempt, record);
        else
            attempt_is_gone(attempt);
    }
    json_object_put(record);
}

void attempt_link_seek(struct attempt *attempt)
{
    attempt->link.work.data = attempt;
    attempt->working = true;
    attempt->link.socket = -1;
    daemon_queue_work(attempt->daemon, &attempt->link.work, seek_work, on_sought);
}

/* ---- connection ------------------------------------------------------------------------------ */

void attempt_link_close(struct attempt *attempt)
{
    if (!attempt->link.is_open)
        return;
    attempt->link.is_open = false;
    uv_close((uv_handle_t *)&attempt->link.pipe, attempt_handle_closed);
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct message_write {
    uv_write_t request;
    char text[];
};

static void on_message_written(uv_write_t *request, int status)
{
    (void)status; /* if the shim is gone, the next read tells so */
    free(request);
}

/* Sends a copy of `text`. */
static void worker_send(struct attempt *attempt, const char *text, size_t size)
{
    struct message_write *message = malloc(sizeof *message + size);
    uv_buf_t buffer;

    if (!message)
        return;
    memcpy(message->text, text, size);
    buffer = uv_buf_init(message->text, (unsigned)size);
    if (uv_write(&message->request, (uv_stream_t *)&attempt->link.pipe, &buffer, 1,
                 on_message_written) < 0)
        free(message);
}

void attempt_link_stop(struct attempt *attempt, int signal_number, double grace_seconds)
{
    char text[256];
    int length;

    if (!attempt->link.is_open)
        return;
    /* oneway: the shim obeys at once, although this connection's Wait has no answer yet */
    length = snprintf(text, sizeof text,
                      "{\"method\":\"io.traind.Worker.Stop\",\"oneway\":true,"
                      "\"parameters\":{\"grace_seconds\":%.3f,\"signal\":%d}}",
                      grace_seconds, signal_number);
    worker_send(attempt, text, (size_t)length + 1);
}

void attempt_link_call(struct attempt *attempt, const char *method, struct json_object *parameters)
{
    struct json_object *call = json_object_new_object();
    const char *text;
    size_t length;

    json_set_string(call, "method", method);
    json_set_bool(call, "oneway", true);
    json_set(call, "parameters", parameters);
    text = json_text(call, &length);
    if (attempt->link.is_open)
        worker_send(attempt, text, length + 1);
    json_object_put(call);
}

/* Asks for Status, then for Wait, whose answer tells the end. */
static void worker_ask(struct attempt *attempt)
{
    static const char text[] =
        "{\"method\":\"io.traind.Worker.Status\"}\0{\"method\":\"io.traind.Worker.Wait\"}";

    worker_send(attempt, text, sizeof text);
}

static void worker_wait(struct attempt *attempt)
{
    static const char text[] = "{\"method\":\"io.traind.Worker.Wait\"}";

    worker_send(attempt, text, sizeof text);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Opens a descriptor for the shim's process, so that no signal reaches a later process with the
 * same number. */
static void take_shim(struct attempt *attempt, struct json_object *parameters)
{
    uv_os_fd_t socket;

    if (attempt->link.shim >= 0 || uv_fileno((uv_handle_t *)&attempt->link.pipe, &socket) < 0)
        return;
    attempt->link.shim = attempt_shim_open((pid_t)json_get_int(parameters, "shim", 0), socket);
}

static void take_status(struct attempt *attempt, struct json_object *parameters)
{
    attempt->link.status_received = true;
    attempt->link.can_suspend = json_get(parameters, "suspension") != NULL;
    take_shim(attempt, parameters);
    attempt->claim.pid = (pid_t)json_get_int(parameters, "pid", 0);
    if (attempt->started == 0)
        attempt->started = clock_now();
    if (attempt->claim.pid > 0)
        attempt_deadline_start(attempt, attempt->started);
    if (attempt->claim.pid > 0)
        attempt_find_cores(attempt);
    if (attempt->claim.pid > 0)
        spool_ingest_begin(attempt, attempt->started_here);
    if (attempt->claim.pid > 0 && attempt->events->started)
        attempt->events->started(attempt);
    if (attempt->intent != ENDING_NONE && !attempt->intent_is_unstored) {
        /* the stop was requested before the trainee ran */
        attempt_deadline_start(attempt, attempt->started);
        attempt_ask_to_stop(attempt);
    }
}

static void take_reply(struct attempt *attempt, const struct varlink_reply *reply)
{
    struct json_object *record = json_get(reply->parameters, "exit");
    struct json_object *suspension = json_get(reply->parameters, "suspension");
    bool is_status = json_get(reply->parameters, "shim") != NULL;
    bool is_first = !attempt->link.status_received && !reply->error;

    if (is_first && suspension)
        attempt_suspension_found(attempt, suspension);
    if (is_first)
        take_status(attempt, reply->parameters);
    if (suspension && !record && !attempt->exit)
        attempt_suspension_take(attempt, suspension);
    if (suspension && !record && !is_status)
        worker_wait(attempt); /* this was the answer to the last Wait */
    if (is_first)
        return;
    if (is_status && attempt->intent != ENDING_NONE && !attempt->intent_is_unstored)
        attempt_ask_to_stop(attempt); /* the connection is new, and the stop was requested before */
    else if (!attempt->exit && record)
        attempt_take_exit(attempt, record);
}

static void on_read_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct attempt *attempt = handle->data;
    size_t size;

    (void)suggested;
    if (varlink_frames_space(&attempt->link.frames, &buffer->base, &size) < 0)
        *buffer = uv_buf_init(NULL, 0); /* libuv reports UV_ENOBUFS */
    else
        buffer->len = size;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct attempt *attempt = stream->data;
    const char *message;
    size_t length;
    int result = 0;

    (void)buffer;
    if (size > 0)
        varlink_frames_added(&attempt->link.frames, (size_t)size);
    while (size > 0 &&
           (result = varlink_frames_next(&attempt->link.frames, &message, &length)) > 0) {
        struct varlink_reply reply;

        result = varlink_reply_parse(message, length, &reply, NULL);
        if (result < 0)
            break;
        take_reply(attempt, &reply);
        varlink_reply_release(&reply);
    }
    if (size < 0 || result < 0) {
        attempt_link_close(attempt);
        if (!attempt->exit && !attempt->detached)
            attempt_link_seek(attempt);
    }
}

void attempt_link_connect(struct attempt *attempt, int descriptor)
{
    varlink_frames_release(&attempt->link.frames);
    attempt->link.frames = (struct varlink_frames){0};
    uv_pipe_init(attempt->daemon->loop, &attempt->link.pipe, 0);
    attempt->link.pipe.data = attempt;
    attempt->link.is_open = true;
    attempt->open_handles++;
    if (uv_pipe_open(&attempt->link.pipe, descriptor) < 0)
        close(descriptor);
    worker_ask(attempt);
    if (uv_read_start((uv_stream_t *)&attempt->link.pipe, on_read_buffer, on_read) < 0) {
        attempt_link_close(attempt);
        attempt_link_seek(attempt);
    }
}

static void on_acknowledged(uv_write_t *request, int status)
{
    struct attempt *attempt = request->data;

    (void)status;
    free(request);
    attempt_link_close(attempt);
}

void attempt_link_acknowledge(struct attempt *attempt)
{
    /* oneway: the shim ends at once, so nothing would read its answer */
    static char text[] = "{\"method\":\"io.traind.Worker.Acknowledge\",\"oneway\":true}";
    uv_write_t *request = malloc(sizeof *request);
    uv_buf_t buffer = uv_buf_init(text, sizeof text);

    if (!request) {
        attempt_link_close(attempt);
        return;
    }
    request->data = attempt;
    uv_read_stop((uv_stream_t *)&attempt->link.pipe);
    if (uv_write(request, (uv_stream_t *)&attempt->link.pipe, &buffer, 1, on_acknowledged) < 0) {
        free(request);
        attempt_link_close(attempt);
    }
}
