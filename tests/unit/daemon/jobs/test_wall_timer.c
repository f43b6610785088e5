/* test_wall_timer.c: a timer of the wall clock tells its owner that the clock was set, also where
 * that happened just before the timer was set anew. */
#include "base/clock.h"
#include "daemon/jobs/wall_timer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

static int cancelled; /* calls that find the clock set */

/* Stands in for that of the C library. The kernel arms the timer, too, and forgets what it has
 * told. */
int timerfd_settime(int descriptor, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    int result = (int)syscall(SYS_timerfd_settime, descriptor, flags, new, old);

    if (result < 0 || cancelled == 0)
        return result;
    cancelled--;
    errno = ECANCELED;
    return -1;
}

struct owner {
    int rung, clock_was_set;
    uv_loop_t *loop;
};

static void on_ring(void *data, bool clock_was_set)
{
    struct owner *owner = data;

    owner->rung++;
    owner->clock_was_set += clock_was_set;
    uv_stop(owner->loop);
}

static void on_late(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Runs the loop until the timer rings, or for the time. */
static void run(uv_loop_t *loop, uint64_t milliseconds)
{
    uv_timer_t late;

    uv_timer_init(loop, &late);
    uv_timer_start(&late, on_late, milliseconds, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&late, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

static void the_clock_is_set(void **state)
{
    struct wall_timer timer;
    uv_loop_t loop;
    struct owner owner = {.loop = &loop};

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    wall_timer_start(&timer, &loop, "a test", on_ring, &owner);
    wall_timer_set(&timer, clock_now() + 1000);
    run(&loop, 50);
    assert_int_equal(owner.rung, 0);

    cancelled = 1;
    wall_timer_set(&timer, clock_now() + 1000);
    wall_timer_set(&timer, clock_now() + 2000); /* by another event of the same turn */
    run(&loop, 5000);
    assert_int_equal(owner.rung, 1);
    assert_int_equal(owner.clock_was_set, 1);

    wall_timer_set(&timer, clock_now() + 0.01);
    run(&loop, 5000);
    assert_int_equal(owner.rung, 2);
    assert_int_equal(owner.clock_was_set, 1); /* told once */
    wall_timer_set(&timer, 0);
    run(&loop, 50);
    assert_int_equal(owner.rung, 2);

    wall_timer_stop(&timer);
    uv_run(&loop, UV_RUN_NOWAIT);
    wall_timer_close(&timer);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_clock_is_set)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
