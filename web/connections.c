/* connections.c: see connections.h. */
#include "web/connections.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct web_connection {
    int descriptor; /* -1: the place is free */
    enum web_connection_state state;
    double deadline;
};

struct web_connections {
    pthread_mutex_t lock; /* guards `places` and `streams` */
    struct web_connection places[WEB_CONNECTIONS_MAX];
    int streams;
    double patience;
    pthread_t thread;
    int stop; /* an eventfd */
};

/* Ends the late connections: their threads then see a closed socket. */
static void end_late(struct web_connections *connections)
{
    double now = clock_monotonic();

    pthread_mutex_lock(&connections->lock);
    for (size_t i = 0; i < WEB_CONNECTIONS_MAX; i++) {
        struct web_connection *place = &connections->places[i];

        if (place->descriptor >= 0 && place->deadline < now)
            shutdown(place->descriptor, SHUT_RDWR);
    }
    pthread_mutex_unlock(&connections->lock);
}

static void *watch(void *data)
{
    struct web_connections *connections = data;
    struct pollfd stop = {.fd = connections->stop, .events = POLLIN};

    while (poll(&stop, 1, 1000) <= 0)
        end_late(connections);
    return NULL;
}

int web_connections_open(int patience, struct web_connections **connections, struct error *error)
{
    struct web_connections *opened = memory_zero(sizeof *opened);
    int result;

    opened->patience = patience;
    pthread_mutex_init(&opened->lock, NULL);
    for (size_t i = 0; i < WEB_CONNECTIONS_MAX; i++)
        opened->places[i].descriptor = -1;
    opened->stop = eventfd(0, EFD_CLOEXEC);
    result = opened->stop < 0 ? -errno : -pthread_create(&opened->thread, NULL, watch, opened);
    if (result < 0) {
        if (opened->stop >= 0)
            close(opened->stop);
        free(opened);
        return error_set_errno(error, result, "cannot watch connections");
    }
    *connections = opened;
    return 0;
}

void web_connections_close(struct web_connections *connections)
{
    if (!connections)
        return;
    eventfd_write(connections->stop, 1);
    pthread_join(connections->thread, NULL);
    close(connections->stop);
    pthread_mutex_destroy(&connections->lock);
    free(connections);
}

struct web_connection *web_connection_add(struct web_connections *connections, int descriptor)
{
    struct web_connection *free_place = NULL;

    pthread_mutex_lock(&connections->lock);
    for (size_t i = 0; i < WEB_CONNECTIONS_MAX && !free_place; i++)
        if (connections->places[i].descriptor < 0)
            free_place = &connections->places[i];
    if (free_place)
        *free_place = (struct web_connection){descriptor, WEB_CONNECTION_REQUESTS,
                                              clock_monotonic() + connections->patience};
    pthread_mutex_unlock(&connections->lock);
    return free_place;
}

void web_connection_remove(struct web_connections *connections, struct web_connection *connection)
{
    pthread_mutex_lock(&connections->lock);
    connections->streams -= connection->state == WEB_CONNECTION_STREAMS;
    connection->descriptor = -1;
    pthread_mutex_unlock(&connections->lock);
}

int web_connection_descriptor(const struct web_connection *connection)
{
    return connection->descriptor;
}

bool web_connection_set(struct web_connections *connections, struct web_connection *connection,
                        enum web_connection_state state)
{
    const double seconds[] = {
        [WEB_CONNECTION_REQUESTS] = connections->patience,
        [WEB_CONNECTION_ANSWERS] = WEB_ANSWER_SECONDS,
        [WEB_CONNECTION_STREAMS] = INFINITY,
    };
    bool streams = state == WEB_CONNECTION_STREAMS;
    bool done;

    pthread_mutex_lock(&connections->lock);
    connections->streams -= connection->state == WEB_CONNECTION_STREAMS;
    done = !streams || connections->streams < WEB_STREAMS_MAX;
    if (done) {
        connection->state = state;
        connection->deadline = clock_monotonic() + seconds[state];
    }
    connections->streams += connection->state == WEB_CONNECTION_STREAMS;
    pthread_mutex_unlock(&connections->lock);
    return done;
}
