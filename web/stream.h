/* stream.h: follows calls of traind that tell what happens, as one answer of HTTP that goes on: a
 * line of JSON for each reply, {"call": its index in the request, "reply": that of Varlink}. An
 * empty line comes when nothing else has for a while. */
#pragma once

#include "web/options.h"
#include "web/reply.h"

struct web_stream;

enum { WEB_STREAM_CALLS_MAX = 4 /* that one page follows at a time */ };

/* Begins the calls of `body`, {"calls": [{"method": …, "parameters": …}, …]}. `descriptor` is the
 * page's connection: the stream ends when that does. Negative with a sentence: the request is
 * wrong. A call that fails is told in the stream. */
int web_stream_open(const struct web_options *options, const char *body, size_t length,
                    int descriptor, struct web_stream **stream, struct error *error);
void web_stream_close(struct web_stream *stream);

/* An answer that owns the stream. */
struct MHD_Response *web_stream_response(struct web_stream *stream);
