/* reply.c: see reply.h. */
#include "web/reply.h"

#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page loads what this server has, runs no script that stands in it, is shown in no other page,
 * and text cannot become elements (trusted types). */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};

enum MHD_Result web_reply(struct MHD_Connection *connection, unsigned status, const char *type,
                          struct MHD_Response *response)
{
    enum MHD_Result result = MHD_NO;

    if (!response)
        return MHD_NO;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    if (!MHD_get_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result web_reply_json(struct MHD_Connection *connection, unsigned status, char *text)
{
    return web_reply(connection, status, "application/json",
                     MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

enum MHD_Result web_reply_refusal(struct MHD_Connection *connection, struct web_refusal refusal)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(refusal.sentence), (void *)refusal.sentence, MHD_RESPMEM_PERSISTENT);

    if (response && refusal.status == MHD_HTTP_UNAUTHORIZED) /* RFC 9110, 15.5.2 */
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    return web_reply(connection, refusal.status, "text/plain; charset=utf-8", response);
}

enum MHD_Result web_reply_asset(struct MHD_Connection *connection, const struct web_asset *asset)
{
    size_t size = (size_t)(asset->end - asset->begin);
    const char *known =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    char digest[SHA256_HEX_SIZE], tag[SHA256_HEX_SIZE + 2];
    struct MHD_Response *response;
    struct sha256 hash;
    bool same;

    sha256_begin(&hash);
    sha256_add(&hash, asset->begin, size);
    sha256_end(&hash, digest);
    snprintf(tag, sizeof tag, "\"%s\"", digest);
    same = known && strcmp(known, tag) == 0;
    response = MHD_create_response_from_buffer(same ? 0 : size, (void *)asset->begin,
                                               MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, tag);
    return web_reply(connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, web_asset_type(asset),
                     response);
}
