/* shim_service.c: serves io.traind.Worker on the daemon's inherited connection and on worker.sock.
 *
 * Calls of one connection are answered in order. So an unanswered Wait holds back later calls,
 * except oneway ones such as Stop. */
#include "base/clock.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SEND_TIMEOUT_MILLISECONDS = 1000 };

void shim_connection_add(struct shim *shim, int descriptor)
{
    for (size_t i = 0; i < SHIM_CONNECTIONS_MAX; i++) {
        if (shim->connections[i].descriptor < 0) {
            shim->connections[i] = (struct shim_connection){.descriptor = descriptor};
            return;
        }
    }
    close(descriptor);
}

void shim_connection_close(struct shim_connection *connection)
{
    close(connection->descriptor);
    if (connection->holds)
        varlink_call_release(&connection->held);
    varlink_frames_release(&connection->frames);
    *connection = (struct shim_connection){.descriptor = -1};
}

void shim_stop(struct shim *shim, int signal_number, double grace_seconds)
{
    if (shim->exit)
        return;
    shim->stop_requested = true;
    shim_suspension_abandon(shim);
    if (shim->suspension.state != SHIM_RUNNING) {
        /* it can save nothing: it is frozen, or its calls to the GPU wait for ever */
        shim_trainee_signal(&shim->trainee, SIGKILL);
        grace_seconds = 0;
    } else if (signal_number && shim->trainee.pid > 0)
        kill(shim->trainee.pid, signal_number);
    else
        shim_trainee_signal(&shim->trainee, SIGTERM);
    if (!(grace_seconds > 0))
        grace_seconds = 0;
    if (grace_seconds > 86400)
        grace_seconds = 86400;
    shim->kill_deadline = clock_monotonic_milliseconds() + (int64_t)(grace_seconds * 1000) + 1;
}

/* Sends a message and its NUL. Replies are small compared with a socket's buffer, so a peer that
 * does not read for a second is disconnected. Takes over `message`. */
static void connection_send(struct shim_connection *connection, struct json_object *message)
{
    size_t length, sent = 0;
    const char *text = json_text(message, &length);

    while (sent < length + 1 && !connection->oneway) {
        ssize_t got = send(connection->descriptor, text + sent, length + 1 - sent, MSG_NOSIGNAL);
        struct pollfd writable = {.fd = connection->descriptor, .events = POLLOUT};

        if (got > 0) {
            sent += (size_t)got;
            continue;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN && poll(&writable, 1, SEND_TIMEOUT_MILLISECONDS) == 1)
            continue;
        shutdown(connection->descriptor, SHUT_RDWR); /* the next read reports the end */
        break;
    }
    json_object_put(message);
}

static void connection_reply(struct shim_connection *connection, struct json_object *parameters)
{
    connection_send(connection, varlink_reply_new(parameters, false));
}

static void connection_fail(struct shim_connection *connection, const char *name, const char *key,
                            const char *value)
{
    struct json_object *parameters = json_object_new_object();

    if (key)
        json_set_string(parameters, key, value);
    connection_send(connection, varlink_error_new(name, parameters));
}

static struct json_object *suspension_describe(const struct shim *shim)
{
    struct json_object *suspension = json_object_new_object();

    json_set_string(suspension, "state", shim_suspension_name(shim));
    json_set_double(suspension, "suspended_seconds", shim_suspended_seconds(shim));
    json_set_int(suspension, "memory", shim->suspension.memory);
    if (shim->suspension.result) {
        json_set_double(suspension, "seconds",
                        json_get_double(shim->suspension.result, "seconds", 0));
        json_set_string(suspension, "message",
                        json_get_string(shim->suspension.result, "message", NULL));
    }
    return suspension;
}

/* What a Wait is answered with. */
static struct json_object *news(struct shim *shim)
{
    struct json_object *parameters = json_object_new_object();

    if (shim->exit)
        json_set(parameters, "exit", json_object_get(shim->exit));
    else
        json_set(parameters, "suspension", suspension_describe(shim));
    shim->suspension.untold = false;
    return parameters;
}

void shim_answer_waits(struct shim *shim)
{
    for (size_t i = 0; i < SHIM_CONNECTIONS_MAX; i++) {
        struct shim_connection *connection = &shim->connections[i];

        if (connection->descriptor < 0 || !connection->waiting)
            continue;
        connection->waiting = false;
        connection_reply(connection, news(shim));
        shim_connection_read(shim, connection); /* calls that the Wait held back */
    }
}

/* ---- methods --------------------------------------------------------------------------------- */

static void method_status(struct shim *shim, struct shim_connection *connection,
                          struct json_object *parameters)
{
    struct json_object *status = json_object_new_object();

    (void)parameters;
    json_set_int(status, "job", shim->config.job);
    json_set_int(status, "attempt", shim->config.attempt);
    json_set_int(status, "shim", getpid());
    if (shim->trainee.pid > 0)
        json_set_int(status, "pid", shim->trainee.pid);
    if (shim->exit)
        json_set(status, "exit", json_object_get(shim->exit));
    json_set(status, "suspension", suspension_describe(shim));
    connection_reply(connection, status);
}

static void method_wait(struct shim *shim, struct shim_connection *connection,
                        struct json_object *parameters)
{
    (void)parameters;
    if (shim->exit || shim->suspension.untold)
        connection_reply(connection, news(shim));
    else
        connection->waiting = true;
}

static void method_stop(struct shim *shim, struct shim_connection *connection,
                        struct json_object *parameters)
{
    struct json_object *grace = json_get(parameters, "grace_seconds");
    int64_t signal_number = json_get_int(parameters, "signal", 0);

    if (!grace || (!json_object_is_type(grace, json_type_double) &&
                   !json_object_is_type(grace, json_type_int))) {
        connection_fail(connection, "org.varlink.service.InvalidParameter", "parameter",
                        "grace_seconds");
        return;
    }
    if (signal_number < 0 || signal_number > SIGRTMAX) {
        connection_fail(connection, "org.varlink.service.InvalidParameter", "parameter", "signal");
        return;
    }
    if (shim->exit) {
        connection_fail(connection, "io.traind.Worker.NotRunning", NULL, NULL);
        return;
    }
    shim_stop(shim, (int)signal_number, json_object_get_double(grace));
    connection_reply(connection, NULL);
}

static void method_checkpoint(struct shim *shim, struct shim_connection *connection,
                              struct json_object *parameters)
{
    (void)parameters;
    if (shim->trainee.pid <= 0) {
        connection_fail(connection, "io.traind.Worker.NotRunning", NULL, NULL);
        return;
    }
    kill(shim->trainee.pid, SIGUSR1);
    connection_reply(connection, NULL);
}

static void method_suspend(struct shim *shim, struct shim_connection *connection,
                           struct json_object *parameters)
{
    if (shim_suspend(shim, parameters))
        connection_reply(connection, NULL);
    else
        connection_fail(connection, "io.traind.Worker.NotRunning", NULL, NULL);
}

static void method_resume(struct shim *shim, struct shim_connection *connection,
                          struct json_object *parameters)
{
    if (shim_resume(shim, parameters))
        connection_reply(connection, NULL);
    else
        connection_fail(connection, "io.traind.Worker.NotRunning", NULL, NULL);
}

static void method_acknowledge(struct shim *shim, struct shim_connection *connection,
                               struct json_object *parameters)
{
    (void)parameters;
    if (!shim->exit) {
        connection_fail(connection, "io.traind.Worker.StillRunning", NULL, NULL);
        return;
    }
    shim->acknowledged = true;
    connection_reply(connection, NULL);
}

static void method_get_info(struct shim *shim, struct shim_connection *connection,
                            struct json_object *parameters)
{
    struct json_object *info = json_object_new_object(), *interfaces = json_object_new_array();

    (void)shim;
    (void)parameters;
    json_object_array_add(interfaces, json_object_new_string("org.varlink.service"));
    json_object_array_add(interfaces, json_object_new_string("io.traind.Worker"));
    json_set_string(info, "vendor", "traind");
    json_set_string(info, "product", "traind-shim");
    json_set_string(info, "version", TRAIND_VERSION);
    json_set_string(info, "url", "");
    json_set(info, "interfaces", interfaces);
    connection_reply(connection, info);
}

static void method_get_description(struct shim *shim, struct shim_connection *connection,
                                   struct json_object *parameters)
{
    const char *interface = json_get_string(parameters, "interface", "");
    struct json_object *description;

    (void)shim;
    if (strcmp(interface, "io.traind.Worker") != 0 &&
        strcmp(interface, "org.varlink.service") != 0) {
        connection_fail(connection, "org.varlink.service.InterfaceNotFound", "interface",
                        interface);
        return;
    }
    description = json_object_new_object();
    json_set_string(description, "description",
                    strcmp(interface, "io.traind.Worker") == 0
                        ? proto_interface_io_traind_Worker
                        : proto_interface_org_varlink_service);
    connection_reply(connection, description);
}

/* Checking the few parameters by hand, without parsing the interface file, keeps the start of every
 * attempt short. */
static const struct method {
    const char *name;
    const char *parameters[6]; /* the allowed ones */
    void (*run)(struct shim *shim, struct shim_connection *connection,
                struct json_object *parameters);
} methods[] = {
    {"io.traind.Worker.Status", {NULL}, method_status},
    {"io.traind.Worker.Wait", {NULL}, method_wait},
    {"io.traind.Worker.Stop", {"grace_seconds", "signal"}, method_stop},
    {"io.traind.Worker.Checkpoint", {NULL}, method_checkpoint},
    {"io.traind.Worker.Suspend",
     {"helper", "library", "library_path", "lock_seconds", "limit_seconds", "memory"},
     method_suspend},
    {"io.traind.Worker.Resume",
     {"helper", "library", "library_path", "pairs", "limit_seconds"},
     method_resume},
    {"io.traind.Worker.Acknowledge", {NULL}, method_acknowledge},
    {"org.varlink.service.GetInfo", {NULL}, method_get_info},
    {"org.varlink.service.GetInterfaceDescription", {"interface"}, method_get_description},
};

static bool method_takes(const struct method *method, const char *name)
{
    for (size_t i = 0; i < sizeof method->parameters / sizeof *method->parameters; i++)
        if (method->parameters[i] && strcmp(name, method->parameters[i]) == 0)
            return true;
    return false;
}

static void connection_dispatch(struct shim *shim, struct shim_connection *connection,
                                const struct varlink_call *call)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, call->method) != 0)
            continue;
        json_object_object_foreach (call->parameters, name, value) {
            (void)value;
            if (!method_takes(&methods[i], name)) {
                connection_fail(connection, "org.varlink.service.InvalidParameter", "parameter",
                                name);
                return;
            }
        }
        methods[i].run(shim, connection, call->parameters);
        return;
    }
    connection_fail(connection, "org.varlink.service.MethodNotFound", "method", call->method);
}

static void connection_run(struct shim *shim, struct shim_connection *connection,
                           struct varlink_call *call)
{
    connection->oneway = call->oneway;
    connection_dispatch(shim, connection, call);
    connection->oneway = false;
    varlink_call_release(call);
}

/* Answers the complete messages in the buffer. While a Wait is unanswered, it handles only oneway
 * calls; the first other call, and all calls after it, are held back. */
static int connection_process(struct shim *shim, struct shim_connection *connection)
{
    const char *message;
    size_t length;
    int result = 0;

    if (connection->holds && !connection->waiting) {
        connection->holds = false;
        connection_run(shim, connection, &connection->held);
    }
    while (!connection->holds &&
           (result = varlink_frames_next(&connection->frames, &message, &length)) > 0) {
        struct varlink_call call;

        if (varlink_call_parse(message, length, &call, NULL) < 0)
            return -EPROTO;
        if (connection->waiting && !call.oneway) {
            connection->held = call;
            connection->holds = true;
            return 0;
        }
        connection_run(shim, connection, &call);
    }
    return result;
}

void shim_connection_read(struct shim *shim, struct shim_connection *connection)
{
    for (;;) {
        char *space;
        size_t size;
        ssize_t got;

        if (connection_process(shim, connection) < 0 ||
            varlink_frames_space(&connection->frames, &space, &size) < 0)
            break;
        got = recv(connection->descriptor, space, size, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0)
            break;
        varlink_frames_added(&connection->frames, (size_t)got);
    }
    shim_connection_close(connection);
}
