/* reply.h: answers of HTTP, with the headers that all of them have. */
#pragma once

#include "web/assets.h"
#include "web/guard.h"

#include <microhttpd.h>

/* Adds the headers, queues the answer and gives it up. `type` NULL: the caller has set it. */
enum MHD_Result web_reply(struct MHD_Connection *connection, unsigned status, const char *type,
                          struct MHD_Response *response);

/* JSON that the answer takes over (malloc'd). */
enum MHD_Result web_reply_json(struct MHD_Connection *connection, unsigned status, char *text);

/* A sentence as text/plain. */
enum MHD_Result web_reply_refusal(struct MHD_Connection *connection, struct web_refusal refusal);

/* The asset; 304 if the browser has it already. */
enum MHD_Result web_reply_asset(struct MHD_Connection *connection, const struct web_asset *asset);
