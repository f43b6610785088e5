/* test_advice_view: the page of advice: what it says of noise, and of findings. */
#include "proto/advice_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char advice_text[] =
    "{\"job\": \"digits\", \"device\": \"cpu\", \"model\": \"a processor\", \"measured\": "
    "{\"samples_per_second\": 1000, \"batch_size\": 64, \"step_samples\": 2, \"precision\": \"float32\", \"step_seconds\": 0.002, \"noise\": %s, "
    "\"least_saved\": 0.24}, \"time\": {}, \"bottleneck\": null, \"bound\": null, \"advice\": [%s], "
    "\"notes\": [\"something else\"]}";

/* The page; the caller frees it. */
static char *page_of(const char *noise, const char *findings)
{
    struct error error = {0};
    char text[2048], *page = NULL;
    size_t length;
    FILE *output = open_memstream(&page, &length);
    struct json_object *advice = NULL;

    snprintf(text, sizeof text, advice_text, noise, findings);
    assert_int_equal(json_parse(text, strlen(text), &advice, &error), 0);
    advice_print(advice, output);
    fclose(output);
    json_object_put(advice);
    return page;
}

static void assert_says(const char *page, const char *text)
{
    if (!strstr(page, text))
        fail_msg("\"%s\" is not in:\n%s", text, page);
}

static void test_noise(void **state)
{
    char *page = page_of("0.25", "");

    (void)state;
    assert_says(page, "No change that was tried pays more than the measurements differ.");
    assert_says(page, "note: something else");
    assert_says(page, "the fastest two measurements of its steps differ by 25%");
    assert_says(page, "what saves less than 24%");
    free(page);
    page = page_of("0.01", "");
    assert_says(page, "No change that was tried pays.");
    assert_says(page, "a step takes 2.0 ms: 2 samples, float32");
    assert_null(strstr(page, "differ by"));
    free(page);
}

static void test_finding(void **state)
{
    char *page = page_of("0.9", "{\"problem\": \"batch\", \"changes\": {\"train.batch_size\": 64}, "
                                "\"gain\": 2.5, \"saved\": 0.6, \"cause\": \"A cause.\", "
                                "\"result\": \"A result.\", \"consider\": {}}");

    (void)state;
    assert_says(page, "1. --set train.batch_size=64: 2.50 times as fast, 60% of the time saved");
    assert_says(page, "   A cause.");
    assert_says(page, "   A result.");
    assert_null(strstr(page, "No change"));
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_noise),
                                       cmocka_unit_test(test_finding)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
