/* server.c: see server.h. */
#include "web/server.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "proto/varlink.h"
#include "web/request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 16 * 1024, /* of one request, with what is received at a time */
    STACK_BYTES = 256 * 1024, /* of a connection's thread */
    LISTEN_BACKLOG = 64,
    CERTIFICATE_BYTES_MAX = 1024 * 1024
};

struct web_server {
    struct web web;
    struct MHD_Daemon *daemon;
    int port; /* that it listens at */
    char *certificate, *key;
};

/* ---- listening ------------------------------------------------------------------------------- */

static int listen_at_path(const char *path, struct error *error)
{
    mode_t mask = umask(0177); /* who else may open it, its owner says */
    int descriptor = varlink_socket_listen(path, LISTEN_BACKLOG, error);

    umask(mask);
    return descriptor;
}

static int listen_at_port(const struct web_options *options, int *port, struct error *error)
{
    const char *address = options->address ? options->address : "127.0.0.1";
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)options->port)};
    bool is_four = inet_pton(AF_INET, address, &four.sin_addr) == 1;
    const struct sockaddr *wanted = is_four ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t size = is_four ? sizeof four : sizeof six;
    AUTO_CLOSE int descriptor = -1;
    int one = 1;

    if (!is_four && inet_pton(AF_INET6, address, &six.sin6_addr) != 1)
        return error_set(error, -EINVAL, "%s is no address", address);
    descriptor = socket(wanted->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(descriptor, wanted, size) < 0 || listen(descriptor, LISTEN_BACKLOG) < 0)
        return error_set_errno(error, -errno,
                               "cannot listen at port %d of %s (--port 0 takes a free "
                               "one)",
                               options->port, address);
    if (getsockname(descriptor, (struct sockaddr *)(is_four ? (void *)&four : &six), &size) < 0)
        return error_set_errno(error, -errno, "cannot tell the port");
    *port = ntohs(is_four ? four.sin_port : six.sin6_port);
    return TAKE_DESCRIPTOR(descriptor);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_connection(void *data, struct MHD_Connection *connection, void **place,
                          enum MHD_ConnectionNotificationCode code)
{
    struct web *web = data;
    const union MHD_ConnectionInfo *info;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*place)
            web_connection_remove(web->connections, *place);
        *place = NULL;
        return;
    }
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *place = info ? web_connection_add(web->connections, info->connect_fd) : NULL;
    if (info && !*place) /* nothing would end it when it is late */
        shutdown(info->connect_fd, SHUT_RDWR);
}

static void log_library(void *data, const char *format, va_list values)
{
    char line[512];
    size_t length;

    (void)data;
    vsnprintf(line, sizeof line, format, values);
    length = strlen(line);
    if (length > 0 && line[length - 1] == '\n')
        line[length - 1] = 0;
    log_debug("%s", line);
}

static int daemon_start(struct web_server *server, int descriptor, struct error *error)
{
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG | (server->key ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, server->certificate},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, server->key},
                                   {MHD_OPTION_END, 0, NULL}};

    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, web_request_take, &server->web, MHD_OPTION_EXTERNAL_LOGGER,
        log_library, NULL, MHD_OPTION_LISTEN_SOCKET, descriptor, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)WEB_CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)WEB_CONNECTIONS_PER_ADDRESS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)WEB_STALL_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, &server->web, MHD_OPTION_NOTIFY_COMPLETED, web_request_end, &server->web,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, server->key ? tls : tls + 2,
        MHD_OPTION_END);
    if (server->daemon)
        return 0;
    return error_set(error, -EIO,
                     server->key ? "cannot serve: the certificate or the key is not "
                                   "PEM, or they do not belong together"
                                 : "cannot serve: no memory, or too many threads");
}

/* ---- its life -------------------------------------------------------------------------------- */

static int files_read(struct web_server *server, struct error *error)
{
    const struct web_options *options = &server->web.options;
    size_t size;
    int result;

    if (!options->key)
        return 0;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "this libmicrohttpd was built without TLS: put a proxy in front");
    result = file_read(AT_FDCWD, options->certificate, CERTIFICATE_BYTES_MAX, &server->certificate,
                       &size, error);
    if (result < 0)
        return result;
    return file_read(AT_FDCWD, options->key, CERTIFICATE_BYTES_MAX, &server->key, &size, error);
}

int web_server_open(const struct web_options *options, struct web_server **opened,
                    struct error *error)
{
    struct web_server *server = memory_zero(sizeof *server);
    AUTO_CLOSE int descriptor = -1;
    int result;

    server->web.options = *options;
    result = files_read(server, error);
    if (result == 0)
        result = web_guard_open(&server->web.guard, &server->web.options, error);
    if (result == 0)
        result = web_connections_open(options->patience, &server->web.connections, error);
    if (result == 0) {
        descriptor = options->socket ? listen_at_path(options->socket, error)
                                     : listen_at_port(options, &server->port, error);
        result = descriptor < 0 ? descriptor : daemon_start(server, descriptor, error);
    }
    if (result < 0) {
        web_server_close(server);
        return result;
    }
    (void)TAKE_DESCRIPTOR(descriptor); /* the library closes it */
    *opened = server;
    return 0;
}

void web_server_close(struct web_server *server)
{
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    if (server->daemon && server->web.options.socket)
        unlink(server->web.options.socket);
    web_connections_close(server->web.connections);
    free(server->certificate);
    free(server->key);
    free(server);
}

char *web_server_address(const struct web_server *server)
{
    const struct web_options *options = &server->web.options;
    const char *host = options->host_count ? options->hosts[0]
                       : options->address  ? options->address
                                           : "127.0.0.1";
    bool brackets = strchr(host, ':') && host[0] != '[';
    AUTO_FREE char *port =
        options->socket ? memory_copy_text("") : memory_format(":%d", server->port);

    if (options->socket && !options->host_count)
        host = "localhost";
    return memory_format("%s://%s%s%s%s/%s%s", options->key ? "https" : "http", brackets ? "[" : "",
                         host, brackets ? "]" : "", port,
                         server->web.guard.token[0] ? "#token=" : "", server->web.guard.token);
}
