/* stream.c: see stream.h. The thread of the page's connection runs it. */
#include "web/stream.h"

#include "base/memory.h"
#include "web/daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 32 * 1024,
    LINES_ENOUGH = 64 * 1024,  /* not yet sent; then no more replies are taken */
    QUIET_MILLISECONDS = 15000 /* then an empty line shows whether the page is still there */
};

struct web_stream {
    int descriptor;
    size_t count;
    size_t turn;                                          /* the call whose reply is taken first */
    struct varlink_client *clients[WEB_STREAM_CALLS_MAX]; /* NULL: that call has ended */
    char *lines;                                          /* not yet sent; owned */
    size_t sent, length, room;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static int lines_add(struct web_stream *stream, const char *text, size_t length)
{
    if (stream->sent == stream->length)
        stream->sent = stream->length = 0;
    if (!stream->lines || stream->length + length > stream->room) {
        size_t room = stream->length + length;
        char *more;

        if (room < 2 * stream->room)
            room = 2 * stream->room;
        more = realloc(stream->lines, room);
        if (!more)
            return -ENOMEM;
        stream->lines = more;
        stream->room = room;
    }
    memcpy(stream->lines + stream->length, text, length);
    stream->length += length;
    return 0;
}

static int lines_add_reply(struct web_stream *stream, size_t call, const char *reply, size_t length)
{
    char begin[48];
    int result;

    snprintf(begin, sizeof begin, "{\"call\":%zu,\"reply\":", call);
    result = lines_add(stream, begin, strlen(begin));
    if (result == 0)
        result = lines_add(stream, reply, length);
    return result < 0 ? result : lines_add(stream, "}\n", 2);
}

static int lines_add_failure(struct web_stream *stream, size_t call, const struct error *error)
{
    AUTO_FREE char *text = web_failure_text(error);

    return lines_add_reply(stream, call, text, strlen(text));
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Takes what the calls have told, by turns. Returns how many still go on, as far as it came, or a
 * negative errno. */
static int calls_take(struct web_stream *stream)
{
    size_t first = stream->turn;
    int going_on = 0;

    for (size_t k = 0; k < stream->count && stream->length - stream->sent < LINES_ENOUGH; k++) {
        size_t i = (first + k) % stream->count;
        struct error error;
        const char *reply;
        size_t length;
        int result;

        stream->turn = i + 1;
        if (!stream->clients[i])
            continue;
        result = varlink_client_receive_text(stream->clients[i], 0, &reply, &length, &error);
        if (result == 0) {
            result = lines_add_reply(stream, i, reply, length);
            if (result < 0)
                return result;
        } else if (result != -ETIMEDOUT) {
            varlink_client_free(stream->clients[i]);
            stream->clients[i] = NULL;
            result = lines_add_failure(stream, i, &error);
            if (result < 0)
                return result;
            continue;
        }
        going_on++;
    }
    return going_on;
}

/* Waits until a call tells something. False: the page has gone. */
static bool calls_wait(struct web_stream *stream)
{
    struct pollfd descriptors[WEB_STREAM_CALLS_MAX + 1] = {
        {.fd = stream->descriptor, .events = POLLRDHUP}};
    nfds_t count = 1;
    int result;

    for (size_t i = 0; i < stream->count; i++)
        if (stream->clients[i])
            descriptors[count++] = (struct pollfd){
                .fd = varlink_client_descriptor(stream->clients[i]), .events = POLLIN};
    result = poll(descriptors, count, QUIET_MILLISECONDS);
    if (result == 0 && lines_add(stream, "\n", 1) < 0)
        return false;
    return descriptors[0].revents == 0 && (result >= 0 || errno == EINTR);
}

static ssize_t stream_read(void *data, uint64_t position, char *buffer, size_t room)
{
    struct web_stream *stream = data;
    size_t count;

    (void)position;
    while (stream->sent == stream->length) {
        int going_on;

        if (stream->room > LINES_ENOUGH) { /* a long reply was sent: others have room for theirs */
            free(stream->lines);
            stream->lines = NULL;
            stream->sent = stream->length = stream->room = 0;
        }
        going_on = calls_take(stream);

        if (stream->sent < stream->length)
            break;
        if (going_on == 0)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (going_on < 0 || !calls_wait(stream))
            return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    count = stream->length - stream->sent;
    if (count > room)
        count = room;
    memcpy(buffer, stream->lines + stream->sent, count);
    stream->sent += count;
    return (ssize_t)count;
}

/* ---- its life -------------------------------------------------------------------------------- */

static int calls_begin(const struct web_options *options, struct web_stream *stream,
                       struct json_object *calls, struct error *error)
{
    for (size_t i = 0; i < stream->count; i++) {
        struct json_object *parameters;
        const char *method;
        int result = web_call_check(options, json_object_array_get_idx(calls, i), true, &method,
                                    &parameters, error);

        if (result < 0)
            return result;
        if (web_call_send(options, method, parameters, true, &stream->clients[i], error) < 0 &&
            lines_add_failure(stream, i, error) < 0)
            return error_no_memory(error, "a stream");
    }
    return 0;
}

int web_stream_open(const struct web_options *options, const char *body, size_t length,
                    int descriptor, struct web_stream **stream, struct error *error)
{
    JSON_AUTO struct json_object *request = NULL;
    struct json_object *calls;
    int result = json_parse(body, length, &request, error);

    if (result < 0)
        return result;
    calls = json_get(request, "calls");
    if (!json_object_is_type(calls, json_type_array) || json_object_array_length(calls) == 0 ||
        json_object_array_length(calls) > WEB_STREAM_CALLS_MAX)
        return error_set(error, -EINVAL, "a stream has a member \"calls\" with 1 to %d calls",
                         WEB_STREAM_CALLS_MAX);
    *stream = memory_zero(sizeof **stream);
    (*stream)->descriptor = descriptor;
    (*stream)->count = json_object_array_length(calls);
    result = calls_begin(options, *stream, calls, error);
    if (result < 0) {
        web_stream_close(*stream);
        *stream = NULL;
    }
    return result;
}

void web_stream_close(struct web_stream *stream)
{
    for (size_t i = 0; i < stream->count; i++)
        varlink_client_free(stream->clients[i]);
    free(stream->lines);
    free(stream);
}

static void stream_free(void *data)
{
    web_stream_close(data);
}

struct MHD_Response *web_stream_response(struct web_stream *stream)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, stream_read, stream,
                                             stream_free);
}
