/* worker.c: talks io.traind.Worker with the shim of an attempt, over the connection that
 * lasts as long as it does: asks what has become of it, waits for its end, acknowledges that. */
#include "base/clock.h"
#include "daemon/attempts/internal.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/work/job_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void attempt_worker_close(struct attempt *attempt)
{
    if (!attempt->pipe_open)
        return;
    attempt->pipe_open = false;
    uv_close((uv_handle_t *)&attempt->pipe, attempt_handle_closed);
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct message_write {
    uv_write_t request;
    char text[];
};

static void on_message_written(uv_write_t *request, int status)
{
    (void)status; /* a peer that is gone shows itself at the next read */
    free(request);
}

/* Sends what `text` holds. */
static void worker_send(struct attempt *attempt, const char *text, size_t size)
{
    struct message_write *message = malloc(sizeof *message + size);
    uv_buf_t buffer;

    if (!message)
        return;
    memcpy(message->text, text, size);
    buffer = uv_buf_init(message->text, (unsigned)size);
    if (uv_write(&message->request, (uv_stream_t *)&attempt->pipe, &buffer, 1, on_message_written) <
        0)
        free(message);
}

void attempt_worker_stop(struct attempt *attempt, int signal_number, double grace_seconds)
{
    char text[256];
    int length;

    if (!attempt->pipe_open)
        return;
    /* oneway: it is done at once, although a Wait of this connection has no answer yet */
    length = snprintf(text, sizeof text,
                      "{\"method\":\"io.traind.Worker.Stop\",\"oneway\":true,"
                      "\"parameters\":{\"grace_seconds\":%.3f,\"signal\":%d}}",
                      grace_seconds, signal_number);
    worker_send(attempt, text, (size_t)length + 1);
}

/* Status, then Wait, whose answer is the end. */
static void worker_ask(struct attempt *attempt)
{
    static const char text[] =
        "{\"method\":\"io.traind.Worker.Status\"}\0{\"method\":\"io.traind.Worker.Wait\"}";

    worker_send(attempt, text, sizeof text);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* What signals go to, whoever may have the shim's number later. */
static void take_shim(struct attempt *attempt, struct json_object *parameters)
{
    uv_os_fd_t socket;

    if (attempt->shim >= 0 || uv_fileno((uv_handle_t *)&attempt->pipe, &socket) < 0)
        return;
    attempt->shim = attempt_shim_open((pid_t)json_get_int(parameters, "shim", 0), socket);
}

static void take_status(struct attempt *attempt, struct json_object *parameters)
{
    attempt->status_received = true;
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
    if (attempt->intent != ENDING_NONE) { /* wanted before there was anything to stop */
        enum ending intent = attempt->intent;

        attempt->intent = ENDING_NONE;
        attempt_stop(attempt, intent);
    }
}

static void take_reply(struct attempt *attempt, const struct varlink_reply *reply)
{
    struct json_object *record = json_get(reply->parameters, "exit");

    if (!attempt->status_received && !reply->error)
        take_status(attempt, reply->parameters);
    else if (json_get(reply->parameters, "shim") && attempt->intent != ENDING_NONE)
        attempt_ask_to_stop(attempt); /* connected anew, after it was wanted */
    else if (!attempt->exit && record)
        attempt_take_exit(attempt, record);
}

static void on_read_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct attempt *attempt = handle->data;
    size_t size;

    (void)suggested;
    if (varlink_frames_space(&attempt->frames, &buffer->base, &size) < 0)
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
        varlink_frames_added(&attempt->frames, (size_t)size);
    while (size > 0 && (result = varlink_frames_next(&attempt->frames, &message, &length)) > 0) {
        struct varlink_reply reply;

        result = varlink_reply_parse(message, length, &reply, NULL);
        if (result < 0)
            break;
        take_reply(attempt, &reply);
        varlink_reply_release(&reply);
    }
    if (size < 0 || result < 0) {
        attempt_worker_close(attempt);
        if (!attempt->exit && !attempt->detached)
            attempt_seek(attempt);
    }
}

void attempt_worker_connect(struct attempt *attempt, int descriptor)
{
    varlink_frames_release(&attempt->frames);
    attempt->frames = (struct varlink_frames){0};
    uv_pipe_init(attempt->daemon->loop, &attempt->pipe, 0);
    attempt->pipe.data = attempt;
    attempt->pipe_open = true;
    attempt->open_handles++;
    if (uv_pipe_open(&attempt->pipe, descriptor) < 0)
        close(descriptor);
    worker_ask(attempt);
    if (uv_read_start((uv_stream_t *)&attempt->pipe, on_read_buffer, on_read) < 0) {
        attempt_worker_close(attempt);
        attempt_seek(attempt);
    }
}

static void on_acknowledged(uv_write_t *request, int status)
{
    struct attempt *attempt = request->data;

    (void)status;
    free(request);
    attempt_worker_close(attempt);
}

void attempt_worker_acknowledge(struct attempt *attempt)
{
    /* oneway: the shim goes at once and would write its answer to nobody */
    static char text[] = "{\"method\":\"io.traind.Worker.Acknowledge\",\"oneway\":true}";
    uv_write_t *request = malloc(sizeof *request);
    uv_buf_t buffer = uv_buf_init(text, sizeof text);

    if (!request) {
        attempt_worker_close(attempt);
        return;
    }
    request->data = attempt;
    uv_read_stop((uv_stream_t *)&attempt->pipe);
    if (uv_write(request, (uv_stream_t *)&attempt->pipe, &buffer, 1, on_acknowledged) < 0) {
        free(request);
        attempt_worker_close(attempt);
    }
}
