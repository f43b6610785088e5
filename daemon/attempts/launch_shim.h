/* launch_shim.h: gets the shim of an attempt. A new one is forked by traind-shim --fork-server,
 * which this starts; one that waits with a warm worker becomes the attempt's. */
#pragma once

#include "daemon/attempts/launch.h"

/* Makes a placeholder argument, long enough for any attempt: the shim overwrites it with the path
 * of its attempt's folder. NULL: no memory. The caller frees it. */
char *launch_shim_title(const char *state_directory);

/* Starts traind-shim as a server of requests. Returns the descriptor that leads to it, or negative
 * errno. */
int launch_shim_server(const char *shim_path, char *const *arguments, char *const *environment,
                       struct error *error);

/* Gets a shim for the folder: the one that waits with a warm worker, else a new one. It inherits
 * `socket`, its connection to the daemon, and `lock`, its locked attempt.json; both stay the
 * caller's, too. 0 or negative errno, with a sentence. */
int launch_shim_find(const struct attempt_launch *launch, const char *folder, int socket, int lock,
                     struct error *error);
