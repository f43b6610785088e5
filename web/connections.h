/* connections.h: the connections of browsers, each with the time by which it has to get on: a
 * client that sends a byte now and then would otherwise hold its place for ever. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

enum {
    WEB_CONNECTIONS_MAX = 64,
    WEB_CONNECTIONS_PER_ADDRESS = 48,
    WEB_STREAMS_MAX = 24,     /* so that pages which follow something leave room for calls */
    WEB_ANSWER_SECONDS = 120, /* from the end of a request to the end of its answer */
    WEB_STALL_SECONDS = 40    /* without a byte sent or received */
};

struct web_connections;
struct web_connection;

/* Starts the thread that ends late connections. `patience`: seconds from a connection's beginning,
 * or its last answer, to the end of its next request. The caller frees with
 * web_connections_close(). */
int web_connections_open(int patience, struct web_connections **connections, struct error *error);
/* All connections have been removed. */
void web_connections_close(struct web_connections *connections);

/* NULL: there are too many. */
struct web_connection *web_connection_add(struct web_connections *connections, int descriptor);
void web_connection_remove(struct web_connections *connections, struct web_connection *connection);
int web_connection_descriptor(const struct web_connection *connection);

/* What the connection has to do next. */
enum web_connection_state {
    WEB_CONNECTION_REQUESTS,
    WEB_CONNECTION_ANSWERS,
    WEB_CONNECTION_STREAMS
};

/* False: there are too many streams, and the state is the one before. */
bool web_connection_set(struct web_connections *connections, struct web_connection *connection,
                        enum web_connection_state state);
