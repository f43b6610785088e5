/* server.c: the listening socket and the life of the server. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/server/traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the socket ------------------------------------------------------------------------------ */

/* Whether the listening process of the connected socket still runs. A child that a killed daemon
 * had just forked holds its socket until the exec. Until then connecting succeeds, but nothing
 * answers. */
static bool listener_lives(int descriptor)
{
    struct ucred listener;
    socklen_t size = sizeof listener;

    return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &listener, &size) < 0 ||
           listener.pid <= 0 /* in another pid namespace */ || kill(listener.pid, 0) == 0 ||
           errno != ESRCH;
}

/* Checks that no daemon answers on the socket; only then may it be replaced. */
static int check_stale(const char *path, struct error *error)
{
    struct stat status;
    struct error ignored;

    if (lstat(path, &status) < 0)
        return errno == ENOENT ? 0 : error_set_errno(error, -errno, "cannot look at %s", path);
    if (!S_ISSOCK(status.st_mode))
        return error_set(error, -EEXIST, "%s exists and is no socket; give another --socket", path);

    AUTO_CLOSE int descriptor = varlink_socket_try(path, &ignored);
    if (descriptor >= 0 && !listener_lives(descriptor))
        return 0;
    if (descriptor >= 0)
        return error_set(error, -EADDRINUSE,
                         "another traind answers on %s; stop it or give another --socket", path);
    if (descriptor == -EAGAIN)
        return error_set(error, -EADDRINUSE,
                         "another process listens on %s, and takes no connections: it is stopped, "
                         "or busy. Stop it or give another --socket",
                         path);
    if (descriptor != -ECONNREFUSED)
        return error_set_errno(error, descriptor, "cannot find out whether a daemon serves %s",
                               path);
    return 0;
}

/* Binds the socket under a temporary name, and renames it once its mode and group are right. */
static int bind_socket(const struct server_options *options, struct error *error)
{
    AUTO_FREE char *fresh = NULL;
    AUTO_CLOSE int descriptor = -1;
    int result = check_stale(options->path, error);

    if (result < 0)
        return result;
    fresh = memory_format("%s.%ld", options->path, (long)getpid());
    unlink(fresh);
    descriptor = varlink_socket_listen(fresh, LISTEN_BACKLOG, error);
    if (descriptor < 0)
        return TAKE_DESCRIPTOR(descriptor);
    if (chmod(fresh, options->mode) < 0 ||
        (options->group != (gid_t)-1 && chown(fresh, (uid_t)-1, options->group) < 0) ||
        rename(fresh, options->path) < 0) {
        result = error_set_errno(error, -errno, "cannot put the socket at %s", options->path);
        unlink(fresh);
        return result;
    }
    return TAKE_DESCRIPTOR(descriptor);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static int parse_interfaces(struct server *server, struct error *error)
{
    static const char *const texts[] = {proto_interface_org_varlink_service,
                                        proto_interface_io_traind};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int result = varlink_interface_parse(texts[i], &server->interfaces[i], error);
        if (result < 0)
            return result;
    }
    server->service = (struct varlink_service){
        .vendor = "traind",
        .product = "traind",
        .version = TRAIND_VERSION,
        .url = "",
        .interfaces = (const struct varlink_interface *const *)server->interfaces,
        .interface_count = sizeof texts / sizeof *texts,
    };
    return 0;
}

int server_find_admin_group(const char *name, gid_t *group, struct error *error)
{
    struct group *found = *name ? getgrnam(name) : NULL;

    *group = found ? found->gr_gid : (gid_t)-1;
    if (*name && !found)
        return error_set(error, -ENOENT, "the configuration's AdminGroup %s does not exist", name);
    return 0;
}

static int find_admin_group(struct server *server, struct error *error)
{
    int result =
        server_find_admin_group(server->daemon->config.admin_group, &server->admin_group, error);

    if (result < 0)
        server->daemon->failure_exit = DAEMON_EXIT_CONFIGURATION;
    return result;
}

int server_open(struct daemon *daemon, const struct method_table *methods,
                const struct server_options *options, struct error *error)
{
    struct server *server = memory_zero(sizeof *server);
    int descriptor = options->descriptor, result;

    server->daemon = daemon;
    server->methods = methods;
    daemon->server = server;
    server->descriptor = -1;
    traffic_start(server);
    result = parse_interfaces(server, error);
    if (result == 0)
        result = find_admin_group(server, error);
    if (result < 0)
        return result;
    if (descriptor < 0) {
        descriptor = bind_socket(options, error);
        if (descriptor < 0)
            return descriptor;
        server->path = memory_copy_text(options->path);
    }
    server->descriptor = descriptor;
    return 0;
}

int server_listen(struct daemon *daemon, struct error *error)
{
    int result = accept_start(daemon->server);

    return result < 0 ? error_set_errno(error, result, "cannot listen") : 0;
}

/* ---- end ------------------------------------------------------------------------------------- */

void server_stop(struct daemon *daemon)
{
    struct server *server = daemon->server;

    if (!server || server->stopped)
        return;
    server->stopped = true;
    if (server->path)
        unlink(server->path);
    accept_stop(server);
    traffic_stop(server);
    for (struct connection *connection = server->connections, *next; connection;
         connection = next) {
        next = connection->next;
        if (!connection->call || connection->call->more)
            connection_close(connection);
    }
}

void server_close_connections(struct daemon *daemon)
{
    while (daemon->server && daemon->server->connections)
        connection_close(daemon->server->connections);
}

size_t server_calls_in_flight(const struct daemon *daemon)
{
    return daemon->server ? daemon->server->call_count : 0;
}

size_t server_connections(const struct daemon *daemon)
{
    return daemon->server ? daemon->server->connection_count : 0;
}

void server_free(struct daemon *daemon)
{
    struct server *server = daemon->server;

    if (!server)
        return;
    for (size_t i = 0; i < server->service.interface_count; i++)
        varlink_interface_free(server->interfaces[i]);
    traffic_free(server);
    free(server->path);
    free(server);
    daemon->server = NULL;
}
