/* call.c: one call from its message to its reply. */
#include "base/log.h"
#include "base/memory.h"
#include "daemon/server/method.h"
#include "daemon/server/traffic.h"

#include <stdlib.h>
#include <string.h>

static void call_free(struct call *call)
{
    struct server *server = call->daemon->server;

    server->call_count--;
    if (call->traffic)
        traffic_call_end(server, call->traffic, call->bytes);
    varlink_call_release(&call->message);
    free(call);
}

/* From now on only the end of the call may access it. */
static void call_close_streams(struct call *call)
{
    call->on_room = call->on_gone = NULL;
}

/* Ends the call. The connection goes on with the messages in its buffer. */
static void call_end(struct call *call)
{
    struct connection *connection = call->connection;

    if (connection) {
        connection->call = NULL;
        traffic_ready(connection);
    }
    call_free(call);
}

void call_abandon(struct call *call)
{
    call->connection = NULL;
    if (call->on_gone)
        call->on_gone(call);
}

static const size_t bytes_of_kind[] = {
    [METHOD_LONG] = LONG_CALL_BYTES,
    [METHOD_ALONE] = CALL_BYTES_AT_ONCE,
    [METHOD_STREAM] = LONG_CALL_BYTES,
};

/* Streams do not count, because they wait most of the time, and each uses a connection of its
 * own. */
static void count_call(struct call *call, size_t length)
{
    enum method_kind kind = call->method ? call->method->kind : METHOD_SHORT;

    if (kind == METHOD_STREAM && call->more)
        return;
    call->traffic = call->connection->traffic;
    call->bytes = length + bytes_of_kind[kind];
    traffic_call_begin(call->traffic, call->bytes);
}

bool call_begin(struct connection *connection, const char *message, size_t length)
{
    struct server *server = connection->server;
    struct call *call = memory_zero(sizeof *call);
    struct json_object *answer = NULL;
    struct error error = {0};
    const char *name;

    if (varlink_call_parse(message, length, &call->message, &error) < 0) {
        log_debug("closing a connection of uid %u: %s", (unsigned)connection->peer.uid, error.text);
        free(call);
        return false;
    }
    call->daemon = server->daemon;
    server->call_count++;
    call->connection = connection;
    call->peer = connection->peer;
    call->parameters = call->message.parameters;
    call->more = call->message.more;
    if (varlink_service_dispatch(&server->service, &call->message, &call->interface, &name, &answer,
                                 &error)) {
        connection->call = call;
        call->method = method_find(server->methods, name);
        count_call(call, length);
        method_run(call);
        return true;
    }
    if (call->message.oneway)
        json_object_put(answer);
    else
        connection_send(connection, answer);
    call_free(call);
    return true;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void send_error(struct call *call, const char *name, struct json_object *parameters)
{
    char full[96];
    struct error error = {0};

    if (!call->connection || call->message.oneway) {
        json_object_put(parameters);
        return;
    }
    if (varlink_interface_check_error(call->interface, name, parameters, &error) < 0)
        log_error("the error %s does not keep to the interface: %s", name, error.text);
    snprintf(full, sizeof full, "%s.%s", varlink_interface_name(call->interface), name);
    connection_send(call->connection, varlink_error_new(full, parameters));
}

static void send_too_long(struct call *call)
{
    struct json_object *parameters = json_object_new_object();

    log_warning("a reply to %s is longer than 1 MiB", call->method->name);
    json_set_string(parameters, "message",
                    "the reply is longer than the 1 MiB of a message; ask for less at once");
    send_error(call, "MessageTooLarge", parameters);
}

void call_reply(struct call *call, struct json_object *parameters)
{
    struct error error = {0};
    char field[128];

    call_close_streams(call);
    if (!call->connection || call->message.oneway) {
        json_object_put(parameters);
    } else if (varlink_interface_check(call->interface, call->method->name, VARLINK_OUTPUT,
                                       parameters, field, sizeof field, &error) < 0) {
        log_error("a reply to %s does not keep to the interface: %s", call->method->name,
                  error.text);
        json_object_put(parameters);
        parameters = json_object_new_object();
        json_set_string(parameters, "message", "traind made a reply that its interface forbids");
        send_error(call, "InternalError", parameters);
    } else if (!connection_send(call->connection, varlink_reply_new(parameters, false))) {
        send_too_long(call);
    }
    call_end(call);
}

void call_continue(struct call *call, struct json_object *parameters)
{
    if (!call->connection || call->message.oneway)
        json_object_put(parameters);
    else if (!connection_send(call->connection, varlink_reply_new(parameters, true)))
        log_error("a reply to %s is longer than 1 MiB and left out", call->method->name);
}

void call_fail(struct call *call, const char *name, struct json_object *parameters,
               const char *format, ...)
{
    struct error error = {0};
    va_list arguments;

    call_close_streams(call);
    va_start(arguments, format);
    vsnprintf(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    if (!parameters)
        parameters = json_object_new_object();
    json_set_string(parameters, "message", error.text);
    send_error(call, name, parameters);
    call_end(call);
}

void call_fail_storage(struct call *call, const struct error *error)
{
    call_fail(call, "StorageFailed", NULL, "%s", error->text);
}

void call_fail_state(struct call *call, int64_t id, const char *state, const char *format, ...)
{
    struct json_object *parameters = json_object_new_object();
    struct error error = {0};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    json_set_int(parameters, "id", id);
    json_set_string(parameters, "state", state);
    call_fail(call, "InvalidState", parameters, "%s", error.text);
}

void call_fail_no_job(struct call *call, int64_t id)
{
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", id);
    call_fail(call, "NoSuchJob", parameters, "there is no job %lld", (long long)id);
}

void call_fail_no_sweep(struct call *call, int64_t id)
{
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", id);
    call_fail(call, "NoSuchSweep", parameters,
              "there is no sweep %lld; a sweep is named by the number of its first job",
              (long long)id);
}

void call_fail_job(struct call *call, int64_t id, const struct error *error)
{
    if (error->code == -ERROR_NO_SUCH_JOB)
        call_fail_no_job(call, id);
    else
        call_fail_storage(call, error);
}

const char *call_user(const struct call *call)
{
    return call->connection ? call->connection->user : NULL;
}

void call_set_user(struct call *call, const char *user)
{
    if (call->connection && !call->connection->user)
        call->connection->user = memory_copy_text(user);
}

bool call_sees(const struct call *call, uid_t owner)
{
    return call->peer.admin || call->peer.uid == owner || !call->daemon->config.private_jobs;
}
