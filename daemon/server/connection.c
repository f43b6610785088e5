/* connection.c: reading, writing and closing of one client's connection. */
#include "daemon/server/connection.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/server/traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OUTPUT_FULL = 64 * 1024, /* bytes in the queue above which a stream waits and no call begins */
    DISCARD_TIMEOUT_MILLISECONDS = 2000 /* how long a client may read why the connection ends */
};

struct output {
    uv_write_t request;
    struct connection *connection;
    char bytes[]; /* the message's text and its NUL; JSON objects would take twenty times the
                   * memory */
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;

    if (--connection->open_handles > 0)
        return;
    varlink_frames_release(&connection->frames);
    free(connection->user);
    free(connection);
}

void connection_close(struct connection *connection)
{
    struct server *server = connection->server;

    if (connection->closing)
        return;
    connection->closing = true;
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    traffic_leave(connection);
    if (connection->call)
        call_abandon(TAKE_POINTER(connection->call));
    uv_close((uv_handle_t *)&connection->timer, on_handle_closed);
    uv_close((uv_handle_t *)&connection->pipe, on_handle_closed);
}

/* ---- output ---------------------------------------------------------------------------------- */

static bool has_room(const struct connection *connection)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&connection->pipe) < OUTPUT_FULL;
}

bool call_has_room(const struct call *call)
{
    /* output to a client that has gone takes no room: the handler must notice that and end */
    return !call->connection || has_room(call->connection);
}

static void on_written(uv_write_t *request, int status)
{
    struct output *output = (struct output *)request;
    struct connection *connection = output->connection;

    free(output);
    if (connection->closing)
        return;
    if (status < 0) {
        connection_close(connection);
        return;
    }
    if (connection->call && connection->call->on_room && call_has_room(connection->call))
        connection->call->on_room(connection->call);
    else if (connection->hang_up && !connection->call &&
             uv_stream_get_write_queue_size((uv_stream_t *)&connection->pipe) == 0)
        connection_close(connection);
    else if (!connection->call && has_room(connection))
        traffic_ready(connection);
}

static void on_broken(uv_timer_t *timer)
{
    connection_close(timer->data);
}

/* Closes the connection in the next turn of the loop, because the sender still holds pointers to
 * the call. */
static void connection_break(struct connection *connection)
{
    connection->hang_up = true; /* so nothing else sets the timer */
    uv_timer_start(&connection->timer, on_broken, 0, 0);
}

bool connection_send(struct connection *connection, struct json_object *message)
{
    size_t length = 0;
    const char *text = message ? json_text(message, &length) : NULL;
    bool too_long = text && length >= JSON_MESSAGE_MAX;
    struct output *output = text && !too_long ? malloc(sizeof *output + length + 1) : NULL;
    uv_buf_t bytes;

    if (output) {
        output->connection = connection;
        memcpy(output->bytes, text, length + 1); /* the NUL ends a message */
    }
    json_object_put(message);
    if (too_long)
        return false;
    if (output) {
        bytes = uv_buf_init(output->bytes, (unsigned)length + 1);
        if (uv_write(&output->request, (uv_stream_t *)&connection->pipe, &bytes, 1, on_written) ==
            0)
            return true;
    } else {
        log_error("no memory left for a reply of %zu bytes", length);
    }
    free(output);
    connection_break(connection);
    return true;
}

/* ---- input ----------------------------------------------------------------------------------- */

static void on_timeout(uv_timer_t *timer)
{
    struct connection *connection = timer->data;

    if (connection->ready)
        return; /* the rest has arrived and waits for its turn */
    log_debug("closing a connection of uid %u: the rest of its message did not come",
              (unsigned)connection->peer.uid);
    connection_close(connection);
}

static void start_timer(struct connection *connection, uint64_t milliseconds)
{
    if (!uv_is_active((uv_handle_t *)&connection->timer))
        uv_timer_start(&connection->timer, on_timeout, milliseconds, 0);
}

/* Tells the client the reason and gives it a moment to read that. Further input is discarded. */
static void refuse_long_message(struct connection *connection)
{
    struct json_object *parameters = json_object_new_object();

    json_set_string(parameters, "message",
                    "the message is longer than 1 MiB; send fewer specifications at once");
    connection->discarding = true;
    connection_send(connection, varlink_error_new("io.traind.MessageTooLarge", parameters));
    if (connection->closing)
        return;
    uv_timer_stop(&connection->timer);
    start_timer(connection, DISCARD_TIMEOUT_MILLISECONDS);
    varlink_frames_release(&connection->frames);
}

static void on_buffer_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    static char discarded[4096];
    struct connection *connection = handle->data;
    char *space;
    size_t size;

    (void)suggested;
    *buffer = uv_buf_init(NULL, 0); /* read callback gets UV_ENOBUFS */
    if (connection->discarding)
        *buffer = uv_buf_init(discarded, sizeof discarded);
    else if (varlink_frames_space(&connection->frames, &space, &size) == 0)
        *buffer = uv_buf_init(space, (unsigned)size);
}

static void pause_reading(struct connection *connection)
{
    uv_read_stop((uv_stream_t *)&connection->pipe);
    connection->paused = true;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;

    (void)buffer;
    if (size == 0)
        return;
    if (size == UV_ENOBUFS) { /* the buffer is full of whole messages, or of one that is too long */
        pause_reading(connection);
        traffic_ready(connection);
        return;
    }
    if (size == UV_EOF && (connection->ready || (connection->call && !connection->call->more))) {
        uv_read_stop(stream); /* the client may still read the answer */
        connection->end_of_input = true;
        return;
    }
    if (size < 0) {
        connection_close(connection);
        return;
    }
    if (connection->discarding)
        return;
    varlink_frames_added(&connection->frames, (size_t)size);
    if (!connection->call)
        traffic_ready(connection);
}

/* After the last whole message: resumes reading, and starts the timeout if the input holds a part
 * of a message. */
static void settle_input(struct connection *connection)
{
    if (connection->paused) {
        connection->paused = false;
        uv_read_start((uv_stream_t *)&connection->pipe, on_buffer_wanted, on_read);
    }
    if (connection->frames.start != connection->frames.end)
        start_timer(connection,
                    (uint64_t)(1000 * connection->server->daemon->config.message_timeout_seconds));
    else
        uv_timer_stop(&connection->timer);
}

/* Handles the input's state when it holds no whole message. */
static void end_of_messages(struct connection *connection, int result)
{
    if (result == -EMSGSIZE) {
        refuse_long_message(connection);
        if (!connection->closing && connection->paused)
            uv_read_start((uv_stream_t *)&connection->pipe, on_buffer_wanted, on_read);
    } else if (connection->end_of_input) {
        connection->hang_up = true;
        if (uv_stream_get_write_queue_size((uv_stream_t *)&connection->pipe) == 0)
            connection_close(connection);
    } else {
        settle_input(connection);
    }
}

void connection_serve(struct connection *connection)
{
    const char *message;
    size_t length;
    int result;

    if (connection->closing || connection->call || connection->hang_up || connection->discarding)
        return;
    if (!has_room(connection)) { /* on_written() tries again */
        pause_reading(connection);
        return;
    }
    result = varlink_frames_next(&connection->frames, &message, &length);
    if (result <= 0) {
        end_of_messages(connection, result);
        return;
    }
    uv_timer_stop(&connection->timer);
    if (!call_begin(connection, message, length) ||
        (connection->end_of_input && connection->call && connection->call->more))
        connection_close(connection); /* also if the reader of a stream left before it began */
    else if (!connection->call)
        traffic_ready(connection); /* there may be more */
}

/* ---- opening --------------------------------------------------------------------------------- */

void connection_open(struct server *server, int descriptor, const struct peer *peer)
{
    struct connection *connection = memory_zero(sizeof *connection);

    connection->server = server;
    connection->peer = *peer;
    connection->pipe.data = connection->timer.data = connection;
    connection->open_handles = 2;
    uv_pipe_init(server->daemon->loop, &connection->pipe, 0);
    uv_timer_init(server->daemon->loop, &connection->timer);
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    if (uv_pipe_open(&connection->pipe, descriptor) < 0) {
        close(descriptor);
        connection_close(connection);
        return;
    }
    traffic_join(connection);
    if (uv_read_start((uv_stream_t *)&connection->pipe, on_buffer_wanted, on_read) < 0)
        connection_close(connection);
}
