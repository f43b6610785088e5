/* server.h: listens, and gives each connection a thread. */
#pragma once

#include "web/options.h"

struct web_server;

/* Starts to answer. The caller ends it with web_server_close(). */
int web_server_open(const struct web_options *options, struct web_server **server,
                    struct error *error);
void web_server_close(struct web_server *server);

/* The address to open, with the token; the caller frees it. */
char *web_server_address(const struct web_server *server);
