/* refusal.c: see refusal.h. */
#include "daemon/server/refusal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/json.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { PATIENCE_MILLISECONDS = 2000, CALLER_MILLISECONDS = 200 };

/* Reads one call. Closing a socket with unread input would discard the answer. */
static void call_read(int caller)
{
    struct pollfd ready = {.fd = caller, .events = POLLIN};
    char bytes[4096];
    ssize_t size;

    while (poll(&ready, 1, CALLER_MILLISECONDS) > 0) {
        size = recv(caller, bytes, sizeof bytes, MSG_DONTWAIT);
        if (size <= 0 || memchr(bytes, '\0', (size_t)size))
            return;
    }
}

void server_refuse_waiting(int descriptor, const char *sentence)
{
    JSON_AUTO struct json_object *reply = json_object_new_object();
    struct json_object *parameters = json_object_new_object();
    int64_t begin;
    const char *text;
    size_t length;

    json_set_string(parameters, "message", sentence);
    json_set_string(reply, "error", "io.traind.InternalError");
    json_set(reply, "parameters", parameters);
    text = json_text(reply, &length);
    begin = clock_monotonic_milliseconds();
    while (clock_monotonic_milliseconds() - begin < PATIENCE_MILLISECONDS) {
        struct pollfd waiting = {.fd = descriptor, .events = POLLIN};
        AUTO_CLOSE int caller = -1;

        if (poll(&waiting, 1, 0) <= 0)
            return;
        caller = accept4(descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (caller < 0)
            return;
        call_read(caller);
        send(caller, text, length + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}
