/* daemon.c: see daemon.h. */
#include "web/daemon.h"

#include "base/memory.h"
#include "proto/daemon_socket.h"
#include "web/methods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* So long a daemon that takes no connection is waited for, as trainctl does before it says so. */
enum { CONNECT_MILLISECONDS = 10000 };

int web_call_check(const struct web_options *options, struct json_object *call, bool more,
                   const char **method, struct json_object **parameters, struct error *error)
{
    struct json_object *given = json_get(call, "parameters");
    const struct web_method *found;

    *parameters = NULL;
    *method = json_get_string(call, "method", NULL);
    if (!*method)
        return error_set(error, -EINVAL, "a call has a member \"method\" that names it");
    found = web_method_find(*method);
    if (!found || (more && found->kind != WEB_METHOD_FOLLOWS))
        return error_set(error, -EPERM, "pages may not %s %s", more ? "follow" : "call", *method);
    if (found->kind == WEB_METHOD_CHANGES && options->read_only)
        return error_set(error, -EPERM,
                         "this traind-web shows jobs and changes none: it runs with --read-only");
    if (given && !json_object_is_type(given, json_type_object))
        return error_set(error, -EINVAL, "the parameters of a call are an object");
    *parameters = json_object_get(given);
    return 0;
}

int web_call_send(const struct web_options *options, const char *method,
                  struct json_object *parameters, bool more, struct varlink_client **client,
                  struct error *error)
{
    AUTO_FREE char *socket = daemon_socket_find(options->daemon, error);
    AUTO_FREE char *name = memory_format("io.traind.%s", method);
    int result =
        socket ? varlink_client_connect(socket, CONNECT_MILLISECONDS, client, error) : error->code;

    if (result < 0) {
        json_object_put(parameters);
        return socket ? daemon_socket_explain(socket, result, error) : result;
    }
    result = varlink_client_send(*client, name, parameters, more, error);
    if (result < 0) {
        varlink_client_free(*client);
        *client = NULL;
    }
    return result;
}

char *web_failure_text(const struct error *error)
{
    JSON_AUTO struct json_object *message = json_object_new_object();
    struct json_object *parameters = json_object_new_object();

    bool refused = error->code == -EPERM || error->code == -EINVAL || error->code == -EMSGSIZE;

    json_set_string(parameters, "message", error->text);
    json_set_string(message, "error", refused ? "Refused" : "Unreachable");
    json_set(message, "parameters", parameters);
    return memory_copy_text(json_text(message, NULL));
}
