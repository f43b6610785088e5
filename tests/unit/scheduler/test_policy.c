/* test_policy.c: an example of every rule of scheduler/policy.h. */
#include "tests/support/policy_machine.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- value ----------------------------------------------------------------------------------- */

static void devices_go_to_whom_they_suit(void **state)
{
    struct machine *machine = machine_new(4, 3);

    (void)state;
    machine->snapshot.device_count = 3;      /* two fast, one slow */
    machine->estimates[1][1].seconds = 1100; /* the device hardly matters to this job */
    decide(machine);
    assert_int_equal(device(machine, 1), 2);
    assert_true(device(machine, 0) < 2 && device(machine, 2) < 2);
    assert_true(machine->decision.exact);
    free(machine);
}

static void short_jobs_first_where_a_queue_is(void **state)
{
    struct machine *machine = machine_new(1, 4);

    (void)state;
    machine->estimates[2][0].seconds = 100;
    decide(machine);
    assert_int_equal(device(machine, 2), 0);
    assert_int_equal(verdict(machine, 0), POLICY_WAIT_DEVICES);
    machine->snapshot.settings.congestion = 0; /* longest first */
    machine->snapshot.settings.length_exponent = -1;
    machine->estimates[1][0].seconds = 5000;
    machine->estimates[1][1].seconds = 20000;
    decide(machine);
    assert_int_equal(device(machine, 1), 0);
    free(machine);
}

/* Of two users' jobs one device takes one at a time: u0's shortest job would be the first. */
static void what_was_put_first_goes_before_its_users_others(void **state)
{
    struct machine *machine = machine_new(1, 5);

    (void)state;
    machine->snapshot.users = machine->users;
    machine->snapshot.user_count = 2;
    for (int i = 0; i < 5; i++)
        machine->jobs[i].user = i == 4;
    machine->estimates[0][0].seconds = 100;
    machine->estimates[1][0].seconds = 200;
    machine->estimates[4][0].seconds = 150; /* the other user's */
    machine->jobs[3].put_first = 7;
    decide(machine);
    assert_int_equal(device(machine, 3), 0);
    machine->jobs[2].put_first = 8; /* later, so it goes before job 3 */
    decide(machine);
    assert_int_equal(device(machine, 2), 0);
    machine->estimates[4][0].seconds = 20; /* it gains no device from another user's better job */
    decide(machine);
    assert_int_equal(device(machine, 4), 0);
    machine->jobs[1].priority = 1; /* a higher priority goes first in any case */
    decide(machine);
    assert_int_equal(device(machine, 1), 0);
    free(machine);
}

static void what_was_put_first_goes_first_on_a_device_that_does_not_suit_it(void **state)
{
    struct machine *machine = machine_new(4, 3);

    (void)state;
    machine->snapshot.users = machine->users;
    machine->snapshot.user_count = 1;
    for (int i = 0; i < 3; i++)
        machine->jobs[i].user = 0;
    machine->devices[0].draining = machine->devices[1].draining = true; /* slow ones are left */
    machine->devices[3].draining = true;
    machine->estimates[1][1].seconds = 1000; /* the device suits this one */
    machine->jobs[2].put_first = 1;
    decide(machine);
    assert_int_equal(device(machine, 2), 2);
    free(machine);
}

static void a_move_must_pay(void **state)
{
    struct machine *machine = machine_new(4, 1);

    (void)state;
    run_on(machine, 0, on_device[2]);
    machine->estimates[0][0].seconds = 1000;
    machine->estimates[0][1].seconds = 1100; /* it gains 100 s, and a restart costs 30 */
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    machine->estimates[0][1].seconds = 1200;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_MOVE);
    assert_int_equal(device(machine, 0), 0);
    assert_true(machine->decision.placements[0].seconds == 1030);
    machine->jobs[0].movable = false;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    free(machine);
}

static void waiting_and_fair_share_decide_between_equals(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    machine->jobs[1].waited = 500;
    decide(machine);
    assert_int_equal(device(machine, 1), 0);
    machine->jobs[1].waited = 0;
    machine->jobs[0].user = 0;
    machine->jobs[1].user = 1;
    machine->users[0].usage = 1e6;
    decide(machine);
    assert_int_equal(device(machine, 1), 0);
    machine->users[0].share = 1000; /* this user may have more */
    decide(machine);
    assert_int_equal(device(machine, 0), 0);
    free(machine);
}

/* A type that may be faster is tried; one that was measured to be slower is not. */
static void uncertain_types_are_tried(void **state)
{
    struct machine *machine = machine_new(4, 1);

    (void)state;
    machine->estimates[0][1] = (struct policy_estimate){.seconds = 1300, .deviation = 0.5};
    decide(machine);
    assert_int_equal(device(machine, 0), 2);
    machine->estimates[0][1].deviation = 0.02;
    decide(machine);
    assert_int_equal(device(machine, 0), 0);
    free(machine);
}

/* ---- gangs ----------------------------------------------------------------------------------- */

static void gangs_get_devices_of_one_type(void **state)
{
    struct machine *machine = machine_new(4, 2);
    const int *devices;

    (void)state;
    machine->jobs[0].devices = 2;
    machine->estimates[1][1].seconds = 1000;
    machine->devices[0].memory_outside = 10; /* another pool of the same type */
    decide(machine);
    devices = machine->decision.placements[0].devices;
    assert_int_equal(devices[0], 0);
    assert_int_equal(devices[1], 1);
    assert_int_equal(device(machine, 1), 2);
    machine->jobs[0].devices = 3;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_IMPOSSIBLE);
    free(machine);
}

/* ---- the ledger ------------------------------------------------------------------------------ */

static void the_ledger_is_exact(void **state)
{
    struct machine *machine = machine_new(1, 1);

    (void)state;
    machine->estimates[0][0].memory = 650;
    machine->devices[0].memory_outside = 200;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_START);
    machine->devices[0].memory_outside = 201;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_WAIT_MEMORY);
    machine->devices[0].high_watermark_ratio = 0; /* no limit */
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_START);
    machine->devices[0].high_watermark_ratio = 0.85;
    machine->estimates[0][0].memory = 851;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_IMPOSSIBLE);
    free(machine);
}

static void above_the_low_watermark_nobody_joins(void **state)
{
    struct machine *machine = machine_new(1, 1);

    (void)state;
    machine->devices[0].low_watermark_ratio = 0.5;
    machine->devices[0].memory_outside = 501;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_WAIT_MEMORY);
    run_on(machine, 0, on_device[0]);
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    free(machine);
}

/* Above the high watermark a job must leave, and other types can take it. */
static void outside_users_drive_a_job_away(void **state)
{
    struct machine *machine = machine_new(4, 1);

    (void)state;
    machine->estimates[0][0].memory = machine->estimates[0][1].memory = 500;
    run_on(machine, 0, on_device[0]);
    machine->devices[0].memory_outside = machine->devices[1].memory_outside = 400;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_MOVE);
    assert_int_equal(device(machine, 0), 2);
    check_sentence(machine, 0,
                   "moves to slow:0: others hold too much memory of fast:0; predicted 1 h 07 min "
                   "(fast 16 min 40 s, slow 1 h 07 min)");
    machine->snapshot.device_count = 2;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_PREEMPT);
    check_sentence(machine, 0, "leaves fast:0: others hold too much of its memory");
    free(machine);
}

static void draining_and_lost_devices(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    machine->devices[0].draining = true;
    run_on(machine, 0, on_device[0]);
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    assert_int_equal(verdict(machine, 1), POLICY_WAIT_DRAINING);
    machine->devices[0].lost = true;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_PREEMPT);
    assert_int_equal(verdict(machine, 1), POLICY_IMPOSSIBLE);
    free(machine);
}

/* ---- priorities, limits ---------------------------------------------------------------------- */

static void priorities_go_first(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->estimates[0][0].seconds = 10; /* it is worth far more */
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    machine->jobs[1].priority = 1;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_PREEMPT);
    assert_int_equal(verdict(machine, 1), POLICY_START);
    free(machine);
}

static void users_keep_to_their_limits(void **state)
{
    struct machine *machine = machine_new(2, 6);
    int mine = 0;

    (void)state;
    machine->users[0].device_max = 1;
    for (int i = 0; i < 5; i++) { /* all of them are worth more than the other user's */
        machine->jobs[i].user = 0;
        machine->estimates[i][0].seconds = 100;
    }
    machine->jobs[5].user = 1;
    decide(machine);
    for (int i = 0; i < 5; i++) {
        mine += verdict(machine, i) == POLICY_START;
        assert_true(verdict(machine, i) == POLICY_START ||
                    verdict(machine, i) == POLICY_WAIT_USER_LIMIT);
    }
    assert_int_equal(mine, 1);
    assert_int_equal(verdict(machine, 5), POLICY_START);
    free(machine);
}

/* ---- starvation ------------------------------------------------------------------------------ */

static void who_waited_too_long_goes_first(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].priority = 5;
    machine->estimates[0][0].seconds = 10;
    machine->jobs[1].waited = 9999;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    assert_true(machine->decision.next_seconds == 1);
    machine->jobs[1].waited = 10000; /* 10 times its run time */
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_PREEMPT);
    assert_int_equal(verdict(machine, 1), POLICY_START);
    assert_true(machine->decision.placements[1].starving);
    /* another job that is even later does not take the device away again */
    run_on(machine, 1, on_device[0]);
    machine->jobs[1].starved = true;
    machine->jobs[0].on = NULL;
    machine->jobs[0].waited = 1e6;
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_STAY);
    assert_true(machine->decision.placements[1].starving);
    assert_false(machine->decision.placements[0].starving);
    /* a job that runs for another reason is not protected because it waited */
    machine->jobs[1].starved = false;
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_PREEMPT);
    free(machine);
}

/* All have waited too long. The shortest one goes before the others, which are ordered by value. If
 * there is too much other work, none does. */
static void starving_jobs_have_a_part_of_the_machine(void **state)
{
    struct machine *machine = machine_new(4, 8);

    (void)state;
    for (int i = 0; i < 8; i++) {
        machine->jobs[i].waited = 1e6;
        machine->jobs[i].priority = -i;
        machine->estimates[i][0].seconds = 1000 * (8 - i);
        machine->estimates[i][1].seconds = 4000 * (8 - i);
    }
    machine->jobs[0].waited = 2e6;
    decide(machine);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(machine->decision.placements[i].starving, i == 7);
        assert_int_equal(verdict(machine, i), i < 3 || i == 7 ? POLICY_START : POLICY_WAIT_DEVICES);
    }
    for (int i = 0; i < 8; i++)
        machine->jobs[i].waited = i == 7 ? 87500 : 0; /* the others have 35,000 s to do */
    decide(machine);
    assert_true(machine->decision.placements[7].starving);
    machine->jobs[7].waited = 87400;
    decide(machine);
    for (int i = 0; i < 8; i++) {
        assert_false(machine->decision.placements[i].starving);
        assert_int_equal(verdict(machine, i), i < 4 ? POLICY_START : POLICY_WAIT_DEVICES);
    }
    assert_true(fabs(machine->decision.next_seconds - 100) < 1e-6);
    free(machine);
}

/* Of 16 devices, starving jobs get two. A job that fits into them beside the others is served
 * whatever other work there is, the shortest first. A larger one is served only if the machine can
 * catch up. */
static void the_part_is_for_those_that_fit(void **state)
{
    enum { DEVICES = 16 };
    struct machine *machine = machine_new(1, 5);
    struct policy_device devices[DEVICES];

    (void)state;
    for (int d = 0; d < DEVICES; d++)
        devices[d] = machine->devices[0];
    machine->snapshot.devices = devices;
    machine->snapshot.device_count = DEVICES;
    for (int i = 0; i < 4; i++) {
        machine->jobs[i].waited = 1e5;
        machine->estimates[i][0].seconds = 1000 * (4 - i);
    }
    machine->jobs[3].devices = 4;
    machine->jobs[4].alike = 1000;
    decide(machine);
    for (int i = 0; i < 4; i++)
        assert_int_equal(machine->decision.placements[i].starving, i == 1 || i == 2);
    machine->jobs[4].alike = 100;
    decide(machine);
    for (int i = 0; i < 4; i++)
        assert_int_equal(machine->decision.placements[i].starving, i == 3);
    free(machine);
}

/* Beyond the part, a job that starves for one type does not block jobs that can use only another
 * type. */
static void starving_jobs_of_other_devices_are_served(void **state)
{
    struct machine *machine = machine_new(4, 7); /* two fast devices, two slow */

    (void)state;
    for (int i = 0; i < 2; i++) {
        run_on(machine, i, on_device[i]);
        machine->jobs[i].movable = false;
    }
    for (int i = 2; i < 5; i++)
        machine->jobs[i].waited = 1e6 * (5 - i);
    machine->estimates[2][1].seconds = INFINITY;
    machine->estimates[4][0].seconds = INFINITY;
    for (int i = 5; i < 7; i++) {
        machine->jobs[i].priority = 5;
        machine->estimates[i][0].seconds = INFINITY;
    }
    decide(machine);
    assert_int_equal(verdict(machine, 2), POLICY_WAIT_RESERVATION);
    assert_false(machine->decision.placements[3].starving);
    assert_true(machine->decision.placements[4].starving);
    assert_int_equal(verdict(machine, 4), POLICY_START);
    free(machine);
}

/* A gang of two waits for the unmovable job on one device. Meanwhile other jobs may use the other
 * one. */
static void reservations_are_backfilled(void **state)
{
    struct machine *machine = machine_new(2, 3);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].movable = false;
    machine->estimates[0][0].seconds = 300;
    machine->jobs[1].devices = 2;
    machine->jobs[1].waited = 1e5;
    machine->estimates[2][0].seconds = 301;
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_WAIT_RESERVATION);
    assert_int_equal(verdict(machine, 2), POLICY_WAIT_RESERVED);
    assert_int_equal(machine->decision.placements[2].blocked_by, 2);
    machine->estimates[2][0].seconds = 300;
    decide(machine);
    assert_int_equal(verdict(machine, 2), POLICY_START);
    assert_int_equal(device(machine, 2), 1);
    /* a job that runs there and would end in time may stay */
    run_on(machine, 2, on_device[1]);
    machine->estimates[2][0].seconds = 200;
    decide(machine);
    assert_int_equal(verdict(machine, 2), POLICY_STAY);
    free(machine);
}

/* ---- sharing --------------------------------------------------------------------------------- */

static void small_jobs_share_the_fast_device(void **state)
{
    struct machine *machine = two_small_jobs();

    (void)state;
    decide(machine);
    assert_int_equal(device(machine, 0), 0);
    assert_int_equal(device(machine, 1), 0);
    assert_true(machine->decision.placements[1].shared);
    /* and it keeps running */
    run_on(machine, 0, on_device[0]);
    run_on(machine, 1, on_device[0]);
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    assert_int_equal(verdict(machine, 1), POLICY_STAY);
    free(machine);
}

static void sharing_has_limits(void **state)
{
    struct machine *machine = two_small_jobs();

    (void)state;
    machine->estimates[1][0].memory = 451; /* the ledger */
    decide(machine);
    assert_int_not_equal(device(machine, 0), device(machine, 1));
    machine->estimates[1][0].memory = 450;
    decide(machine);
    assert_int_equal(device(machine, 0), device(machine, 1));
    machine->devices[0].low_watermark_ratio = 0.3;
    decide(machine);
    assert_int_not_equal(device(machine, 0), device(machine, 1));
    machine->devices[0].low_watermark_ratio = 0;
    machine->devices[0].jobs_max = 1;
    decide(machine);
    assert_int_not_equal(device(machine, 0), device(machine, 1));
    machine->devices[0].jobs_max = 0;
    machine->estimates[1][0].utilisation = 0.91; /* 131% together */
    decide(machine);
    assert_int_not_equal(device(machine, 0), device(machine, 1));
    machine->estimates[1][0].utilisation = 0.4;
    machine->jobs[0].shares = false;
    decide(machine);
    assert_int_not_equal(device(machine, 0), device(machine, 1));
    free(machine);
}

/* A running job leaves for one of a higher priority, but not for one that held more than was booked
 * for it, unless that one starves. */
static void nobody_gives_up_memory_for_one_that_yields(void **state)
{
    struct machine *machine = two_small_jobs();

    (void)state;
    machine->snapshot.device_count = 1;
    machine->estimates[0][0].memory = machine->estimates[1][0].memory = 500;
    run_on(machine, 0, on_device[0]);
    machine->jobs[1].priority = 5;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_PREEMPT);
    assert_int_equal(verdict(machine, 1), POLICY_START);
    machine->jobs[1].yields = true;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    assert_int_equal(verdict(machine, 1), POLICY_WAIT_MEMORY);
    check_sentence(machine, 1,
                   "waits for memory: needs 500 B, and fast:0 has 350 B free below its watermark");
    machine->estimates[1][0].memory = 350; /* it fits beside the other */
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    assert_int_equal(verdict(machine, 1), POLICY_START);
    machine->estimates[1][0].memory = 500;
    machine->jobs[1].waited = 1e6;
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_START);
    assert_true(machine->decision.placements[1].starving);
    free(machine);
}

/* ---- what is said, what is refused ----------------------------------------------------------- */

static void sentences(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    machine->estimates[0][0].seconds = 90;
    machine->estimates[0][1] = (struct policy_estimate){.seconds = 7200, .deviation = 0.5};
    check_sentence(machine, 0,
                   "fast:0: the fastest for it; predicted 1 min 30 s (fast 1 min 30 s, slow about "
                   "2 h 00 min)");
    check_sentence(machine, 1, "waits for fast:0: job 1 has it");
    run_on(machine, 1, on_device[0]);
    check_sentence(machine, 1, "gives fast:0 up to job 1, which gains more from it");
    machine->devices[0].draining = true;
    machine->jobs[1].on = NULL;
    check_sentence(machine, 1, "waits for fast:0, which is drained or quarantined");
    machine->estimates[1][0].seconds = machine->estimates[1][1].seconds = INFINITY;
    check_sentence(machine, 1,
                   "no device of this machine can run it and is allowed (device.allow, deny, "
                   "force); `trainctl devices` lists them");
    free(machine);
}

static void contradictions_are_refused(void **state)
{
    struct machine *machine = machine_new(2, 2);
    int twice[] = {1, 1};
    size_t size = policy_workspace_size(&machine->snapshot);

    (void)state;
    assert_int_equal(policy_decide(&machine->snapshot, machine->workspace, 100, &machine->decision),
                     -ENOBUFS);
    machine->jobs[0].devices = 2;
    machine->jobs[0].on = twice;
    assert_int_equal(
        policy_decide(&machine->snapshot, machine->workspace, size, &machine->decision), -EINVAL);
    machine->jobs[0].on = NULL;
    machine->jobs[0].user = 2;
    assert_int_equal(
        policy_decide(&machine->snapshot, machine->workspace, size, &machine->decision), -EINVAL);
    machine->jobs[0].user = 0;
    free(machine);
}

/* Numbers that are no valid measurements never make a decision fail. */
static void numbers_that_are_none_are_mended(void **state)
{
    struct machine *machine = machine_new(4, 3);

    (void)state;
    machine->estimates[0][0].seconds = NAN; /* where it is unknown whether it can run */
    machine->jobs[0].restart_seconds = -5;
    machine->jobs[0].waited = NAN;
    machine->estimates[1][0].seconds = -1; /* all but done */
    machine->estimates[2][0].seconds = NAN;
    machine->estimates[2][1].seconds = INFINITY;
    machine->snapshot.settings.age_exponent = NAN;
    run_on(machine, 2, on_device[1]);
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_START);
    assert_int_equal(device(machine, 0), 2);
    assert_int_equal(device(machine, 1), 0);
    assert_int_equal(verdict(machine, 2), POLICY_STAY);
    free(machine);
}

static void nothing_to_do(void **state)
{
    struct machine *machine = machine_new(0, 0);

    (void)state;
    decide(machine);
    machine->snapshot.job_count = 2;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_IMPOSSIBLE);
    free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_go_to_whom_they_suit),
        cmocka_unit_test(short_jobs_first_where_a_queue_is),
        cmocka_unit_test(what_was_put_first_goes_before_its_users_others),
        cmocka_unit_test(what_was_put_first_goes_first_on_a_device_that_does_not_suit_it),
        cmocka_unit_test(a_move_must_pay),
        cmocka_unit_test(waiting_and_fair_share_decide_between_equals),
        cmocka_unit_test(uncertain_types_are_tried),
        cmocka_unit_test(gangs_get_devices_of_one_type),
        cmocka_unit_test(the_ledger_is_exact),
        cmocka_unit_test(above_the_low_watermark_nobody_joins),
        cmocka_unit_test(outside_users_drive_a_job_away),
        cmocka_unit_test(draining_and_lost_devices),
        cmocka_unit_test(priorities_go_first),
        cmocka_unit_test(users_keep_to_their_limits),
        cmocka_unit_test(who_waited_too_long_goes_first),
        cmocka_unit_test(starving_jobs_have_a_part_of_the_machine),
        cmocka_unit_test(the_part_is_for_those_that_fit),
        cmocka_unit_test(starving_jobs_of_other_devices_are_served),
        cmocka_unit_test(reservations_are_backfilled),
        cmocka_unit_test(small_jobs_share_the_fast_device),
        cmocka_unit_test(sharing_has_limits),
        cmocka_unit_test(nobody_gives_up_memory_for_one_that_yields),
        cmocka_unit_test(sentences),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(numbers_that_are_none_are_mended),
        cmocka_unit_test(nothing_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
