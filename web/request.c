/* request.c: see request.h.
 *
 * Paths: those of the assets (GET, for everybody, as they hold nothing of anybody's), /metrics
 * (GET, for who has a token), and three calls (POST, for who has the token): /api/about, /api/call,
 * /api/stream. */
#include "web/request.h"

#include "base/memory.h"
#include "web/daemon.h"
#include "web/metrics.h"
#include "web/reply.h"
#include "web/stream.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { CALL_MILLISECONDS = 60000 };

typedef enum MHD_Result (*answerer)(struct web *web, struct MHD_Connection *connection,
                                    const char *body, size_t length);

struct request {
    answerer answer;            /* what answers it once its body is here */
    struct web_refusal refusal; /* or why it is refused then: a client that is still sending may
                                 * not see an answer */
    char *body;                 /* owned; NULL: it is passed over */
    size_t length, expected;
};

/* ---- answers --------------------------------------------------------------------------------- */

static struct web_connection *connection_place(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Who acts here: what the page shows, and where commands run unless they say otherwise. */
static enum MHD_Result answer_about(struct web *web, struct MHD_Connection *connection,
                                    const char *body, size_t length)
{
    JSON_AUTO struct json_object *message = json_object_new_object();
    struct json_object *parameters = json_object_new_object();
    char text[4096];
    struct passwd entry, *found = NULL;

    (void)body;
    (void)length;
    getpwuid_r(getuid(), &entry, text, sizeof text, &found);
    json_set_string(parameters, "version", TRAIND_VERSION);
    json_set_string(parameters, "user", found ? found->pw_name : NULL);
    json_set_string(parameters, "directory", found ? found->pw_dir : "/");
    json_set_bool(parameters, "read_only", web->options.read_only);
    json_set(message, "parameters", parameters);
    return web_reply_json(connection, MHD_HTTP_OK, memory_copy_text(json_text(message, NULL)));
}

/* The text of the daemon's reply; the caller frees it. NULL: the error says why there is none. */
static char *call_make(struct web *web, const char *body, size_t length, struct error *error)
{
    JSON_AUTO struct json_object *call = NULL;
    struct json_object *parameters;
    struct varlink_client *client = NULL;
    const char *method, *reply;
    char *text = NULL;
    size_t size;

    if (json_parse(body, length, &call, error) < 0 ||
        web_call_check(&web->options, call, false, &method, &parameters, error) < 0 ||
        web_call_send(&web->options, method, parameters, false, &client, error) < 0)
        return NULL;
    if (varlink_client_receive_text(client, CALL_MILLISECONDS, &reply, &size, error) == 0) {
        text = strndup(reply, size);
        if (!text)
            error_no_memory(error, "a reply of %zu bytes", size);
    }
    varlink_client_free(client);
    return text;
}

/* A reply of Varlink is an answer with the status 200, also if it is an error, which the page
 * tells. */
static enum MHD_Result answer_call(struct web *web, struct MHD_Connection *connection,
                                   const char *body, size_t length)
{
    struct error error;
    char *text = call_make(web, body, length, &error);

    return web_reply_json(connection, MHD_HTTP_OK, text ? text : web_failure_text(&error));
}

static enum MHD_Result answer_stream(struct web *web, struct MHD_Connection *connection,
                                     const char *body, size_t length)
{
    struct web_connection *place = connection_place(connection);
    struct web_stream *stream;
    struct MHD_Response *response;
    struct error error = {.code = -ECONNRESET, .text = "the connection is ending"};

    if (!place || web_stream_open(&web->options, body, length, web_connection_descriptor(place),
                                  &stream, &error) < 0)
        return web_reply_json(connection, MHD_HTTP_BAD_REQUEST, web_failure_text(&error));
    if (!web_connection_set(web->connections, place, WEB_CONNECTION_STREAMS)) {
        web_stream_close(stream);
        return web_reply_refusal(connection,
                                 (struct web_refusal){503, "too many pages follow jobs already: "
                                                           "close some of them"});
    }
    response = web_stream_response(stream);
    if (!response) {
        web_stream_close(stream);
        return MHD_NO;
    }
    return web_reply(connection, MHD_HTTP_OK, "application/x-ndjson", response);
}

static enum MHD_Result answer_metrics(struct web *web, struct MHD_Connection *connection)
{
    struct web_connection *place = connection_place(connection);
    char *text;

    if (place) /* the daemon may take longer than a request may take to arrive */
        web_connection_set(web->connections, place, WEB_CONNECTION_ANSWERS);
    text = web_metrics_text(&web->options);
    return text ? web_reply(
                      connection, MHD_HTTP_OK, WEB_METRICS_TYPE,
                      MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE))
                : MHD_NO;
}

/* ---- requests -------------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* The headers that decide whether a request is answered, and how long it is. */
static const char *const deciding[] = {MHD_HTTP_HEADER_HOST,           MHD_HTTP_HEADER_ORIGIN,
                                       MHD_HTTP_HEADER_CONTENT_LENGTH, MHD_HTTP_HEADER_CONTENT_TYPE,
                                       MHD_HTTP_HEADER_AUTHORIZATION,  "Sec-Fetch-Site"};
enum { DECIDING = sizeof deciding / sizeof *deciding };

static enum MHD_Result header_count(void *data, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    int *counts = data;

    (void)kind;
    (void)value;
    for (int i = 0; i < DECIDING; i++)
        counts[i] += strcasecmp(name, deciding[i]) == 0;
    return MHD_YES;
}

/* A header that comes twice may mean one thing to a proxy in front and another one here. */
static struct web_refusal headers_check(struct MHD_Connection *connection)
{
    int counts[DECIDING] = {0};

    MHD_get_connection_values(connection, MHD_HEADER_KIND, header_count, counts);
    for (int i = 0; i < DECIDING; i++)
        if (counts[i] > 1)
            return (struct web_refusal){400, "Host, Origin, Content-Length, Content-Type, "
                                             "Authorization and Sec-Fetch-Site come once"};
    return (struct web_refusal){0};
}

static answerer answerer_find(const char *path)
{
    static const struct {
        const char *path;
        answerer answer;
    } calls[] = {
        {"/api/about", answer_about}, {"/api/call", answer_call}, {"/api/stream", answer_stream}};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].path, path) == 0)
            return calls[i].answer;
    return NULL;
}

/* How long the body is going to be. */
static struct web_refusal body_measure(struct MHD_Connection *connection, size_t *expected)
{
    const char *text = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    char *end;
    unsigned long long length = text ? strtoull(text, &end, 10) : 0;

    if (!text || header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        return (struct web_refusal){411, "a call says how long it is: Content-Length"};
    if (*end || length > WEB_BODY_MAX)
        return (struct web_refusal){413, "a call has at most 1 MiB"};
    *expected = (size_t)length;
    return (struct web_refusal){0};
}

static bool path_is_metrics(const char *path)
{
    return strcmp(path, "/metrics") == 0;
}

/* Why the request for a path is not answered. */
static struct web_refusal path_check(const char *path, const char *method)
{
    bool page = web_asset_find(path) || path_is_metrics(path);
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

    if (!page && !answerer_find(path))
        return (struct web_refusal){404, "there is nothing at this address"};
    if (page && !reads)
        return (struct web_refusal){405, "pages are read with GET"};
    if (!page && strcmp(method, "POST") != 0)
        return (struct web_refusal){405, "calls are made with POST"};
    return (struct web_refusal){0};
}

/* The headers are here: answers at once, or begins to take the body. */
static enum MHD_Result request_begin(struct web *web, struct MHD_Connection *connection,
                                     const char *path, const char *method, void **begun)
{
    struct web_headers headers = {
        .host = header(connection, MHD_HTTP_HEADER_HOST),
        .origin = header(connection, MHD_HTTP_HEADER_ORIGIN),
        .fetch_site = header(connection, "Sec-Fetch-Site"),
        .content_type = header(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
        .authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION),
    };
    struct web_refusal refusal = headers_check(connection);
    const struct web_asset *asset = web_asset_find(path);
    struct web_refusal size = {0};
    struct request *request;
    size_t expected = 0;

    if (refusal.status)
        return web_reply_refusal(connection, refusal);
    refusal = web_guard_host(&web->guard, &headers);
    if (!refusal.status)
        refusal = path_check(path, method);
    if (!refusal.status && asset)
        return web_reply_asset(connection, asset);
    if (!refusal.status && path_is_metrics(path)) {
        refusal = web_guard_metrics(&web->guard, &headers);
        return refusal.status ? web_reply_refusal(connection, refusal)
                              : answer_metrics(web, connection);
    }
    if (!refusal.status)
        refusal = web_guard_call(&web->guard, &headers);
    size = body_measure(connection, &expected);
    if (size.status)
        return web_reply_refusal(connection, refusal.status ? refusal : size);
    request = memory_zero(sizeof *request);
    *request = (struct request){.answer = answerer_find(path),
                                .refusal = refusal,
                                .body = refusal.status ? NULL : malloc(expected + 1),
                                .expected = expected};
    *begun = request;
    return request->body || refusal.status ? MHD_YES : MHD_NO;
}

enum MHD_Result web_request_take(void *data, struct MHD_Connection *connection, const char *path,
                                 const char *method, const char *version, const char *upload,
                                 size_t *upload_size, void **begun)
{
    struct web *web = data;
    struct request *request = *begun;
    struct web_connection *place = connection_place(connection);

    (void)version;
    if (!request)
        return request_begin(web, connection, path, method, begun);
    if (*upload_size > 0) {
        if (*upload_size > request->expected - request->length)
            return MHD_NO;
        if (request->body)
            memcpy(request->body + request->length, upload, *upload_size);
        request->length += *upload_size;
        *upload_size = 0;
        return MHD_YES;
    }
    if (place)
        web_connection_set(web->connections, place, WEB_CONNECTION_ANSWERS);
    if (!request->body)
        return web_reply_refusal(connection, request->refusal);
    request->body[request->length] = 0;
    return request->answer(web, connection, request->body, request->length);
}

void web_request_end(void *data, struct MHD_Connection *connection, void **begun,
                     enum MHD_RequestTerminationCode reason)
{
    struct web *web = data;
    struct request *request = *begun;
    struct web_connection *place = connection_place(connection);

    (void)reason;
    if (place)
        web_connection_set(web->connections, place, WEB_CONNECTION_REQUESTS);
    if (!request)
        return;
    free(request->body);
    free(request);
    *begun = NULL;
}
