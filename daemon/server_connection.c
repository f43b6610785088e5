/* server_connection.c: reading, writing and closing of one client's connection. */
#include "daemon/server_connection.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    CONNECTIONS_MAX = 768,   /* of all users together; below the usual 1024 descriptors */
    OUTPUT_FULL = 64 * 1024, /* queued bytes above which a stream waits */
    DISCARD_TIMEOUT_MILLISECONDS = 2000 /* for a client to read why it is hung up on */
};

struct output {
    uv_write_t request;
    struct connection *connection;
    char bytes[]; /* the message and its NUL: as objects it would take twenty times the memory */
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
    server->connection_count--;
    if (connection->call)
        call_abandon(TAKE_POINTER(connection->call));
    uv_close((uv_handle_t *)&connection->timer, on_handle_closed);
    uv_close((uv_handle_t *)&connection->pipe, on_handle_closed);
}

/* ---- output ------------------------------------------------------------------------------------
 */

bool call_has_room(const struct call *call)
{
    struct connection *connection = call->connection;

    /* what is said to a client that is gone takes no room: the handler shall find out and end */
    return !connection ||
           uv_stream_get_write_queue_size((uv_stream_t *)&connection->pipe) < OUTPUT_FULL;
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
}

static void on_broken(uv_timer_t *timer)
{
    connection_close(timer->data);
}

/* Not at once: whoever sends holds pointers to the call. */
static void connection_break(struct connection *connection)
{
    uv_timer_start(&connection->timer, on_broken, 0, 0);
}

void connection_send(struct connection *connection, struct json_object *message)
{
    size_t length = 0;
    const char *text = message ? json_text(message, &length) : NULL;
    struct output *output =
        text && length < JSON_MESSAGE_MAX ? malloc(sizeof *output + length + 1) : NULL;
    uv_buf_t bytes;

    if (output) {
        output->connection = connection;
        memcpy(output->bytes, text, length + 1); /* the NUL ends a message */
    } else {
        log_error("cannot send a reply of %zu bytes: no memory left, or longer than 1 MiB", length);
    }
    json_object_put(message);
    if (output) {
        bytes = uv_buf_init(output->bytes, (unsigned)length + 1);
        if (uv_write(&output->request, (uv_stream_t *)&connection->pipe, &bytes, 1, on_written) ==
            0)
            return;
    }
    free(output);
    connection_break(connection);
}

/* ---- input -------------------------------------------------------------------------------------
 */

static void on_timeout(uv_timer_t *timer)
{
    struct connection *connection = timer->data;

    log_debug("closing a connection of uid %u: half a message and then nothing",
              (unsigned)connection->peer.uid);
    connection_close(connection);
}

static void start_timer(struct connection *connection, uint64_t milliseconds)
{
    if (!uv_is_active((uv_handle_t *)&connection->timer))
        uv_timer_start(&connection->timer, on_timeout, milliseconds, 0);
}

/* The client is told why and gets a moment to read it; what it still sends is thrown away. */
static void refuse_long_message(struct connection *connection)
{
    struct json_object *parameters = json_object_new_object();

    json_set_string(parameters, "message",
                    "the message is longer than 1 MiB; send fewer specifications at once");
    connection->refusal = "io.traind.MessageTooLarge";
    connection_send(connection, varlink_error_new("io.traind.MessageTooLarge", parameters));
    if (connection->closing)
        return;
    uv_timer_stop(&connection->timer);
    start_timer(connection, DISCARD_TIMEOUT_MILLISECONDS);
    varlink_frames_release(&connection->frames);
}

static bool is_discarding(const struct connection *connection)
{
    return connection->refusal && strcmp(connection->refusal, "io.traind.MessageTooLarge") == 0;
}

static void on_buffer_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    static char discarded[4096];
    struct connection *connection = handle->data;
    char *space;
    size_t size;

    (void)suggested;
    *buffer = uv_buf_init(NULL, 0); /* read callback gets UV_ENOBUFS */
    if (is_discarding(connection))
        *buffer = uv_buf_init(discarded, sizeof discarded);
    else if (varlink_frames_space(&connection->frames, &space, &size) == 0)
        *buffer = uv_buf_init(space, (unsigned)size);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;

    (void)buffer;
    if (size == 0)
        return;
    if (size == UV_ENOBUFS) { /* full of whole messages, or of one that is too long */
        uv_read_stop(stream);
        connection->paused = true;
        connection_handle_messages(connection);
        return;
    }
    if (size == UV_EOF && connection->call && !connection->call->more) {
        uv_read_stop(stream); /* the answer may still find its reader */
        connection->end_of_input = true;
        return;
    }
    if (size < 0) {
        connection_close(connection);
        return;
    }
    if (is_discarding(connection))
        return;
    varlink_frames_added(&connection->frames, (size_t)size);
    connection_handle_messages(connection);
}

/* Reading goes on after a pause; the clock runs for half a message. */
static void settle_input(struct connection *connection)
{
    bool half = !connection->call && connection->frames.start != connection->frames.end;

    if (connection->paused && !connection->call) {
        connection->paused = false;
        uv_read_start((uv_stream_t *)&connection->pipe, on_buffer_wanted, on_read);
    }
    if (half || connection->refusal)
        start_timer(connection,
                    (uint64_t)(1000 * connection->server->daemon->config.message_timeout_seconds));
    else
        uv_timer_stop(&connection->timer);
}

void connection_handle_messages(struct connection *connection)
{
    const char *message;
    size_t length;
    int result = 0;

    if (connection->handling)
        return;
    connection->handling = true;
    while (!connection->closing && !connection->call && !connection->hang_up &&
           (result = varlink_frames_next(&connection->frames, &message, &length)) > 0)
        if (!call_begin(connection, message, length))
            connection_close(connection);
    connection->handling = false;
    if (connection->closing || is_discarding(connection))
        return;
    if (result == -EMSGSIZE) {
        refuse_long_message(connection);
        if (!connection->closing && connection->paused)
            uv_read_start((uv_stream_t *)&connection->pipe, on_buffer_wanted, on_read);
    } else if (connection->end_of_input && !connection->call) {
        connection->hang_up = true;
        if (uv_stream_get_write_queue_size((uv_stream_t *)&connection->pipe) == 0)
            connection_close(connection);
    } else {
        settle_input(connection);
    }
}

/* ---- accepting ---------------------------------------------------------------------------------
 */

static bool is_member(int descriptor, gid_t primary, gid_t wanted)
{
    gid_t groups[256];
    socklen_t size = sizeof groups;

    if (wanted == (gid_t)-1)
        return false;
    if (primary == wanted)
        return true;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
        return false;
    for (size_t i = 0; i < size / sizeof *groups; i++)
        if (groups[i] == wanted)
            return true;
    return false;
}

static int identify(struct connection *connection)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    uv_os_fd_t descriptor;

    if (uv_fileno((uv_handle_t *)&connection->pipe, &descriptor) < 0 ||
        getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return -errno;
    connection->peer.uid = credentials.uid;
    connection->peer.admin =
        credentials.uid == 0 || credentials.uid == geteuid() ||
        is_member(descriptor, credentials.gid, connection->server->admin_group);
    return 0;
}

/* NULL, or the error that answers whatever this connection asks. */
static const char *find_refusal(const struct connection *connection)
{
    const struct server *server = connection->server;
    int64_t of_user = 0;

    if (server->daemon->mode == DAEMON_USER && !connection->peer.admin)
        return "io.traind.NotPermitted";
    for (const struct connection *other = server->connections; other; other = other->next)
        of_user += other->peer.uid == connection->peer.uid;
    return of_user > server->daemon->config.connections_per_user ? "io.traind.QuotaExceeded" : NULL;
}

void connection_accept(struct server *server)
{
    struct connection *connection = calloc(1, sizeof *connection);

    if (!connection) {
        log_error("no memory left for a connection");
        return;
    }
    connection->server = server;
    connection->pipe.data = connection->timer.data = connection;
    connection->open_handles = 2;
    uv_pipe_init(server->daemon->loop, &connection->pipe, 0);
    uv_timer_init(server->daemon->loop, &connection->timer);
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    server->connection_count++;
    if (uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)&connection->pipe) < 0 ||
        server->connection_count > CONNECTIONS_MAX || identify(connection) < 0) {
        connection_close(connection);
        return;
    }
    connection->refusal = find_refusal(connection);
    uv_read_start((uv_stream_t *)&connection->pipe, on_buffer_wanted, on_read);
    if (connection->refusal)
        settle_input(connection);
}
