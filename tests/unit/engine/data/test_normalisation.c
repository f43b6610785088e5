/* test_normalisation.c: which deviations float32 has room for. */
#include "tests/support/table_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int measure(const char *text, struct error *error)
{
    struct dataset *dataset = table_file_open(text, NULL);
    struct dataset_view all = dataset_view_all(dataset);
    struct dataset_normalisation constants = {0};
    int r = dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &constants, error);

    if (r == 0)
        dataset_normalisation_release(&constants);
    dataset_close(dataset);
    return r;
}

/* Numbers that vanish or overflow once they are scaled are refused. */
static void deviations_beyond_float32_are_refused(void **state)
{
    struct error error = {0};

    (void)state;
    table_file_reset(DATASET_CSV);
    assert_int_equal(measure("1,1e-39,0\n2,3e-39,1\n", &error), -EINVAL);
    assert_non_null(strstr(error.text, "column or channel 1 of the training data"));
    assert_non_null(strstr(error.text, "such as by multiplying all of its numbers by 1e+39"));
    assert_int_equal(measure("1,3e38,0\n2,-3e38,1\n", &error), -EINVAL);
    assert_non_null(strstr(error.text, "dividing"));
    assert_int_equal(measure("1,1e-35,0\n2,3e-35,1\n", &error), 0);
    assert_int_equal(measure("1,1e36,0\n2,3e36,1\n", &error), 0);
    assert_int_equal(measure("1,7,0\n2,7,1\n", &error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deviations_beyond_float32_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
