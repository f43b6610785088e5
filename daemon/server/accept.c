/* accept.c: accepts or refuses each client at once.
 *
 * A refusal is sent before anything is read, and needs neither a handle nor a buffer. Its
 * descriptor stays open for a moment. So the client's call, which may be on its way, reaches an
 * open socket, and the client can read the reason. Only a few such descriptors are kept, so a flood
 * of refused clients gains nothing. */
#include "base/log.h"
#include "daemon/server/traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTED_PER_ROUND = 32, /* in one iteration of the loop, which has other work, too */
    REFUSED_MILLISECONDS = 1000,
    SHORTAGE_MILLISECONDS = 100 /* until the next try if no descriptor is free */
};

/* ---- the peer -------------------------------------------------------------------------------- */

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

static int identify(const struct server *server, int descriptor, struct peer *peer)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;

    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return -errno;
    peer->uid = credentials.uid;
    peer->admin = credentials.uid == 0 || credentials.uid == geteuid() ||
                  is_member(descriptor, credentials.gid, server->admin_group);
    return 0;
}

/* ---- refusing -------------------------------------------------------------------------------- */

static void close_refused(struct server *server)
{
    for (size_t i = 0; i < REFUSED_KEPT; i++) {
        if (server->refused[i] >= 0)
            close(server->refused[i]);
        server->refused[i] = -1;
    }
}

static void on_refused_long_enough(uv_timer_t *timer)
{
    close_refused(timer->data);
}

/* Sends the refusal. Owns the descriptor. */
static void refuse(struct server *server, int descriptor, const char *name, const char *sentence)
{
    int *place = &server->refused[server->next_refused++ % REFUSED_KEPT];
    struct json_object *parameters = json_object_new_object();
    struct json_object *message;
    const char *text;
    size_t length;

    json_set_string(parameters, "message", sentence);
    message = varlink_error_new(name, parameters);
    text = json_text(message, &length);
    /* a new socket has room for it, and a client that has left needs no answer */
    if (text && send(descriptor, text, length + 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_debug("a refusal was not sent: %s", strerror(errno));
    json_object_put(message);
    shutdown(descriptor, SHUT_WR);
    if (*place >= 0)
        close(*place);
    *place = descriptor;
    uv_timer_start(&server->refused_timer, on_refused_long_enough, REFUSED_MILLISECONDS, 0);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static void take(struct server *server, int descriptor)
{
    struct peer peer;
    const char *refusal, *sentence = NULL;

    if (identify(server, descriptor, &peer) < 0) {
        close(descriptor);
        return;
    }
    refusal = traffic_refusal(server, &peer, &sentence);
    if (refusal)
        refuse(server, descriptor, refusal, sentence);
    else
        connection_open(server, descriptor, &peer);
}

static void on_connection(uv_poll_t *poll, int status, int events);

static void on_shortage_over(uv_timer_t *timer)
{
    struct server *server = timer->data;

    uv_poll_start(&server->listener, UV_READABLE, on_connection);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct server *server = poll->data;

    (void)events;
    (void)status; /* accept4() reports the error */
    for (int i = 0; i < ACCEPTED_PER_ROUND; i++) {
        int descriptor = accept4(server->descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (descriptor >= 0) {
            take(server, descriptor);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EAGAIN) {
            log_warning("cannot accept a connection: %s", strerror(errno));
            uv_poll_stop(poll);
            uv_timer_start(&server->shortage_timer, on_shortage_over, SHORTAGE_MILLISECONDS, 0);
        }
        return;
    }
}

int accept_start(struct server *server)
{
    uv_loop_t *loop = server->daemon->loop;
    int result;

    if (listen(server->descriptor, LISTEN_BACKLOG) < 0 ||
        fcntl(server->descriptor, F_SETFL, fcntl(server->descriptor, F_GETFL) | O_NONBLOCK) < 0)
        return -errno;
    result = uv_poll_init(loop, &server->listener, server->descriptor);
    if (result < 0)
        return result;
    uv_timer_init(loop, &server->refused_timer);
    uv_timer_init(loop, &server->shortage_timer);
    server->listener.data = server->refused_timer.data = server->shortage_timer.data = server;
    server->accepts = true;
    for (size_t i = 0; i < REFUSED_KEPT; i++)
        server->refused[i] = -1;
    return uv_poll_start(&server->listener, UV_READABLE, on_connection);
}

void accept_stop(struct server *server)
{
    if (server->accepts) {
        uv_close((uv_handle_t *)&server->listener, NULL);
        uv_close((uv_handle_t *)&server->refused_timer, NULL);
        uv_close((uv_handle_t *)&server->shortage_timer, NULL);
        close_refused(server);
    }
    server->accepts = false;
    if (server->descriptor >= 0)
        close(server->descriptor);
    server->descriptor = -1;
}
