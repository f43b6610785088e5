/* test_job_needs.c: what specifications require of devices, which jobs with equal requirements
 * share, and the pin of a job that was moved. */
#include "daemon/devices/registry/registry.h"
#include "daemon/jobs/job_needs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct device cpu = {.name = "cpu", .id = "cpu-0", .driver = &device_driver_cpu};
static const struct device sim0 = {.name = "sim0", .id = "s0", .driver = &device_driver_simulated};
static const struct device sim1 = {.name = "sim1", .id = "s1", .driver = &device_driver_simulated};

static bool allows(const struct job_needs *needs, const struct device *device)
{
    return job_needs_allow(needs, JOB_NATIVE, device);
}

static void a_pin_is_one_device(void **state)
{
    struct job_needs_table table = {0};
    struct job_needs *free_ones, *pinned, *again, *back;

    (void)state;
    free_ones = job_needs_take(&table, "{\"device\":{\"deny\":[\"sim1\"]},\"resources\":null}");
    assert_non_null(free_ones);
    assert_true(allows(free_ones, &cpu) && allows(free_ones, &sim0) && !allows(free_ones, &sim1));
    pinned = job_needs_pinned(&table, free_ones, "sim0");
    assert_ptr_not_equal(pinned, free_ones);
    assert_true(!allows(pinned, &cpu) && allows(pinned, &sim0) && !allows(pinned, &sim1));
    assert_true(job_needs_would_allow(pinned, JOB_NATIVE, &cpu)); /* it could be moved there */
    assert_false(job_needs_would_allow(pinned, JOB_NATIVE, &sim1));
    again = job_needs_pinned(&table, free_ones, "sim0");
    assert_ptr_equal(again, pinned); /* jobs that were moved to one device are alike */
    back = job_needs_pinned(&table, pinned, NULL);
    assert_true(allows(back, &cpu) && allows(back, &sim0) && !allows(back, &sim1));
    assert_null(back->pinned);
    job_needs_drop(&table, free_ones);
    job_needs_drop(&table, pinned);
    job_needs_drop(&table, again);
    job_needs_drop(&table, back);
    assert_int_equal(table.count, 0);
    job_needs_table_release(&table);
}

static void a_pin_does_not_lift_what_is_denied(void **state)
{
    struct job_needs_table table = {0};
    struct job_needs *needs = job_needs_take(&table, "{\"device\":{\"deny\":[\"sim1\"]}}");
    struct job_needs *pinned = job_needs_pinned(&table, needs, "sim1");

    (void)state;
    assert_true(!allows(pinned, &cpu) && !allows(pinned, &sim0) && !allows(pinned, &sim1));
    job_needs_drop(&table, needs);
    job_needs_drop(&table, pinned);
    job_needs_table_release(&table);
}

static void what_failed_is_avoided(void **state)
{
    struct job_needs_table table = {0};
    struct job_needs *pinned = job_needs_take(&table, "{\"pinned\":\"sim0\"}");
    struct job_needs *one = job_needs_avoiding(&table, pinned, "sim0");
    struct job_needs *two = job_needs_avoiding(&table, one, "sim1");
    struct job_needs *moved = job_needs_pinned(&table, two, "sim1");
    struct job_needs *none = job_needs_avoiding(&table, two, NULL);

    (void)state;
    assert_true(allows(one, &cpu) && !allows(one, &sim0) && allows(one, &sim1));
    assert_true(allows(two, &cpu) && !allows(two, &sim0) && !allows(two, &sim1));
    assert_true(job_needs_would_allow(two, JOB_NATIVE, &sim0));
    assert_true(!allows(moved, &cpu) && allows(moved, &sim1)); /* the user had asked for it */
    assert_true(allows(none, &cpu) && allows(none, &sim0) && allows(none, &sim1));
    job_needs_drop(&table, pinned);
    job_needs_drop(&table, one);
    job_needs_drop(&table, two);
    job_needs_drop(&table, moved);
    job_needs_drop(&table, none);
    assert_int_equal(table.count, 0);
    job_needs_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pin_is_one_device),
        cmocka_unit_test(a_pin_does_not_lift_what_is_denied),
        cmocka_unit_test(what_failed_is_avoided),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
