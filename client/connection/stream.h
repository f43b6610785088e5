/* stream.h: calls with `more` that survive a restart of the daemon, and the signals that may come
 * meanwhile. */
#pragma once

#include "client/command_line/invocation.h"
#include "proto/varlink.h"

/* One call with `more` on a connection of its own. When the daemon goes away, the stream connects
 * and calls again until it is back, STREAM_PATIENCE_SECONDS long; `parameters` is asked for anew
 * each time, so that a call can go on from where it was. */
struct stream {
    const char *method;
    struct json_object *(*parameters)(void *context); /* a fresh object */
    void *context;
    bool quiet; /* another stream tells a person when the daemon is away */
    /* the stream's own */
    struct varlink_client *client;
    bool ended;
    double lost_since; /* when the connection broke, 0 while it is fine */
    bool announced;    /* a person was told that the daemon is away */
};

enum { STREAM_PATIENCE_SECONDS = 60 };

enum stream_event {
    STREAM_NOTHING, /* nothing yet: wait with stream_poll() */
    STREAM_REPLY,   /* `reply` is to be released by the caller */
    STREAM_END,     /* the last reply was handed out before */
    STREAM_FAILED   /* said on standard error; `*status` is the exit status */
};

/* The next reply, without waiting. */
enum stream_event stream_next(struct stream *stream, struct invocation *invocation,
                              struct varlink_reply *reply, enum exit_status *status);
void stream_close(struct stream *stream);

/* Hands the parameters of every reply to `receive` until the stream ends or Ctrl-C is pressed. */
enum exit_status stream_run(struct stream *stream, struct invocation *invocation,
                            void (*receive)(void *context, struct json_object *parameters));

/* What happened while stream_poll() waited. */
enum poll_result { POLL_READY = 0, POLL_DETACH = 1, POLL_RESIZED = 2, POLL_INPUT = 3 };

/* From here on SIGINT, SIGTERM and SIGWINCH are answered by stream_poll() alone. Returns a
 * descriptor, or -1. */
int stream_signals_open(void);

/* Waits until one of the streams may have something, a signal came, or `timeout_milliseconds` have
 * passed. */
enum poll_result stream_poll(struct stream *const *streams, size_t count, int signals,
                             int timeout_milliseconds);
/* The same; POLL_INPUT when the descriptor `input` can be read. */
enum poll_result stream_poll_input(struct stream *const *streams, size_t count, int signals,
                                   int input, int timeout_milliseconds);
