/* stream.h: calls with `more` that survive a restart of the daemon, and signals that arrive while
 * they wait. */
#pragma once

#include "client/command_line/invocation.h"
#include "proto/varlink.h"

/* One call with `more` on its own connection. If the connection breaks, the stream connects and
 * calls again for up to STREAM_PATIENCE_SECONDS. It calls `parameters` each time, so that the new
 * call can continue where the last one stopped. A connection that breaks at once is no return of
 * the daemon; one that lasts for STREAM_STEADY_SECONDS is, though nothing may have come over it. */
struct stream {
    const char *method;
    struct json_object *(*parameters)(void *context); /* returns a new object */
    void *context;
    bool quiet; /* do not print that the daemon is away: another stream does */
    /* private to the stream */
    struct varlink_client *client;
    bool ended;
    double lost_since; /* when the connection broke; 0: it is up, and the daemon has answered */
    double connected;  /* when it was up again */
    bool announced;    /* it was printed that the daemon is away */
};

enum { STREAM_PATIENCE_SECONDS = 60, STREAM_STEADY_SECONDS = 1 };

enum stream_event {
    STREAM_NOTHING, /* no reply yet: wait with stream_poll() */
    STREAM_REPLY,   /* the caller releases `reply` */
    STREAM_END,     /* there are no more replies */
    STREAM_FAILED   /* the error was printed; `*status` is the exit status */
};

/* The next reply, without waiting. */
enum stream_event stream_next(struct stream *stream, struct invocation *invocation,
                              struct varlink_reply *reply, enum exit_status *status);
void stream_close(struct stream *stream);

/* Calls `receive` with the parameters of every reply until the stream ends or Ctrl-C is pressed. */
enum exit_status stream_run(struct stream *stream, struct invocation *invocation,
                            void (*receive)(void *context, struct json_object *parameters));

/* What happened while stream_poll() waited. POLL_DETACH: this program is to end, or nobody reads
 * its output any more. */
enum poll_result { POLL_READY = 0, POLL_DETACH = 1, POLL_RESIZED = 2, POLL_INPUT = 3 };

/* From now on only stream_poll() reports SIGINT, SIGTERM, SIGHUP and SIGWINCH. Returns a
 * descriptor, or -1. */
int stream_signals_open(void);

/* Waits until one of the streams may have a reply, a signal arrives, or `timeout_milliseconds` have
 * passed. */
enum poll_result stream_poll(struct stream *const *streams, size_t count, int signals,
                             int timeout_milliseconds);
/* The same; POLL_INPUT: the descriptor `input` can be read. */
enum poll_result stream_poll_input(struct stream *const *streams, size_t count, int signals,
                                   int input, int timeout_milliseconds);
