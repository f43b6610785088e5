/* guard.h: which requests are answered: what stands between a browser that opens any page of the
 * web, or another user of this machine, and the jobs of the one who runs traind-web. */
#pragma once

#include "web/options.h"

#include <stdbool.h>
#include <stddef.h>

enum { WEB_TOKEN_BYTES = 32, WEB_TOKEN_SIZE = 2 * WEB_TOKEN_BYTES + 1 };

struct web_guard {
    const struct web_options *options;
    char token[WEB_TOKEN_SIZE];         /* "": none is asked for (--no-token) */
    char metrics_token[WEB_TOKEN_SIZE]; /* which reads /metrics alone; "": none does */
};

/* Makes the tokens, or reads those that the files of the options keep. */
int web_guard_open(struct web_guard *guard, const struct web_options *options, struct error *error);

/* The headers that the decision depends on; NULL: the request has no such header. */
struct web_headers {
    const char *host, *origin, *fetch_site, *content_type, *authorization;
};

/* A refused request: the HTTP status and the sentence; status 0: it may be answered. */
struct web_refusal {
    unsigned status;
    const char *sentence;
};

/* Any request: it names this server, so a name of another one that leads here (DNS rebinding) is
 * none. 421. */
struct web_refusal web_guard_host(const struct web_guard *guard, const struct web_headers *headers);

/* A request for data or for a change: of this server's own page, as JSON, with the token. 403, 415,
 * 401. */
struct web_refusal web_guard_call(const struct web_guard *guard, const struct web_headers *headers);

/* A request for /metrics, which is of a program and of no page: it has one of the tokens. No page
 * of another origin can send them. 401. */
struct web_refusal web_guard_metrics(const struct web_guard *guard,
                                     const struct web_headers *headers);
