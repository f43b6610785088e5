/* test_notify_queue.c: the running notifications are counted for each user. */
#include "daemon/jobs/notify_queue.h"
#include "daemon/jobs/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { USER = 1000, AT_ONCE_OF_USER = 8 };

static int turns;
static int64_t last_job;

static void on_turn(struct jobs *jobs, int64_t job, uid_t uid)
{
    (void)jobs;
    assert_int_equal(uid, USER);
    turns++;
    last_job = job;
}

static int set_up(void **state)
{
    static struct jobs jobs;

    jobs = (struct jobs){0};
    turns = 0;
    notify_queue_start(&jobs, on_turn);
    *state = &jobs;
    return 0;
}

static int tear_down(void **state)
{
    notify_queue_free(*state);
    return 0;
}

static void a_user_has_a_limited_number_of_places(void **state)
{
    struct jobs *jobs = *state;

    for (int64_t job = 1; job <= AT_ONCE_OF_USER + 1; job++)
        notify_queue_add(jobs, job, USER);
    assert_int_equal(turns, AT_ONCE_OF_USER);
    notify_queue_give_back(jobs, USER);
    assert_int_equal(turns, AT_ONCE_OF_USER + 1);
    assert_int_equal(last_job, AT_ONCE_OF_USER + 1);
}

/* As IdleCommand does, which runs as the daemon's user even if no job of that user has ended. */
static void a_place_may_be_taken_before_any_end_of_the_user(void **state)
{
    struct jobs *jobs = *state;

    notify_queue_take(jobs, USER);
    notify_queue_add(jobs, 1, USER);
    assert_int_equal(turns, 1);
    notify_queue_give_back(jobs, USER);
    notify_queue_give_back(jobs, USER);
    notify_queue_add(jobs, 2, USER);
    assert_int_equal(turns, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_user_has_a_limited_number_of_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_place_may_be_taken_before_any_end_of_the_user, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
