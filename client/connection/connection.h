/* connection.h: calls to the daemon, and streams that survive its restart. Whatever goes wrong is
 * said on standard error here; callers only pass the exit status on. */
#pragma once

#include "client/command_line/command.h"
#include "proto/varlink.h"

/* Connects unless it is done already. */
enum exit_status connection_open(struct invocation *invocation);

/* Calls `method` of io.traind (its bare name) and waits for the reply, which the caller releases
 * after EXIT_STATUS_DONE. Takes over `parameters`. */
enum exit_status connection_call(struct invocation *invocation, const char *method,
                                 struct json_object *parameters, struct varlink_reply *reply);

/* The same, for callers who care about what was refused: `reply->error` names it. They release the
 * reply in any case. */
enum exit_status connection_ask(struct invocation *invocation, const char *method,
                                struct json_object *parameters, struct varlink_reply *reply);

/* The same for what one can do without: false, and nothing is said, when there is no reply. */
bool connection_try(struct invocation *invocation, const char *method,
                    struct json_object *parameters, struct varlink_reply *reply);

/* Says on standard error that the daemon's disk is full, where it is. */
void connection_tell_full_disk(struct invocation *invocation);

/* What the job of a name is wanted for. */
enum job_use {
    JOB_IS_READ,
    JOB_IS_ACTED_ON /* changed, or what it is or made is used as the caller's own */
};

/* The id of the job that `text` names: a number, or the name of the newest of the caller's own jobs
 * that has it. Where none has and a job of somebody else's does, that one is read, which is said on
 * standard error; to act on it takes its number: any user may choose any name. */
enum exit_status connection_find_job(struct invocation *invocation, const char *text,
                                     enum job_use use, int64_t *id);

/* {"id": the job that `text` names}, owned by the caller, for the calls that want no more. */
enum exit_status connection_job_parameters(struct invocation *invocation, const char *text,
                                           enum job_use use, struct json_object **parameters);

/* Says what the daemon's error reply means; returns EXIT_STATUS_FAILED. */
enum exit_status connection_refused(const struct varlink_reply *reply);

/* ---- streams ------------------------------------------------------------------------------- */

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

/* ---- signals ------------------------------------------------------------------------------- */

/* What happened while stream_poll() waited. */
enum poll_result { POLL_READY = 0, POLL_DETACH = 1, POLL_RESIZED = 2, POLL_INPUT = 3 };

/* From here on SIGINT, SIGTERM and SIGWINCH are answered by stream_poll() alone. Returns a
 * descriptor, or -1. */
int signals_open(void);

/* Waits until one of the streams may have something, a signal came, or `timeout_milliseconds` have
 * passed. */
enum poll_result stream_poll(struct stream *const *streams, size_t count, int signals,
                             int timeout_milliseconds);
/* The same; POLL_INPUT when the descriptor `input` can be read. */
enum poll_result stream_poll_input(struct stream *const *streams, size_t count, int signals,
                                   int input, int timeout_milliseconds);
