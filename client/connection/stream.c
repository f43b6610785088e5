/* stream.c: see stream.h. */
#include "client/connection/stream.h"

#include "base/clock.h"
#include "client/connection/connection.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    STREAMS_MAX = 4,
    RECONNECT_MILLISECONDS = 100,
    CONNECT_MILLISECONDS = 500 /* of one try, in which no signal is looked at */
};

void stream_close(struct stream *stream)
{
    varlink_client_free(stream->client);
    stream->client = NULL;
}

/* Records that the connection is lost. Prints that the first time; fails the stream after
 * STREAM_PATIENCE_SECONDS. */
static enum stream_event stream_lost(struct stream *stream, struct invocation *invocation,
                                     const struct error *error, enum exit_status *status)
{
    double now = clock_now();

    stream_close(stream);
    varlink_client_free(invocation->client); /* the connection of single calls is lost as well */
    invocation->client = NULL;
    if (!stream->lost_since ||
        (stream->connected && now - stream->connected > STREAM_STEADY_SECONDS)) {
        stream->lost_since = now;
        stream->announced = false;
    }
    stream->connected = 0;
    if (now - stream->lost_since > STREAM_PATIENCE_SECONDS) {
        if (!stream->quiet)
            complain("the daemon did not come back within %d s: %s", STREAM_PATIENCE_SECONDS,
                     error->text);
        *status = EXIT_STATUS_UNREACHABLE;
        return STREAM_FAILED;
    }
    if (!stream->quiet && !stream->announced && now - stream->lost_since > 1) {
        complain("the daemon went away; waiting up to %d s for it. Running jobs go on meanwhile",
                 STREAM_PATIENCE_SECONDS);
        stream->announced = true;
    }
    return STREAM_NOTHING;
}

/* Connects and sends the call. */
static int stream_open(struct stream *stream, struct invocation *invocation, struct error *error)
{
    char name[64];
    int result =
        varlink_client_connect(invocation->socket, CONNECT_MILLISECONDS, &stream->client, error);

    if (result < 0)
        return result;
    snprintf(name, sizeof name, "io.traind.%s", stream->method);
    return varlink_client_send(stream->client, name, stream->parameters(stream->context), true,
                               error);
}

enum stream_event stream_next(struct stream *stream, struct invocation *invocation,
                              struct varlink_reply *reply, enum exit_status *status)
{
    struct error error = {0};
    int result;

    if (stream->ended)
        return STREAM_END;
    if (!stream->client) {
        /* before the first connection, a missing daemon is an error and not a restart */
        if (!stream->lost_since) {
            *status = connection_open(invocation);
            if (*status)
                return STREAM_FAILED;
        }
        if (stream_open(stream, invocation, &error) < 0)
            return stream_lost(stream, invocation, &error, status);
        stream->connected = clock_now();
    }
    result = varlink_client_receive(stream->client, 0, reply, &error);
    if (result == -ETIMEDOUT)
        return STREAM_NOTHING;
    if (result < 0)
        return stream_lost(stream, invocation, &error, status);
    stream->lost_since = 0;
    stream->announced = false;
    if (reply->error) {
        *status = connection_refused(reply);
        varlink_reply_release(reply);
        stream->ended = true;
        return STREAM_FAILED;
    }
    stream->ended = !reply->continues;
    return STREAM_REPLY;
}

int stream_signals_open(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
        return -1;
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

enum poll_result stream_poll(struct stream *const *streams, size_t count, int signals,
                             int timeout_milliseconds)
{
    return stream_poll_input(streams, count, signals, -1, timeout_milliseconds);
}

enum poll_result stream_poll_input(struct stream *const *streams, size_t count, int signals,
                                   int input, int timeout_milliseconds)
{
    /* no events of the output: poll() tells of a pipe that nobody reads any more, such as that of
     * an ssh whose connection broke */
    struct pollfd descriptors[STREAMS_MAX + 3] = {
        {.fd = signals, .events = POLLIN}, {.fd = input, .events = POLLIN}, {.fd = STDOUT_FILENO}};
    enum poll_result result = POLL_READY;
    struct signalfd_siginfo information;
    size_t used = 3;

    for (size_t i = 0; i < count && i < STREAMS_MAX; i++) {
        if (streams[i]->ended)
            continue;
        if (streams[i]->client)
            descriptors[used++] = (struct pollfd){
                .fd = varlink_client_descriptor(streams[i]->client), .events = POLLIN};
        else if (timeout_milliseconds < 0 || timeout_milliseconds > RECONNECT_MILLISECONDS)
            timeout_milliseconds = RECONNECT_MILLISECONDS;
    }
    poll(descriptors, used, timeout_milliseconds);
    while (read(signals, &information, sizeof information) == sizeof information) {
        if (information.ssi_signo != SIGWINCH)
            return POLL_DETACH;
        result = POLL_RESIZED;
    }
    if (descriptors[2].revents & (POLLERR | POLLHUP))
        return POLL_DETACH;
    if (result == POLL_READY && descriptors[1].revents)
        result = POLL_INPUT;
    return result;
}

enum exit_status stream_run(struct stream *stream, struct invocation *invocation,
                            void (*receive)(void *context, struct json_object *parameters))
{
    struct stream *const streams[] = {stream};
    enum exit_status status = EXIT_STATUS_DONE;
    int signals = stream_signals_open();

    for (bool open = true; open && !status;) {
        struct varlink_reply reply = {0};

        switch (stream_next(stream, invocation, &reply, &status)) {
        case STREAM_REPLY:
            receive(stream->context, reply.parameters);
            fflush(stdout);
            varlink_reply_release(&reply);
            break;
        case STREAM_NOTHING:
            if (stream_poll(streams, 1, signals, -1) == POLL_DETACH)
                status = EXIT_STATUS_DETACHED;
            break;
        default:
            open = false;
            break;
        }
    }
    stream_close(stream);
    if (signals >= 0)
        close(signals);
    return status;
}
