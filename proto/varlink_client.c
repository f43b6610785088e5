/* varlink_client.c: a small blocking client; see varlink.h. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/varlink.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct varlink_client {
    int descriptor;
    struct varlink_frames frames;
};

int varlink_client_from_descriptor(int descriptor, struct varlink_client **client)
{
    *client = calloc(1, sizeof **client);
    if (!*client)
        return -ENOMEM;
    (*client)->descriptor = descriptor;
    return 0;
}

int varlink_client_connect(const char *path, int timeout_milliseconds,
                           struct varlink_client **client, struct error *error)
{
    AUTO_CLOSE int descriptor = varlink_socket_connect(path, timeout_milliseconds, error);
    int r;

    *client = NULL;
    if (descriptor < 0)
        return descriptor;
    r = varlink_client_from_descriptor(descriptor, client);
    if (r < 0)
        return error_set_errno(error, r, "cannot connect to %s", path);
    (void)TAKE_DESCRIPTOR(descriptor);
    return 0;
}

void varlink_client_free(struct varlink_client *client)
{
    if (!client)
        return;
    varlink_frames_release(&client->frames);
    close(client->descriptor);
    free(client);
}

int varlink_client_descriptor(const struct varlink_client *client)
{
    return client->descriptor;
}

static int client_wait(const struct varlink_client *client, short events, int timeout_milliseconds)
{
    struct pollfd poll_one = {.fd = client->descriptor, .events = events};
    int r = poll(&poll_one, 1, timeout_milliseconds);

    if (r < 0)
        return errno == EINTR ? 0 : -errno;
    return r;
}

int varlink_client_send(struct varlink_client *client, const char *method,
                        struct json_object *parameters, bool more, struct error *error)
{
    JSON_AUTO struct json_object *message = varlink_call_new(method, parameters, more);
    size_t length, sent = 0;
    const char *text = json_text(message, &length);

    int result;

    if (!text)
        return error_set(error, -ENOMEM, "out of memory");
    result = json_check_text(text, length, error); /* a service hangs up where it is not */
    if (result < 0)
        return result;
    length++; /* the NUL ends the message */
    if (length > JSON_MESSAGE_MAX)
        return error_set(error, -EMSGSIZE,
                         "the call has %zu bytes; a message may have %d: send it in parts", length,
                         JSON_MESSAGE_MAX);
    while (sent < length) {
        ssize_t written = send(client->descriptor, text + sent, length - sent, MSG_NOSIGNAL);

        if (written >= 0)
            sent += (size_t)written;
        else if (errno == EAGAIN)
            (void)client_wait(client, POLLOUT, -1);
        else if (errno == EPIPE || errno == ECONNRESET)
            /* varlink_client_receive() reports that the service hung up, or its last reply */
            return 0;
        else if (errno != EINTR)
            return error_set_errno(error, -errno, "cannot send to the service");
    }
    return 0;
}

/* Reads the bytes that have arrived, or waits for some until `deadline` (-1: without limit). */
static int client_fill(struct varlink_client *client, int64_t deadline, struct error *error)
{
    char *space;
    size_t size;
    ssize_t got;
    int r = varlink_frames_space(&client->frames, &space, &size);

    if (r < 0)
        return error_set_errno(error, r, "cannot receive from the service");
    got = recv(client->descriptor, space, size, MSG_DONTWAIT);
    if (got > 0) {
        varlink_frames_added(&client->frames, (size_t)got);
        return 0;
    }
    if (got == 0 || errno == ECONNRESET)
        return error_set(error, -ECONNRESET, "the service closed the connection");
    if (errno == EAGAIN) {
        int64_t left = deadline < 0 ? -1 : deadline - clock_monotonic_milliseconds();

        if (deadline >= 0 && left <= 0)
            return error_set(error, -ETIMEDOUT, "the service did not answer in time");
        r = client_wait(client, POLLIN, (int)left);
        return r < 0 ? error_set_errno(error, r, "cannot wait for the service") : 0;
    }
    return errno == EINTR ? 0 : error_set_errno(error, -errno, "cannot receive from the service");
}

int varlink_client_receive_text(struct varlink_client *client, int timeout_milliseconds,
                                const char **message, size_t *length, struct error *error)
{
    int64_t deadline =
        timeout_milliseconds < 0 ? -1 : clock_monotonic_milliseconds() + timeout_milliseconds;

    for (;;) {
        int r = varlink_frames_next(&client->frames, message, length);

        if (r > 0)
            return 0;
        if (r < 0)
            return error_set(error, r, "the service sent a message of more than %d bytes",
                             JSON_MESSAGE_MAX);
        r = client_fill(client, deadline, error);
        if (r < 0)
            return r;
    }
}

int varlink_client_receive(struct varlink_client *client, int timeout_milliseconds,
                           struct varlink_reply *reply, struct error *error)
{
    const char *message;
    size_t length;
    int r;

    *reply = (struct varlink_reply){0};
    r = varlink_client_receive_text(client, timeout_milliseconds, &message, &length, error);
    if (r < 0)
        return r;
    r = varlink_reply_parse(message, length, reply, error);
    return r < 0 ? error_prefix(error, "the service sent an invalid Varlink reply") : 0;
}

/* The sentence of a Varlink error: its `message`, or the meaning of a standard error. */
static int reply_sentence(const struct varlink_reply *reply, struct error *error)
{
    static const char standard[] = "org.varlink.service.";
    const char *name = reply->error;
    const char *message = json_get_string(reply->parameters, "message", NULL);

    if (message)
        return error_set(error, -ERROR_SERVICE_REPLY, "%s", message);
    if (strncmp(name, standard, sizeof standard - 1) != 0)
        return error_set(error, -ERROR_SERVICE_REPLY, "the service answered %s", name);
    name += sizeof standard - 1;
    if (strcmp(name, "InvalidParameter") == 0)
        return error_set(error, -ERROR_SERVICE_REPLY,
                         "the service does not accept the parameter %s",
                         json_get_string(reply->parameters, "parameter", "?"));
    if (strcmp(name, "MethodNotFound") == 0 || strcmp(name, "MethodNotImplemented") == 0)
        return error_set(error, -ERROR_SERVICE_REPLY,
                         "the service does not know the method %s; it may be of another version",
                         json_get_string(reply->parameters, "method", "?"));
    if (strcmp(name, "InterfaceNotFound") == 0)
        return error_set(error, -ERROR_SERVICE_REPLY, "the service does not know the interface %s",
                         json_get_string(reply->parameters, "interface", "?"));
    return error_set(error, -ERROR_SERVICE_REPLY, "the service answered %s", reply->error);
}

int varlink_client_call(struct varlink_client *client, const char *method,
                        struct json_object *parameters, struct varlink_reply *reply,
                        struct error *error)
{
    int r;

    *reply = (struct varlink_reply){0};
    r = varlink_client_send(client, method, parameters, false, error);
    if (r < 0)
        return r;
    r = varlink_client_receive(client, -1, reply, error);
    if (r < 0)
        return r;
    return reply->error ? reply_sentence(reply, error) : 0;
}
