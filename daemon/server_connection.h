/* server_connection.h: one client's connection; for server*.c alone. */
#pragma once

#include "daemon/server.h"

#include <uv.h>

struct server {
    struct daemon *daemon;
    uv_pipe_t listener;
    struct varlink_service service;
    struct varlink_interface *interfaces[2]; /* org.varlink.service, io.traind */
    struct connection *connections;          /* list */
    size_t connection_count, call_count;
    gid_t admin_group; /* (gid_t)-1: none */
    char *path;        /* of a socket file of our own, else NULL */
    bool stopped;
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
    const char *refusal; /* the error's name that answers any call: too many connections, … */
    int open_handles;
    bool handling;     /* connection_handle_messages() runs */
    bool paused;       /* frames is full: reading is stopped */
    bool end_of_input; /* the client sends no more */
    bool hang_up;      /* closes once the output is out */
    bool closing;
};

/* Accepts the next client of the listener. */
void connection_accept(struct server *server);
void connection_close(struct connection *connection);
/* Takes over `message`; its text and a NUL go out. */
void connection_send(struct connection *connection, struct json_object *message);
/* Handles buffered messages until a call is in flight or none is whole. */
void connection_handle_messages(struct connection *connection);

/* server_call.c: answers one message; false when it is no call at all (the connection closes). */
bool call_begin(struct connection *connection, const char *message, size_t length);
/* The client of `call` is gone. */
void call_abandon(struct call *call);
