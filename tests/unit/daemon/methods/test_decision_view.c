/* test_decision_view.c: the sentences about a decision in the replies of Explain and Predict. */
#include "daemon/methods/decision_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Makes the reply about a job that waits, for the JSON of its decision. */
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

/* `candidates` is a list; the sentence about the first one is compared. */
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

static void what_decided_for_the_chosen_one(void **state)
{
    static const struct {
        const char *other, *sentence;
    } cases[] = {
        {"\"verdict\": \"slower\", \"seconds\": 20", "finishes it first"},
        {"\"verdict\": \"not_preferred\", \"seconds\": 1", "the job prefers it"},
        {"\"verdict\": \"busy\", \"seconds\": 1, \"other\": 7",
         "sim1 would take less, but job 7 has it"},
        {"\"verdict\": \"memory\", \"seconds\": 1",
         "sim1 would take less, but too little of its memory is free"},
        {"\"verdict\": \"lost\", \"seconds\": 1",
         "sim1 would take less, but it is not there any more"},
        {"\"verdict\": \"reserved\", \"seconds\": 1, \"other\": 7",
         "sim1 would take less, but it is held for job 7, which has waited too long"},
        {"\"verdict\": \"slower\", \"seconds\": 1",
         "might finish it first: that is found out by running it there"},
        {"\"verdict\": \"not_allowed\", \"seconds\": 1", "the one that can take it"},
        {"\"verdict\": \"too_large\", \"seconds\": 1", "the one that can take it"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char candidates[512];

        snprintf(candidates, sizeof candidates,
                 "[{\"device\": \"sim0\", \"verdict\": \"chosen\", \"seconds\": 10}, "
                 "{\"device\": \"sim1\", %s}]",
                 cases[i].other);
        check_reason(candidates, cases[i].sentence);
    }
    check_reason("[{\"verdict\": \"chosen\", \"seconds\": 10, \"because\": \"somebody wants it\"}]",
                 "somebody wants it");
    check_reason("[{\"verdict\": \"not_allowed\", \"because\": \"device.deny excludes it\"}]",
                 "device.deny excludes it");
    check_reason("[{\"verdict\": \"slower\", \"seconds\": 20}, {\"device\": \"sim1\", \"verdict\": "
                 "\"chosen\", \"seconds\": 10}]",
                 "2 times as long as on sim1");
    check_reason("[{\"verdict\": \"slower\", \"seconds\": 9}, {\"device\": \"sim1\", \"verdict\": "
                 "\"chosen\", \"seconds\": 10}]",
                 "might be slower than sim1: that is found out by running it there");
}

/* Distinguishes devices that can never take the job from those that only have to come back. */
static void what_would_help(void **state)
{
    (void)state;
    check_needs("{\"verdict\": \"impossible\", \"candidates\": [{\"device\": \"cuda\", "
                "\"verdict\": \"lost\", \"absence\": \"\"}]}",
                "the specification has to ask for less, or allow more devices: as it is, the job "
                "fails as soon as it is submitted");
    check_needs("{\"verdict\": \"wait_lost\", \"candidates\": [{\"device\": \"cuda\", "
                "\"verdict\": \"lost\", \"absence\": \"\"}, {\"device\": \"sim0\", \"verdict\": "
                "\"lost\"}]}",
                "sim0 has to come back");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_missing),
        cmocka_unit_test(what_decided_for_the_chosen_one),
        cmocka_unit_test(what_would_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
