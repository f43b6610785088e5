/* test_decision_view.c: the sentences of a decision as Explain and Predict give them. */
#include "daemon/decision_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What is said of a decision in JSON about a job that waits. */
static struct json_object *view_of(const char *text)
{
    struct json_object *decision = NULL;

    assert_int_equal(json_parse(text, strlen(text), &decision, NULL), 0);
    return decision_view(decision, 0, true);
}

static void check_needs(const char *decision, const char *expected)
{
    JSON_AUTO struct json_object *view = view_of(decision);

    assert_string_equal(json_get_string(view, "needs", "nothing"), expected);
}

/* `candidates`: a list; what is said of the first. */
static void check_reason(const char *candidates, const char *expected)
{
    char decision[1024];
    JSON_AUTO struct json_object *view = NULL;

    snprintf(decision, sizeof decision, "{\"candidates\": %s}", candidates);
    view = view_of(decision);
    assert_string_equal(
        json_get_string(json_object_array_get_idx(json_get(view, "candidates"), 0), "reason", ""),
        expected);
}

static void memory_that_is_missing(void **state)
{
    (void)state;
    check_reason("[{\"verdict\": \"memory\", \"memory\": 3072, \"headroom\": 1024}]",
                 "needs 3.0 KiB, of which 1.0 KiB are free");
    check_reason("[{\"verdict\": \"memory\", \"memory\": 3072}]",
                 "is filled beyond its low watermark, above which no further job joins");
    check_needs("{\"verdict\": \"wait_devices\", \"candidates\": [{\"device\": \"sim0\", "
                "\"verdict\": \"memory\", \"memory\": 3072, \"headroom\": 1024}]}",
                "2.0 KiB more of sim0 has to become free");
    check_needs("{\"verdict\": \"wait_devices\", \"candidates\": [{\"device\": \"sim0\", "
                "\"verdict\": \"memory\", \"memory\": 3072}]}",
                "the memory in use of sim0 has to fall below its low watermark");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
