/* options.h: what the command line of traind-web says. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { WEB_PORT_DEFAULT = 8470, WEB_HOSTS_MAX = 16, WEB_PATIENCE_DEFAULT = 20 };

struct web_options {
    const char *daemon;               /* the socket of traind; NULL: daemon_socket_find() */
    const char *address;              /* to listen at; NULL: 127.0.0.1 */
    int port;                         /* 0: any free one */
    const char *socket;               /* a Unix socket to listen at, in place of address and port */
    const char *hosts[WEB_HOSTS_MAX]; /* further names that pages may be asked for by */
    size_t host_count;
    const char *token_file;         /* keeps the token; NULL: a new one for each start */
    const char *metrics_token_file; /* keeps a token that reads /metrics alone; NULL: none does */
    bool no_token;                  /* whoever reaches the Unix socket may act */
    bool read_only;                 /* no call that changes anything */
    int patience;                   /* seconds that a request may take to arrive */
    const char *certificate, *key;  /* PEM files; NULL: no TLS */
};

/* Reads the command line. Returns -1 to go on; else the exit status, after it has printed what was
 * asked for, or what is wrong. */
int web_options_read(int count, char **words, struct web_options *options);
