/* connection.c: see connection.h. */
#include "client/connection/connection.h"

#include "base/text.h"
#include "proto/daemon_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SILENCE_MILLISECONDS = 10000 };

/* Says so where the queue of a daemon that takes no connections is full, and waits on. */
static int connect_patiently(struct invocation *invocation, struct error *error)
{
    int result = varlink_client_connect(invocation->socket, SILENCE_MILLISECONDS,
                                        &invocation->client, error);

    if (result != -ETIMEDOUT)
        return result;
    complain("the daemon at %s has taken no connection for %d s: it may be stopped, or busy. "
             "Waiting on; Ctrl-C gives up",
             invocation->socket, SILENCE_MILLISECONDS / 1000);
    return varlink_client_connect(invocation->socket, -1, &invocation->client, error);
}

enum exit_status connection_open(struct invocation *invocation)
{
    struct error error = {0};
    int result;

    if (invocation->client)
        return EXIT_STATUS_DONE;
    if (!invocation->socket)
        invocation->socket = daemon_socket_find(invocation_option(invocation, "socket"), &error);
    if (!invocation->socket) {
        complain("%s", error.text);
        return EXIT_STATUS_UNREACHABLE;
    }
    result = connect_patiently(invocation, &error);
    if (result == 0)
        return EXIT_STATUS_DONE;
    daemon_socket_explain(invocation->socket, result, &error);
    complain("%s", error.text);
    return EXIT_STATUS_UNREACHABLE;
}

/* As varlink_client_call(), but it says when there is no answer for long. A daemon that is stopped,
 * or overloaded, still takes connections. */
static int call_patiently(const struct invocation *invocation, const char *method,
                          struct json_object *parameters, struct varlink_reply *reply,
                          struct error *error)
{
    int result = varlink_client_send(invocation->client, method, parameters, false, error);

    if (result < 0)
        return result;
    result = varlink_client_receive(invocation->client, SILENCE_MILLISECONDS, reply, error);
    if (result == -ETIMEDOUT) {
        complain("the daemon at %s has not answered %s for %d s: it may be stopped, or busy. "
                 "Waiting on; Ctrl-C gives up, and what was asked for may be done all the same",
                 invocation->socket, strrchr(method, '.') + 1, SILENCE_MILLISECONDS / 1000);
        result = varlink_client_receive(invocation->client, -1, reply, error);
    }
    return result == 0 && reply->error ? -ERROR_SERVICE_REPLY : result;
}

static void method_name(const char *method, char *name, size_t size)
{
    snprintf(name, size, "io.traind.%s", method);
}

/* Fills in the sentence of the daemon's error reply. */
static void refusal_explain(const struct varlink_reply *reply, struct error *error)
{
    const char *message = json_get_string(reply->parameters, "message", NULL);
    const char *method = json_get_string(reply->parameters, "method", NULL);
    const char *parameter = json_get_string(reply->parameters, "parameter", NULL);

    if (message)
        error_set(error, -ERROR_SERVICE_REPLY, "%s", message);
    else if (strcmp(reply->error, "org.varlink.service.MethodNotFound") == 0 ||
             strcmp(reply->error, "org.varlink.service.MethodNotImplemented") == 0)
        error_set(error, -ERROR_SERVICE_REPLY,
                  "the daemon does not know %s: it is older than this trainctl; restart it",
                  method ? method : "this call");
    else if (parameter)
        error_set(error, -ERROR_SERVICE_REPLY, "the daemon refused the parameter \"%s\" (%s)",
                  parameter, reply->error);
    else
        error_set(error, -ERROR_SERVICE_REPLY, "the daemon refused: %s", reply->error);
}

enum exit_status connection_refused(const struct varlink_reply *reply)
{
    const char *message = json_get_string(reply->parameters, "message", NULL);
    struct error error = {0};

    refusal_explain(reply, &error);
    complain("%s", message ? message : error.text); /* a message may be too long for the error */
    return EXIT_STATUS_FAILED;
}

enum exit_status connection_ask(struct invocation *invocation, const char *method,
                                struct json_object *parameters, struct varlink_reply *reply)
{
    enum exit_status status = connection_open(invocation);
    struct error error = {0};
    char name[64];
    int result;

    *reply = (struct varlink_reply){0};
    if (status) {
        json_object_put(parameters);
        return status;
    }
    method_name(method, name, sizeof name);
    result = call_patiently(invocation, name, parameters, reply, &error);
    if (result == 0)
        return EXIT_STATUS_DONE;
    if (result == -ERROR_SERVICE_REPLY) {
        status = connection_refused(reply);
    } else if (result == -EILSEQ) {
        complain("%s", error.text);
        status = EXIT_STATUS_FAILED;
    } else if (result == -EMSGSIZE) {
        complain("%s is too large: %s", method, error.text);
        status = EXIT_STATUS_FAILED;
    } else {
        complain("the connection to the daemon broke during %s: %s", method, error.text);
        status = EXIT_STATUS_UNREACHABLE;
    }
    return status;
}

enum exit_status connection_call(struct invocation *invocation, const char *method,
                                 struct json_object *parameters, struct varlink_reply *reply)
{
    enum exit_status status = connection_ask(invocation, method, parameters, reply);

    if (status)
        varlink_reply_release(reply);
    return status;
}

bool connection_try(struct invocation *invocation, const char *method,
                    struct json_object *parameters, struct varlink_reply *reply)
{
    return connection_try_within(invocation, -1, method, parameters, reply);
}

bool connection_try_within(struct invocation *invocation, int milliseconds, const char *method,
                           struct json_object *parameters, struct varlink_reply *reply)
{
    struct error error;

    return connection_call_quietly(invocation, milliseconds, method, parameters, reply, &error) ==
           0;
}

int connection_call_quietly(struct invocation *invocation, int milliseconds, const char *method,
                            struct json_object *parameters, struct varlink_reply *reply,
                            struct error *error)
{
    char name[64];
    int result = 0;

    *reply = (struct varlink_reply){0};
    if (!invocation->socket)
        invocation->socket = daemon_socket_find(invocation_option(invocation, "socket"), error);
    if (!invocation->socket)
        result = -ENOENT;
    else if (!invocation->client)
        result =
            varlink_client_connect(invocation->socket, milliseconds, &invocation->client, error);
    if (result < 0) {
        json_object_put(parameters);
        return result;
    }
    method_name(method, name, sizeof name);
    result = varlink_client_send(invocation->client, name, parameters, false, error);
    if (result == 0)
        result = varlink_client_receive(invocation->client, milliseconds, reply, error);
    if (result == 0 && !reply->error)
        return 0;
    if (result == 0) {
        refusal_explain(reply, error);
        result = -ERROR_SERVICE_REPLY;
    } else { /* it broke, or its answer would be taken for that to the next call */
        varlink_client_free(invocation->client);
        invocation->client = NULL;
    }
    varlink_reply_release(reply);
    return result;
}

/* Finds the newest job with that name, with `own` among the caller's jobs. `*job` NULL: there is
 * none. The caller releases the reply, which owns the job. */
static enum exit_status job_find_named(struct invocation *invocation, const char *name, bool own,
                                       struct varlink_reply *reply, struct json_object **job)
{
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set_string(parameters, "name", name);
    json_set_int(parameters, "limit", 1);
    if (own)
        json_set_bool(parameters, "own", true);
    status = connection_call(invocation, "List", parameters, reply);
    *job = status ? NULL : json_object_array_get_idx(json_get(reply->parameters, "jobs"), 0);
    return status;
}

/* Finds another user's job by its name, if none of the caller's jobs has it. */
static enum exit_status strangers_job_find(struct invocation *invocation, const char *name,
                                           enum job_use use, int64_t *id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *job;
    enum exit_status status = job_find_named(invocation, name, false, &reply, &job);

    if (status)
        return status;
    if (!job) {
        complain("there is no job with the number or name \"%s\"; `trainctl list --all` shows them",
                 name);
        return EXIT_STATUS_FAILED;
    }
    *id = json_get_int(job, "id", 0);
    if (use == JOB_IS_ACTED_ON) {
        complain("none of your jobs is called \"%s\"; job %" PRId64
                 " is, which belongs to %s: if that is the one, give its number",
                 name, *id, json_get_string(job, "user", "somebody else"));
        return EXIT_STATUS_FAILED;
    }
    complain("none of your jobs is called \"%s\": this is job %" PRId64 ", which belongs to %s",
             name, *id, json_get_string(job, "user", "somebody else"));
    return EXIT_STATUS_DONE;
}

enum exit_status connection_find_job(struct invocation *invocation, const char *text,
                                     enum job_use use, int64_t *id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *job;
    enum exit_status status;
    char *end;

    errno = 0;
    *id = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && *id > 0)
        return EXIT_STATUS_DONE;
    status = job_find_named(invocation, text, true, &reply, &job);
    if (!status && !job)
        return strangers_job_find(invocation, text, use, id);
    if (!status)
        *id = json_get_int(job, "id", 0);
    return status;
}

enum exit_status connection_job_parameters(struct invocation *invocation, const char *text,
                                           enum job_use use, struct json_object **parameters)
{
    int64_t id;
    enum exit_status status = connection_find_job(invocation, text, use, &id);

    if (status)
        return status;
    *parameters = json_object_new_object();
    json_set_int(*parameters, "id", id);
    return EXIT_STATUS_DONE;
}

void connection_tell_full_disk(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    char escaped[1024];
    const char *sentence;

    if (!connection_try(invocation, "Ping", NULL, &reply))
        return;
    sentence = json_get_string(reply.parameters, "disk_full", NULL);
    if (sentence)
        complain("%s", text_escape_controls(sentence, escaped, sizeof escaped));
}
