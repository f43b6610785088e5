/* traffic.c: see traffic.h. */
#include "daemon/server/traffic.h"

#include "base/memory.h"

#include <stdlib.h>

enum {
    CONNECTIONS_MAX = 768, /* of all users; a descriptor each */
    CONNECTIONS_FOR_ROOT = 64,
    /* Calls of one user under way, like CALL_BYTES_AT_ONCE. Many short calls share one disk flush,
     * while one long call keeps the loop and the writer busy by itself. */
    CALLS_AT_ONCE = 16,
    /* After this time the loop does its other work before it goes on. */
    TURN_NANOSECONDS = 2 * 1000 * 1000
};

/* ---- connections ----------------------------------------------------------------------------- */

static struct user_traffic *traffic_find(const struct server *server, uid_t uid)
{
    struct user_traffic *traffic = server->traffic;

    while (traffic && traffic->uid != uid)
        traffic = traffic->next;
    return traffic;
}

static bool is_root(const struct peer *peer)
{
    return peer->uid == 0 || peer->uid == geteuid();
}

const char *traffic_refusal(const struct server *server, const struct peer *peer,
                            const char **sentence)
{
    const struct user_traffic *traffic = traffic_find(server, peer->uid);
    size_t own = traffic ? traffic->connections : 0;
    size_t room = CONNECTIONS_MAX - (is_root(peer) ? 0 : CONNECTIONS_FOR_ROOT);
    size_t free = room > server->connection_count ? room - server->connection_count : 0;

    if (server->daemon->mode == DAEMON_USER && !peer->admin) {
        *sentence = "only the user who started this traind may use it";
        return "io.traind.NotPermitted";
    }
    if (own >= (size_t)server->daemon->config.connections_per_user) {
        *sentence = "too many connections of this user are open (ConnectionsPerUser); close some "
                    "and try again";
        return "io.traind.QuotaExceeded";
    }
    if (free == 0 || (!is_root(peer) && own >= free)) {
        *sentence = "too many connections of all users are open; close some and try again";
        return "io.traind.QuotaExceeded";
    }
    return NULL;
}

void traffic_join(struct connection *connection)
{
    struct server *server = connection->server;
    struct user_traffic *traffic = traffic_find(server, connection->peer.uid);

    if (!traffic) {
        traffic = memory_zero(sizeof *traffic);
        traffic->uid = connection->peer.uid;
        traffic->next = server->traffic;
        server->traffic = traffic;
    }
    traffic->connections++;
    server->connection_count++;
    connection->traffic = traffic;
}

static void traffic_drop(struct server *server, struct user_traffic *traffic)
{
    struct user_traffic **place = &server->traffic;

    if (traffic->connections > 0 || traffic->calls > 0)
        return;
    while (*place != traffic)
        place = &(*place)->next;
    *place = traffic->next;
    if (server->next_turn == traffic)
        server->next_turn = traffic->next;
    free(traffic);
}

static void forget_turn(struct connection *connection)
{
    struct user_traffic *traffic = connection->traffic;
    struct connection *before = NULL;

    if (!connection->ready)
        return;
    connection->ready = false;
    for (struct connection *other = traffic->first; other != connection; other = other->next_ready)
        before = other;
    if (before)
        before->next_ready = connection->next_ready;
    else
        traffic->first = connection->next_ready;
    if (traffic->last == connection)
        traffic->last = before;
}

void traffic_leave(struct connection *connection)
{
    struct user_traffic *traffic = connection->traffic;

    if (!traffic)
        return;
    forget_turn(connection);
    connection->traffic = NULL;
    traffic->connections--;
    connection->server->connection_count--;
    traffic_drop(connection->server, traffic);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static bool may_take(const struct user_traffic *traffic)
{
    return traffic->first && traffic->calls < CALLS_AT_ONCE &&
           traffic->call_bytes < CALL_BYTES_AT_ONCE;
}

/* Returns the user who has the next turn; NULL: none. */
static struct user_traffic *next_user(struct server *server)
{
    struct user_traffic *begin = server->next_turn ? server->next_turn : server->traffic;
    struct user_traffic *traffic = begin;

    while (traffic && !may_take(traffic)) {
        traffic = traffic->next ? traffic->next : server->traffic;
        if (traffic == begin)
            return NULL;
    }
    return traffic;
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle keeps the loop from waiting for events */
}

/* Runs once in each iteration of the loop, after its events. */
static void on_turn(uv_check_t *check)
{
    struct server *server = check->data;
    uint64_t end = uv_hrtime() + TURN_NANOSECONDS;
    struct user_traffic *traffic;

    while ((traffic = next_user(server))) {
        struct connection *connection = traffic->first;

        server->next_turn = traffic->next;
        forget_turn(connection);
        connection_serve(connection);
        if (uv_hrtime() > end) {
            uv_idle_start(&server->idle, on_idle);
            return;
        }
    }
    uv_idle_stop(&server->idle);
}

void traffic_ready(struct connection *connection)
{
    struct user_traffic *traffic = connection->traffic;

    if (connection->ready || connection->closing || connection->server->stopped)
        return;
    connection->ready = true;
    connection->next_ready = NULL;
    if (traffic->last && traffic->first)
        traffic->last->next_ready = connection;
    else
        traffic->first = connection;
    traffic->last = connection;
    uv_idle_start(&connection->server->idle, on_idle);
}

void traffic_call_begin(struct user_traffic *traffic, size_t bytes)
{
    traffic->calls++;
    traffic->call_bytes += bytes;
}

void traffic_call_end(struct server *server, struct user_traffic *traffic, size_t bytes)
{
    traffic->calls--;
    traffic->call_bytes -= bytes;
    if (may_take(traffic) && !server->stopped)
        uv_idle_start(&server->idle, on_idle);
    traffic_drop(server, traffic);
}

void traffic_start(struct server *server)
{
    uv_loop_t *loop = server->daemon->loop;

    uv_check_init(loop, &server->turn);
    uv_idle_init(loop, &server->idle);
    server->turn.data = server;
    uv_check_start(&server->turn, on_turn);
    uv_unref((uv_handle_t *)&server->turn);
}

void traffic_stop(struct server *server)
{
    uv_close((uv_handle_t *)&server->turn, NULL);
    uv_close((uv_handle_t *)&server->idle, NULL);
}

void traffic_free(struct server *server)
{
    for (struct user_traffic *traffic = server->traffic, *next; traffic; traffic = next) {
        next = traffic->next;
        free(traffic);
    }
}
