/* test_web_guard.c: which requests traind-web answers, and what its pages may call. */
#include "web/assets.h"
#include "web/guard.h"
#include "web/methods.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct web_options options = {.hosts = {"train.example.org"}, .host_count = 1};
static struct web_guard guard = {.options = &options, .token = "c0ffee"};

static unsigned host_status(const char *host)
{
    return web_guard_host(&guard, &(struct web_headers){.host = host}).status;
}

static void hosts_are_loopback_or_named(void **state)
{
    static const char *const taken[] = {
        "127.0.0.1:8470", "localhost:8470",         "LocalHost",
        "[::1]:8470",     "train.example.org:8470", "train.example.org"};
    static const char *const refused[] = {"",
                                          "attacker.example",
                                          "localhost.attacker.example",
                                          "127.0.0.1.attacker.example:8470",
                                          "attacker.example:127.0.0.1",
                                          "localhost:8470@attacker.example",
                                          "train.example.org.",
                                          "[::1",
                                          "[::1].example"};

    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_int_equal(host_status(taken[i]), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(host_status(refused[i]), 421);
    assert_int_equal(host_status(NULL), 421);
}

static const struct web_headers right = {.host = "127.0.0.1:8470",
                                         .origin = "http://127.0.0.1:8470",
                                         .fetch_site = "same-origin",
                                         .content_type = "application/json",
                                         .authorization = "Bearer c0ffee"};

static unsigned call_status(struct web_headers headers)
{
    return web_guard_call(&guard, &headers).status;
}

static void calls_come_from_the_own_page_with_the_token(void **state)
{
    struct web_headers headers = right;

    (void)state;
    assert_int_equal(call_status(headers), 0);
    headers.fetch_site = NULL; /* an older browser */
    headers.content_type = "application/json; charset=utf-8";
    assert_int_equal(call_status(headers), 0);
    headers.origin = "https://127.0.0.1:8470"; /* a proxy in front has TLS */
    assert_int_equal(call_status(headers), 0);
}

static void other_origins_are_refused(void **state)
{
    static const char *const origins[] = {"http://attacker.example",
                                          "http://127.0.0.1:9999", /* same site, other port */
                                          "http://127.0.0.1:8470.attacker.example",
                                          "http://localhost:8470",
                                          "127.0.0.1:8470",
                                          "null",
                                          ""};
    static const char *const sites[] = {"cross-site", "same-site", "none", ""};
    struct web_headers headers = right;

    (void)state;
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++) {
        headers.origin = origins[i];
        assert_int_equal(call_status(headers), 403);
    }
    headers.origin = NULL;
    assert_int_equal(call_status(headers), 403);
    headers = right;
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        headers.fetch_site = sites[i];
        assert_int_equal(call_status(headers), 403);
    }
}

static void other_types_and_tokens_are_refused(void **state)
{
    static const char *const types[] = {"text/plain", "application/jsonx", "", NULL,
                                        "multipart/form-data"};
    static const char *const tokens[] = {"Bearer c0ffef",
                                         "Bearer c0ffe",
                                         "Bearer c0ffee0",
                                         "Bearer ",
                                         "Basic c0ffee",
                                         "c0ffee",
                                         "",
                                         "bearer c0ffef",
                                         "Bearerc0ffee",
                                         "Bearer\tc0ffee",
                                         "Bearers c0ffee",
                                         "Bearer C0FFEE",
                                         "Bearer c0ffee ",
                                         NULL};
    struct web_headers headers = right;

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        headers.content_type = types[i];
        assert_int_equal(call_status(headers), 415);
    }
    headers = right;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        headers.authorization = tokens[i];
        assert_int_equal(call_status(headers), 401);
    }
}

static void the_scheme_has_any_case(void **state)
{
    static const char *const tokens[] = {"bearer c0ffee", "BEARER c0ffee", "bEARER   c0ffee"};
    struct web_headers headers = right;

    (void)state;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        headers.authorization = tokens[i];
        assert_int_equal(call_status(headers), 0);
        assert_int_equal(web_guard_metrics(&guard, &headers).status, 0);
    }
}

static void without_a_token_the_origin_still_counts(void **state)
{
    static const struct web_guard open_guard = {.options = &options};
    struct web_headers headers = right;

    (void)state;
    headers.authorization = NULL;
    assert_int_equal(web_guard_call(&open_guard, &headers).status, 0);
    headers.origin = "http://attacker.example";
    assert_int_equal(web_guard_call(&open_guard, &headers).status, 403);
}

static void a_token_file_is_kept_and_is_the_users_alone(void **state)
{
    char folder[] = "web-guard.XXXXXX", path[64];
    struct web_options with_file = {.token_file = path};
    struct web_guard first, second;
    struct stat status;
    struct error error;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/token", folder);
    assert_int_equal(web_guard_open(&first, &with_file, &error), 0);
    assert_int_equal(strlen(first.token), 2 * WEB_TOKEN_BYTES);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(web_guard_open(&second, &with_file, &error), 0);
    assert_string_equal(first.token, second.token);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(web_guard_open(&second, &with_file, &error), -EACCES);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 10), 0); /* a short token is easy to guess */
    assert_int_equal(web_guard_open(&second, &with_file, &error), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    with_file.token_file = NULL;
    assert_int_equal(web_guard_open(&second, &with_file, &error), 0);
    assert_string_not_equal(first.token, second.token);
}

static void pages_may_call_what_is_listed(void **state)
{
    static const char *const closed[] = {
        "Drain",          "Undrain", "BeginSnapshot", "KeepSnapshot", "ReadCheckpoint", "Remove",
        "io.traind.Show", "",        "show"};

    (void)state;
    assert_int_equal(web_method_find("Show")->kind, WEB_METHOD_READS);
    assert_int_equal(web_method_find("Submit")->kind, WEB_METHOD_CHANGES);
    assert_int_equal(web_method_find("Logs")->kind, WEB_METHOD_FOLLOWS);
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        assert_null(web_method_find(closed[i]));
}

static void paths_name_assets_and_nothing_else(void **state)
{
    static const char *const nothing[] = {"",
                                          "/../web/guard.c",
                                          "//index.html",
                                          "/./index.html",
                                          "/assets/index.html",
                                          "/etc/passwd",
                                          "/index.html/",
                                          "/INDEX.HTML",
                                          "index.html"};

    (void)state;
    assert_string_equal(web_asset_find("/")->name, "index.html");
    assert_string_equal(web_asset_type(web_asset_find("/app.js")),
                        "text/javascript; charset=utf-8");
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        assert_null(web_asset_find(nothing[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_loopback_or_named),
        cmocka_unit_test(calls_come_from_the_own_page_with_the_token),
        cmocka_unit_test(other_origins_are_refused),
        cmocka_unit_test(other_types_and_tokens_are_refused),
        cmocka_unit_test(the_scheme_has_any_case),
        cmocka_unit_test(without_a_token_the_origin_still_counts),
        cmocka_unit_test(a_token_file_is_kept_and_is_the_users_alone),
        cmocka_unit_test(pages_may_call_what_is_listed),
        cmocka_unit_test(paths_name_assets_and_nothing_else),
    };

    const char *temporary = getenv("TMPDIR");

    if (chdir(temporary ? temporary : "/tmp") < 0)
        return EXIT_FAILURE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
