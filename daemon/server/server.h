/* server.h: the Varlink service on the Unix socket.
 *
 * A connection has one call in flight; further messages of the client wait in its buffer (at most 1
 * MiB). Replies are sent in order. A stream asks for room before each reply, and no call is begun
 * while there is none, so a slow reader costs the memory of one reply only. Users take turns, and
 * each has a limit of connections and of calls under way (traffic.h).
 *
 * A handler (methods/) gets a call on the loop and may submit work to the store. It ends the call
 * with exactly one of call_reply() and call_fail(), at once or later. If the client goes away
 * meanwhile, the call goes on without a connection, and ending it only frees it. */
#pragma once

#include "base/error.h"
#include "daemon/context/context.h"
#include "proto/varlink.h"

#include <stdbool.h>
#include <sys/types.h>

struct server;
struct connection;
struct user_traffic;

/* The client's identity, as the kernel reports it. */
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
    struct json_object *parameters; /* owned by `message`; checked against the interface */
    bool more;                      /* the client asked for a stream */
    struct user_traffic *traffic;   /* which counts this call and its bytes as under way; or NULL */
    size_t bytes;
    /* For streams; may be NULL. on_room: the output has room again. on_gone: the client has gone;
     * the handler has to end the call as soon as it has no work of its own under way. */
    void (*on_room)(struct call *call);
    void (*on_gone)(struct call *call);
    void *state; /* the handler's */
};

/* ---- for handlers ---------------------------------------------------------------------------- */

/* Sends the last (or only) reply and ends the call. Owns `parameters`. */
void call_reply(struct call *call, struct json_object *parameters);
/* Sends a reply of a stream; more follow. Owns `parameters`. */
void call_continue(struct call *call, struct json_object *parameters);
/* Whether a stream should produce its next reply now. */
bool call_has_room(const struct call *call);

/* Ends the call with the error io.traind.<name>. The sentence becomes its member `message`, in
 * addition to `parameters` (owned; may be NULL). */
void call_fail(struct call *call, const char *name, struct json_object *parameters,
               const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Ends the call with StorageFailed and the sentence, after a store request failed. */
void call_fail_storage(struct call *call, const struct error *error);
/* Ends the call with InvalidState, because the state of the job or the sweep forbids it. */
void call_fail_state(struct call *call, int64_t id, const char *state, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Ends the call with NoSuchJob, or NoSuchSweep. */
void call_fail_no_job(struct call *call, int64_t id);
void call_fail_no_sweep(struct call *call, int64_t id);
/* Ends the call after a store request about the job failed: with NoSuchJob if the error is
 * -ERROR_NO_SUCH_JOB (the job was removed after its owner had been looked up), else with
 * StorageFailed. */
void call_fail_job(struct call *call, int64_t id, const struct error *error);

/* The name of the peer's user if this connection knows it, else NULL. call_set_user() sets it. */
const char *call_user(const struct call *call);
void call_set_user(struct call *call, const char *user);

/* Whether the caller may see more of what belongs to `owner` than that it exists. */
bool call_sees(const struct call *call, uid_t owner);

/* ---- for main -------------------------------------------------------------------------------- */

/* Looks up the group that AdminGroup names; "": (gid_t)-1. -ENOENT with a sentence. */
int server_find_admin_group(const char *name, gid_t *group, struct error *error);

/* Opens the listening socket for calls of the methods. Uses `descriptor` if it is >= 0 (socket
 * activation). Otherwise binds `path` with `mode` and group `group` ((gid_t)-1: the process's own),
 * and replaces a stale socket. -EADDRINUSE if another daemon answers on it. Calls are accepted
 * after server_listen(). */
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

/* Stops accepting, removes the socket file, and closes connections that have no call or follow a
 * stream. Other calls under way are still answered, until server_close_connections(). */
void server_stop(struct daemon *daemon);
void server_close_connections(struct daemon *daemon);
/* Calls that have not ended, including those whose clients have gone. */
size_t server_calls_in_flight(const struct daemon *daemon);
/* Connections of clients that are open. */
size_t server_connections(const struct daemon *daemon);
/* Frees the server after the loop has ended. */
void server_free(struct daemon *daemon);
