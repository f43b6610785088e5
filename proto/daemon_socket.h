/* daemon_socket.h: where the daemon listens, for its clients. */
#pragma once

#include "base/error.h"

/* `given` unless it is NULL or "", or else $TRAIND_SOCKET, or else the system's or the user's own
 * daemon: the first of the two that this user may connect to. Returns the path, which the caller
 * frees. NULL: there is none, and the sentence says how to get one. `error` may be NULL. */
char *daemon_socket_find(const char *given, struct error *error);

/* Replaces the sentence of varlink_client_connect(), which failed with `result`, by one that says
 * how to reach the daemon at `socket`. Returns `result`. */
int daemon_socket_explain(const char *socket, int result, struct error *error);
