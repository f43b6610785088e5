/* varlink_socket.c: opens Unix stream sockets at paths of any length; see varlink.h. */
#include "base/cleanup.h"
#include "proto/varlink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Makes the address of `path`. A path that is too long goes through its folder's descriptor, which
 * must stay open until the address has been used. */
static int address_make(const char *path, struct sockaddr_un *address, int *folder,
                        struct error *error)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *parent = NULL;
    size_t length;

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!*path)
        return error_set(error, -EINVAL, "the path of a socket is empty");
    if (strlen(path) < sizeof address->sun_path) {
        strcpy(address->sun_path, path);
        return 0;
    }
    parent = slash == path ? strdup("/")
             : slash       ? strndup(path, (size_t)(slash - path))
                           : strdup(".");
    if (!parent)
        return error_set(error, -ENOMEM, "out of memory");
    *folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*folder < 0)
        return error_set_errno(error, -errno, "cannot open the folder %s of a socket", parent);
    length = (size_t)snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s",
                              *folder, slash ? slash + 1 : path);
    if (length >= sizeof address->sun_path)
        return error_set(error, -ENAMETOOLONG,
                         "the name of the socket %s is too long; a name of up to 80 bytes works",
                         path);
    return 0;
}

static int connect_fail(const char *path, int code, struct error *error)
{
    if (code == -ENOENT)
        return error_set(error, code,
                         "cannot connect to %s: there is no such socket. Start the daemon, or name "
                         "the socket of a running one",
                         path);
    if (code == -ECONNREFUSED)
        return error_set(error, code,
                         "cannot connect to %s: nobody listens there any more. Start the daemon "
                         "again, or name the socket of a running one",
                         path);
    if (code == -EACCES)
        return error_set(error, code,
                         "cannot connect to %s: permission denied. Its owner or a member of its "
                         "group may",
                         path);
    return error_set_errno(error, code, "cannot connect to %s", path);
}

/* connect(2), repeated after a signal. -EAGAIN: the queue of a listener that accepts nothing stayed
 * full, for a blocking descriptor during its SO_SNDTIMEO. */
static int socket_connect(int descriptor, const struct sockaddr_un *address)
{
    while (connect(descriptor, (const struct sockaddr *)address, sizeof *address) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* Whether a socket exists at the address on which no process listens. */
static bool socket_is_stale(const struct sockaddr_un *address)
{
    AUTO_CLOSE int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat status;

    return probe >= 0 && lstat(address->sun_path, &status) == 0 && S_ISSOCK(status.st_mode) &&
           socket_connect(probe, address) == -ECONNREFUSED;
}

static int socket_listen(int descriptor, const struct sockaddr_un *address, int backlog,
                         const char *path, struct error *error)
{
    int r = bind(descriptor, (const struct sockaddr *)address, sizeof *address) < 0 ? -errno : 0;

    if (r == -EADDRINUSE && socket_is_stale(address)) {
        (void)unlink(address->sun_path);
        r = bind(descriptor, (const struct sockaddr *)address, sizeof *address) < 0 ? -errno : 0;
    }
    if (r == -EADDRINUSE)
        return error_set(error, r,
                         "cannot listen on %s: a running process does already, or it is no socket",
                         path);
    if (r < 0 || listen(descriptor, backlog) < 0)
        return error_set_errno(error, r < 0 ? r : -errno, "cannot listen on %s", path);
    return 0;
}

/* A blocking socket, and the address of `path` as address_make() has it. */
static int socket_make(const char *path, int *descriptor, struct sockaddr_un *address, int *folder,
                       struct error *error)
{
    int r = address_make(path, address, folder, error);

    if (r < 0)
        return r;
    *descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return *descriptor < 0 ? error_set_errno(error, -errno, "cannot make a socket") : 0;
}

int varlink_socket_listen(const char *path, int backlog, struct error *error)
{
    AUTO_CLOSE int descriptor = -1, folder = -1;
    struct sockaddr_un address;
    int r = socket_make(path, &descriptor, &address, &folder, error);

    if (r < 0)
        return r;
    r = socket_listen(descriptor, &address, backlog, path, error);
    return r < 0 ? r : TAKE_DESCRIPTOR(descriptor);
}

/* For how long connect(2), and later writes, wait; 0: without end. poll(2) does not tell that a
 * queue has room. */
static int wait_limit_set(int descriptor, int milliseconds)
{
    struct timeval limit = {.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};

    return setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0 ? -errno : 0;
}

int varlink_socket_connect(const char *path, int timeout_milliseconds, struct error *error)
{
    AUTO_CLOSE int descriptor = -1, folder = -1;
    struct sockaddr_un address;
    int r = socket_make(path, &descriptor, &address, &folder, error);

    if (r < 0)
        return r;
    if (timeout_milliseconds >= 0)
        r = wait_limit_set(descriptor, timeout_milliseconds > 0 ? timeout_milliseconds : 1);
    if (r == 0)
        r = socket_connect(descriptor, &address);
    if (r == 0 && timeout_milliseconds >= 0)
        r = wait_limit_set(descriptor, 0);
    if (r == -EAGAIN)
        return error_set(error, -ETIMEDOUT,
                         "what listens on %s takes no connections: it may be stopped, or busy",
                         path);
    return r < 0 ? connect_fail(path, r, error) : TAKE_DESCRIPTOR(descriptor);
}

int varlink_socket_try(const char *path, struct error *error)
{
    AUTO_CLOSE int descriptor = -1, folder = -1;
    struct sockaddr_un address;
    int r = address_make(path, &address, &folder, error);

    if (r < 0)
        return r;
    descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return error_set_errno(error, -errno, "cannot make a socket");
    r = socket_connect(descriptor, &address);
    if (r < 0)
        return connect_fail(path, r, error);
    return TAKE_DESCRIPTOR(descriptor);
}
