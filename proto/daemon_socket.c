/* daemon_socket.c: see daemon_socket.h. */
#include "proto/daemon_socket.h"

#include "base/cleanup.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
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

/* The socket of a user's own daemon, as it finds it: in the runtime directory, or, if no session
 * made one, in the state directory. The caller frees it; NULL: there is none. */
static char *user_socket(bool with_session)
{
    const char *runtime = with_session ? getenv("XDG_RUNTIME_DIR") : NULL;
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
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
    AUTO_FREE char *user = NULL, *sessionless = NULL;

    if (!given || !*given)
        given = getenv("TRAIND_SOCKET");
    if (given && *given)
        return strdup(given);
    if (socket_usable(system_socket))
        return strdup(system_socket);
    user = user_socket(true);
    if (user && socket_usable(user))
        return TAKE_POINTER(user);
    sessionless = user_socket(false); /* a daemon that was started outside of a session */
    if (sessionless && socket_usable(sessionless))
        return TAKE_POINTER(sessionless);
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

/* Why this user may not connect: whoever may write to a socket may. */
static int explain_refusal(const char *socket, struct error *error)
{
    struct stat status;
    struct passwd *owner;
    struct group *group;

    if (stat(socket, &status) < 0)
        return error_set(error, -EACCES,
                         "you may not enter the folder of %s: it is of somebody else's daemon, and "
                         "--socket or TRAIND_SOCKET names another one",
                         socket);
    group = getgrgid(status.st_gid);
    if (strcmp(socket, system_socket) == 0 || (status.st_mode & S_IWGRP && group))
        return error_set(
            error, -EACCES,
            "you may not connect to %s: join its group (sudo adduser %s %s, then log in anew)",
            socket, user_name(), group ? group->gr_name : "traind");
    owner = getpwuid(status.st_uid);
    return error_set(error, -EACCES,
                     "you may not connect to %s: it serves %s alone, and --socket or TRAIND_SOCKET "
                     "names another one",
                     socket, owner ? owner->pw_name : "its owner");
}

int daemon_socket_explain(const char *socket, int result, struct error *error)
{
    struct stat status;

    if (stat(socket, &status) == 0 && !S_ISSOCK(status.st_mode))
        return error_set(error, result,
                         "%s is no socket: name that of a daemon by --socket or TRAIND_SOCKET",
                         socket);
    if ((result == -ENOENT || result == -ECONNREFUSED) && strcmp(socket, system_socket) == 0)
        return error_set(error, result,
                         "no daemon listens on %s. Start it: sudo systemctl start traind.socket",
                         socket);
    if (result == -ENOENT || result == -ECONNREFUSED)
        return error_set(error, result,
                         "no daemon listens on %s. Start one there: traind --socket %s", socket,
                         socket);
    if (result == -EACCES)
        return explain_refusal(socket, error);
    return error_prefix(error, "cannot reach the daemon");
}
