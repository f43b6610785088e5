/* test_command_history.c: the statistics of earlier runs of a command: mean and deviation of their
 * duration, the peak of their memory, and how that declines. */
#include "daemon/work/command_history.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct command_run completed(double seconds, uint64_t memory)
{
    return (struct command_run){.completed = true,
                                .seconds = seconds,
                                .attempt_seconds = seconds,
                                .cpu_seconds = 2 * seconds,
                                .memory = memory};
}

static void lengths(void **state)
{
    static const double seconds[] = {10, 14, 9, 11, 16};
    struct command_history history = {0};
    double deviation;

    (void)state;
    assert_true(command_history_deviation(&history) == 0);
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        struct command_run run = completed(seconds[i], 0);

        command_history_add(&history, &run);
    }
    assert_int_equal(history.runs, 5);
    assert_true(fabs(history.seconds - 12) < 1e-12);
    assert_true(fabs(history.squares - 34) < 1e-12); /* 4 + 4 + 9 + 1 + 16 */
    assert_true(fabs(history.cores - 2) < 1e-12);
    deviation = command_history_deviation(&history); /* variance 8.5 of a mean of 12 */
    assert_true(fabs(deviation - sqrt(log(1 + 8.5 / 144))) < 1e-12);
}

static void memory(void **state)
{
    struct command_history history = {0};
    struct command_run run = completed(1, 1000);

    (void)state;
    command_history_add(&history, &run);
    assert_int_equal(history.memory, 1000);
    assert_int_equal(command_history_booking(history.memory), 1150);
    assert_int_equal(command_history_booking(0), 0);
    run = completed(1, 2000);
    command_history_add(&history, &run);
    assert_int_equal(history.memory, 2000);
    run = completed(1, 1000); /* the peak declines slowly */
    command_history_add(&history, &run);
    assert_int_equal(history.memory, 1750);
    run = completed(1, 0); /* the peak is unknown */
    command_history_add(&history, &run);
    assert_int_equal(history.memory, 1750);
    /* an interrupted attempt tells a lower bound of the peak, but not the duration */
    run = (struct command_run){.seconds = 100, .memory = 10};
    command_history_add(&history, &run);
    assert_int_equal(history.memory, 1750);
    run.memory = 3000;
    command_history_add(&history, &run);
    assert_int_equal(history.memory, 3000);
    assert_int_equal(history.runs, 4);
    assert_true(history.seconds == 1);
    /* it would have used more than it got */
    run = (struct command_run){.out_of_memory = true, .memory = 4000};
    command_history_add(&history, &run);
    assert_int_equal(history.memory, 4800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),
        cmocka_unit_test(memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
