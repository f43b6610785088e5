/* connection.h: one client's connection; only server/ uses it. */
#pragma once

#include "daemon/server/server.h"

#include <uv.h>

enum {
    LISTEN_BACKLOG = 1024, /* all are accepted within some 10 ms; further clients wait in
                            * connect() */
    REFUSED_KEPT = 16
};

struct server {
    struct daemon *daemon;
    const struct method_table *methods;
    int descriptor; /* the listening socket; -1: none */
    uv_poll_t listener;
    bool accepts; /* the handles of accept.c are open */
    bool stopped;
    struct varlink_service service;
    struct varlink_interface *interfaces[2]; /* org.varlink.service, io.traind */
    struct connection *connections;          /* list */
    size_t connection_count, call_count;
    struct user_traffic *traffic;   /* list */
    struct user_traffic *next_turn; /* NULL: the first of the list */
    uv_check_t turn;
    uv_idle_t idle;
    int refused[REFUSED_KEPT]; /* descriptors; -1: none */
    size_t next_refused;
    uv_timer_t refused_timer, shortage_timer;
    gid_t admin_group; /* (gid_t)-1: none */
    char *path;        /* of a socket file that traind made; else NULL */
};

struct connection {
    uv_pipe_t pipe;
    uv_timer_t timer;
    struct server *server;
    struct connection *next, *previous;
    struct peer peer;
    char *user;                   /* name of the peer's user, once a handler has looked it up */
    struct varlink_frames frames; /* bytes that were read but not yet handled */
    struct call *call;            /* in flight */
    struct user_traffic *traffic; /* its user's */
    struct connection *next_ready;
    int open_handles;
    bool ready;        /* is in the queue for its user's turn: traffic.h */
    bool paused;       /* reading is stopped, because `frames` or the output is full */
    bool discarding;   /* further input is discarded until the connection closes */
    bool end_of_input; /* the client sends no more */
    bool hang_up;      /* closes once all output is written */
    bool closing;
};

/* accept.c: starts to accept clients on server->descriptor. 0 or a negative errno. */
int accept_start(struct server *server);
/* Closes the listening socket as well. */
void accept_stop(struct server *server);

/* Opens the connection of an accepted client. Owns the descriptor. */
void connection_open(struct server *server, int descriptor, const struct peer *peer);
void connection_close(struct connection *connection);
/* Sends the message's text and a NUL; owns `message`. Returns false, and sends nothing, if it is
 * too long. */
bool connection_send(struct connection *connection, struct json_object *message);
/* Handles one message of the input, if a whole one is there and the connection may begin a call. */
void connection_serve(struct connection *connection);

/* call.c: begins the call of one message. Returns false if the message is not a call; the
 * connection then closes. */
bool call_begin(struct connection *connection, const char *message, size_t length);
/* Tells the call that its client has gone. */
void call_abandon(struct call *call);
