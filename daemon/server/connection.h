/* connection.h: one client's connection; for server/ alone. */
#pragma once

#include "daemon/server/server.h"

#include <uv.h>

enum {
    LISTEN_BACKLOG = 1024, /* all are taken within some 10 ms: behind them another one waits */
    REFUSED_KEPT = 16
};

struct server {
    struct daemon *daemon;
    const struct method_table *methods;
    int descriptor; /* the listening socket; -1: none */
    uv_poll_t listener;
    bool accepts; /* the handles of accept.c are there */
    bool stopped;
    struct varlink_service service;
    struct varlink_interface *interfaces[2]; /* org.varlink.service, io.traind */
    struct connection *connections;          /* list */
    size_t connection_count, call_count;
    struct user_traffic *traffic;   /* list */
    struct user_traffic *next_turn; /* NULL: the first one's */
    uv_check_t turn;
    uv_idle_t idle;
    int refused[REFUSED_KEPT]; /* descriptors; -1: none */
    size_t next_refused;
    uv_timer_t refused_timer, shortage_timer;
    gid_t admin_group; /* (gid_t)-1: none */
    char *path;        /* of a socket file of our own, else NULL */
};

struct connection {
    uv_pipe_t pipe;
    uv_timer_t timer;
    struct server *server;
    struct connection *next, *previous;
    struct peer peer;
    char *user;                   /* name of the peer's user, once a handler has found it out */
    struct varlink_frames frames; /* what was read and not handled yet */
    struct call *call;            /* in flight */
    struct user_traffic *traffic; /* its user's */
    struct connection *next_ready;
    int open_handles;
    bool ready;        /* waits for its turn: traffic.h */
    bool paused;       /* reading is stopped: frames is full, or so is the output */
    bool discarding;   /* what it still sends is thrown away, and then it is closed */
    bool end_of_input; /* the client sends no more */
    bool hang_up;      /* closes once the output is out */
    bool closing;
};

/* accept.c: clients of server->descriptor are accepted from now on. 0 or a negative errno. */
int accept_start(struct server *server);
/* Closes the listening socket as well. */
void accept_stop(struct server *server);

/* Takes over the descriptor of a client who is not refused. */
void connection_open(struct server *server, int descriptor, const struct peer *peer);
void connection_close(struct connection *connection);
/* Takes over `message`; its text and a NUL go out. False when it is too long for a message: then
 * nothing was sent. */
bool connection_send(struct connection *connection, struct json_object *message);
/* Takes one message from the input, if there is a whole one and it may be taken. */
void connection_serve(struct connection *connection);

/* call.c: answers one message; false when it is no call at all (the connection closes). */
bool call_begin(struct connection *connection, const char *message, size_t length);
/* The client of `call` is gone. */
void call_abandon(struct call *call);
