/* request.h: one request of HTTP, from its headers to its answer. */
#pragma once

#include "web/connections.h"
#include "web/guard.h"

#include <microhttpd.h>

enum { WEB_BODY_MAX = 1024 * 1024 /* as long as a message of Varlink */ };

/* What all requests share. */
struct web {
    struct web_options options;
    struct web_guard guard;
    struct web_connections *connections;
};

/* Callbacks of libmicrohttpd; `data` is the struct web. */
enum MHD_Result web_request_take(void *data, struct MHD_Connection *connection, const char *path,
                                 const char *method, const char *version, const char *upload,
                                 size_t *upload_size, void **request);
void web_request_end(void *data, struct MHD_Connection *connection, void **request,
                     enum MHD_RequestTerminationCode reason);
