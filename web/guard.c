/* guard.c: see guard.h.
 *
 * The token comes in a header and not in a cookie: a browser sends cookies of 127.0.0.1 to all of
 * its ports, so another user's server on this machine could collect them. Nor does any page but
 * ours have the token to send. */
#include "web/guard.h"

#include "base/cleanup.h"
#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the token ------------------------------------------------------------------------------- */

static int token_make(char token[WEB_TOKEN_SIZE], struct error *error)
{
    unsigned char bytes[WEB_TOKEN_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set_errno(error, -errno, "cannot make a token");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/* Whether the file's text is a token of traind-web. */
static bool token_is_valid(const char *text, size_t length)
{
    if (length < WEB_TOKEN_SIZE - 1 || (length == WEB_TOKEN_SIZE && text[length - 1] != '\n') ||
        length > WEB_TOKEN_SIZE)
        return false;
    for (size_t i = 0; i < WEB_TOKEN_SIZE - 1; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return true;
}

/* Reads the token of an existing file. -ENOENT: there is no file. */
static int token_read(const char *path, char token[WEB_TOKEN_SIZE], struct error *error)
{
    AUTO_FREE char *text = NULL;
    struct stat status;
    size_t length;
    int result;

    if (stat(path, &status) < 0)
        return error_set_errno(error, -errno, "cannot read %s", path);
    if (status.st_uid != geteuid() || (status.st_mode & 077))
        return error_set(error, -EACCES,
                         "%s holds the token and is not yours alone: chmod 600 it, or remove it so "
                         "that a new one is made",
                         path);
    result = file_read(AT_FDCWD, path, 4096, &text, &length, error);
    if (result < 0)
        return result;
    if (!token_is_valid(text, length))
        return error_set(error, -EINVAL, "%s holds no token: remove it, so that a new one is made",
                         path);
    memcpy(token, text, WEB_TOKEN_SIZE - 1);
    token[WEB_TOKEN_SIZE - 1] = 0;
    return 0;
}

/* Reads the token that a file keeps, or makes one. `path` NULL: none keeps it. */
static int token_open(const char *path, char token[WEB_TOKEN_SIZE], struct error *error)
{
    char line[WEB_TOKEN_SIZE + 1];
    int result = path ? token_read(path, token, error) : -ENOENT;

    if (result != -ENOENT)
        return result;
    result = token_make(token, error);
    if (result < 0 || !path)
        return result;
    snprintf(line, sizeof line, "%s\n", token);
    return file_replace(AT_FDCWD, path, line, strlen(line), 0600, 0, error);
}

int web_guard_open(struct web_guard *guard, const struct web_options *options, struct error *error)
{
    int result;

    *guard = (struct web_guard){.options = options};
    if (options->no_token)
        return 0;
    result = token_open(options->token_file, guard->token, error);
    if (result == 0 && options->metrics_token_file)
        result = token_open(options->metrics_token_file, guard->metrics_token, error);
    return result;
}

/* Compares in a time that does not tell how much of the token is right. */
static bool token_equals(const char *token, const char *given)
{
    size_t length = strlen(token);
    unsigned char difference = 0;

    if (strlen(given) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(token[i] ^ given[i]);
    return difference == 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Whether "name", "name:8470" or "[::1]:8470" is the name, with any port. */
static bool host_is(const char *host, const char *name)
{
    size_t length = strlen(name);
    const char *rest;

    if (host[0] == '[') {
        if (strncasecmp(host + 1, name, length) != 0 || host[1 + length] != ']')
            return false;
        rest = host + length + 2;
    } else {
        if (strncasecmp(host, name, length) != 0)
            return false;
        rest = host + length;
    }
    return *rest == 0 || (*rest == ':' && strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

struct web_refusal web_guard_host(const struct web_guard *guard, const struct web_headers *headers)
{
    static const char *const loopback[] = {"127.0.0.1", "localhost", "::1"};
    const struct web_options *options = guard->options;
    const char *host = headers->host ? headers->host : "";

    for (size_t i = 0; i < sizeof loopback / sizeof *loopback; i++)
        if (host_is(host, loopback[i]))
            return (struct web_refusal){0};
    for (size_t i = 0; i < options->host_count; i++)
        if (host_is(host, options->hosts[i]))
            return (struct web_refusal){0};
    if (options->address && host_is(host, options->address))
        return (struct web_refusal){0};
    return (struct web_refusal){
        421, "this server does not go by that name: open it as localhost, or start traind-web with "
             "--host NAME"};
}

/* Whether the request has the token. Without a token none is right. The name of the scheme has any
 * case, and any number of blanks behind it (RFC 9110, 11.1 and 11.4). */
static bool bearer_is(const struct web_headers *headers, const char *token)
{
    static const char bearer[] = "Bearer ";
    const char *given = headers->authorization;

    if (!token[0] || !given || strncasecmp(given, bearer, sizeof bearer - 1) != 0)
        return false;
    given += sizeof bearer - 1;
    return token_equals(token, given + strspn(given, " "));
}

/* Whether the origin is a page of the server that the request is for. Its scheme may be another
 * one, because a proxy in front may have TLS. */
static bool origin_is_own(const char *origin, const char *host)
{
    const char *rest = strstr(origin, "://");

    return rest && host && strcasecmp(rest + 3, host) == 0;
}

struct web_refusal web_guard_call(const struct web_guard *guard, const struct web_headers *headers)
{
    static const char json[] = "application/json";
    const char *type = headers->content_type ? headers->content_type : "";

    if (!headers->origin || !origin_is_own(headers->origin, headers->host))
        return (struct web_refusal){403, "calls are answered to pages of this server alone: the "
                                         "header Origin names another one, or none"};
    if (headers->fetch_site && strcmp(headers->fetch_site, "same-origin") != 0)
        return (struct web_refusal){403, "calls are answered to pages of this server alone: the "
                                         "browser says that another one makes this call"};
    if (strncasecmp(type, json, sizeof json - 1) != 0 ||
        (type[sizeof json - 1] != 0 && type[sizeof json - 1] != ';'))
        return (struct web_refusal){415, "calls are JSON: Content-Type: application/json"};
    if (guard->token[0] && !bearer_is(headers, guard->token))
        return (struct web_refusal){401, "the token is wrong or missing: open the address that "
                                         "traind-web printed when it started"};
    return (struct web_refusal){0};
}

struct web_refusal web_guard_metrics(const struct web_guard *guard,
                                     const struct web_headers *headers)
{
    if (!guard->token[0] || bearer_is(headers, guard->token) ||
        bearer_is(headers, guard->metrics_token))
        return (struct web_refusal){0};
    return (struct web_refusal){401, "the token is wrong or missing: send Authorization: Bearer "
                                     "TOKEN, with that of --metrics-token-file"};
}
