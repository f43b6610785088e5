/* daemon_socket.c: see daemon_socket.h. */
#include "proto/daemon_socket.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char system_socket[] = "/run/traind/traind.sock";

/* Whether the socket exists and this user may connect to it; otherwise errno is set. */
static bool socket_usable(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISSOCK(status.st_mode) && access(path, W_OK) == 0;
}

/* The socket of a user's own daemon: in the runtime directory, or, if no session made one, in the
 * state directory. The caller frees it; NULL: there is none. */
static char *user_socket(void)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char *path = NULL;
    int length = -1;

    if (runtime && *runtime == '/')
        length = asprintf(&path, "%s/traind/traind.sock", runtime);
    else if (state && *state == '/')
        length = asprintf(&path, "%s/traind/traind.sock", state);
    else if (home && *home == '/')
        length = asprintf(&path, "%s/.local/state/traind/traind.sock", home);
    return length < 0 ? NULL : path;
}

static const char *user_name(void)
{
    const char *name = getenv("USER");

    return name ? name : "USER";
}

char *daemon_socket_find(const char *given, struct error *error)
{
    AUTO_FREE char *user = NULL;

    if (!given || !*given)
        given = getenv("TRAIND_SOCKET");
    if (given && *given)
        return strdup(given);
    if (socket_usable(system_socket))
        return strdup(system_socket);
    user = user_socket();
    if (user && socket_usable(user))
        return TAKE_POINTER(user);
    if (access(system_socket, F_OK) == 0)
        error_set(error, -EACCES,
                  "you may not use %s: join the group traind (sudo adduser %s traind, then log in "
                  "anew), or run a daemon of your own: systemctl --user start traind.socket",
                  system_socket, user_name());
    else
        error_set(error, -ENOENT,
                  "no daemon runs here: there is neither %s nor %s. Start it with `sudo systemctl "
                  "start traind.socket`, or one of your own with `systemctl --user start "
                  "traind.socket` or `traind`",
                  system_socket, user ? user : "$XDG_RUNTIME_DIR/traind/traind.sock");
    return NULL;
}

int daemon_socket_explain(const char *socket, int result, struct error *error)
{
    if ((result == -ENOENT || result == -ECONNREFUSED) && strcmp(socket, system_socket) == 0)
        return error_set(error, result,
                         "no daemon listens on %s. Start it: sudo systemctl start traind.socket",
                         socket);
    if (result == -ENOENT || result == -ECONNREFUSED)
        return error_set(error, result,
                         "no daemon listens on %s. Start one there: traind --socket %s", socket,
                         socket);
    if (result == -EACCES)
        return error_set(
            error, result,
            "you may not connect to %s: join its group (sudo adduser %s traind, then log in anew)",
            socket, user_name());
    return error_prefix(error, "cannot reach the daemon");
}
