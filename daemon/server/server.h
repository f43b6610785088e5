/* server.h: the Varlink service on the Unix socket. A connection has one call in flight; what a
 * client sends ahead waits in its buffer (1 MiB at most). Replies go out in order; a stream asks
 * for room before each reply, and no call is taken while there is none, so a slow reader costs one
 * reply's memory and no more. Users take turns, and each has a bound of connections and of calls
 * under way (traffic.h).
 *
 * A handler (methods/) gets a call on the loop, may hand work to the store, and ends the call
 * with exactly one of call_reply() and call_fail(), at once or later. The client may go away
 * meanwhile: the call then lives on without a connection, and ending it just frees it. */
#pragma once

#include "base/error.h"
#include "daemon/context/context.h"
#include "proto/varlink.h"

#include <stdbool.h>
#include <sys/types.h>

struct server;
struct connection;
struct user_traffic;

/* Who is on the other side, as the kernel says. */
struct peer {
    uid_t uid;
    bool admin; /* root, the daemon's own user, or a member of the admin group */
};

struct method;

struct call {
    struct daemon *daemon;
    struct connection *connection; /* NULL once the client is gone */
    const struct varlink_interface *interface;
    const struct method *method;
    struct peer peer;
    struct varlink_call message;
    struct json_object *parameters; /* lent by message; checked against the interface */
    bool more;                      /* the client asked for a stream */
    struct user_traffic *traffic;   /* that counts it as under way, with so many bytes; or NULL */
    size_t bytes;
    /* For streams, may be NULL: the output has room again; the client is gone (the handler has to
     * end the call from then on as soon as nothing of its own is under way). */
    void (*on_room)(struct call *call);
    void (*on_gone)(struct call *call);
    void *state; /* the handler's */
};

/* ---- for handlers ---------------------------------------------------------------------------- */

/* The last (or only) reply. Takes over `parameters` and the call. */
void call_reply(struct call *call, struct json_object *parameters);
/* A reply of a stream, more to follow. Takes over `parameters`. */
void call_continue(struct call *call, struct json_object *parameters);
/* Whether a stream should produce its next reply now. */
bool call_has_room(const struct call *call);

/* Ends the call with the error io.traind.<name>, the sentence in `message` beside what `parameters`
 * holds (taken over; may be NULL). */
void call_fail(struct call *call, const char *name, struct json_object *parameters,
               const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Ends the call for a store request that failed: StorageFailed with the sentence. */
void call_fail_storage(struct call *call, const struct error *error);
/* Ends the call with InvalidState: what the job, or sweep, is in forbids it. */
void call_fail_state(struct call *call, int64_t id, const char *state, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Ends the call with NoSuchJob, or NoSuchSweep. */
void call_fail_no_job(struct call *call, int64_t id);
void call_fail_no_sweep(struct call *call, int64_t id);
/* Ends the call for a store request about the job: NoSuchJob when its error is -ERROR_NO_SUCH_JOB
 * (it was removed after the call's owner had been looked up), else StorageFailed. */
void call_fail_job(struct call *call, int64_t id, const struct error *error);

/* The name of the peer's user when it is known on this connection, else NULL;
 * and to make it known. */
const char *call_user(const struct call *call);
void call_set_user(struct call *call, const char *user);

/* Whether the caller may be told what is `owner`'s, beyond that it is there. */
bool call_sees(const struct call *call, uid_t owner);

/* ---- for main -------------------------------------------------------------------------------- */

/* Opens the listening socket for calls of the methods: takes `descriptor` when >= 0 (socket
 * activation), else binds `path` with `mode` and group `group` ((gid_t)-1: the process's own). A
 * stale socket is replaced; -EADDRINUSE when another daemon answers on it. Calls are accepted from
 * server_listen() on. */
struct server_options {
    int descriptor;
    const char *path;
    mode_t mode;
    gid_t group;
};
struct method_table;
int server_open(struct daemon *daemon, const struct method_table *methods,
                const struct server_options *options, struct error *error);
int server_listen(struct daemon *daemon, struct error *error);

/* Accepts nothing more, removes the socket file and closes connections that wait for nothing or
 * follow a stream. Calls under way are still answered, until server_close_connections(). */
void server_stop(struct daemon *daemon);
void server_close_connections(struct daemon *daemon);
/* Calls that have not ended, also of clients that are gone. */
size_t server_calls_in_flight(const struct daemon *daemon);
/* After the loop has run out. */
void server_free(struct daemon *daemon);
