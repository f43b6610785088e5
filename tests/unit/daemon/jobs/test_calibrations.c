/* test_calibrations.c: an answer of traind-worker that is no calibration is refused. The sentence
 * says what it lacks. */
#include "daemon/jobs/calibrations.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void what_is_no_calibration_is_refused(void **state)
{
    static const struct {
        const char *json, *lacks;
    } answers[] = {{"{}", "\"threads\""},
                   {"[1, 2]", "\"threads\""},
                   {"{\"threads\": 0, \"flops_per_second\": 1e9}", "\"threads\""},
                   {"{\"threads\": 2}", "\"flops_per_second\""},
                   {"{\"threads\": 2, \"flops_per_second\": 0}", "\"flops_per_second\""},
                   {"{\"threads\": 2, \"flops_per_second\": \"fast\"}", "\"flops_per_second\""}};
    struct calibrations calibrations = {0};

    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        JSON_AUTO struct json_object *json = NULL;
        struct error error = {0};

        assert_int_equal(json_parse(answers[i].json, strlen(answers[i].json), &json, &error), 0);
        assert_int_equal(calibrations_take(&calibrations, "cpu", json, &error), -EINVAL);
        assert_non_null(strstr(error.text, answers[i].lacks));
        assert_null(calibrations_find(&calibrations, "cpu", 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_calibration_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
