/* test_launch_verdict.c: which starts that failed are tried again. */
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/end.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The state after the start has failed that way many times. */
static int state_after(int code)
{
    struct attempt_verdict verdict;
    struct attempt attempt = {0};
    struct job job = {0};

    attempt.link.error.code = code;
    for (int i = 0; i < 100; i++)
        verdict = job_judge_launch(&job, &attempt, "could not be started");
    return (int)verdict.state;
}

static void what_ails_the_machine_is_waited_for(void **state)
{
    (void)state;
    assert_int_equal(state_after(-ENOSPC), JOB_QUEUED);
    assert_int_equal(state_after(-ERROR_DAMAGED), JOB_QUEUED); /* the database */
    assert_int_equal(state_after(-ENOENT), JOB_FAILED);
}

static void a_source_that_is_not_there_is_tried_once(void **state)
{
    struct attempt attempt = {0};
    struct job job = {0};

    (void)state;
    attempt.link.error.code = -ERROR_STALE_FILE;
    assert_int_equal(job_judge_launch(&job, &attempt, "could not be started").state, JOB_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ails_the_machine_is_waited_for),
        cmocka_unit_test(a_source_that_is_not_there_is_tried_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
