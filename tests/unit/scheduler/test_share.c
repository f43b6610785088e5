/* test_share.c: how the time until the last end is divided among jobs: by examples that can be
 * computed by hand, by properties of any division, and by what the policy makes of it. */
#include "base/philox.h"
#include "scheduler/share.h"
#include "tests/support/policy_machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TYPES = 3, MANY = 40, DEVICES = 12 };

struct division_case {
    struct policy_device devices[DEVICES];
    struct policy_job jobs[MANY];
    struct policy_snapshot snapshot;
    double seconds[MANY * TYPES], shares[MANY * TYPES];
};

/* Devices have the types in turn. */
static void case_begin(struct division_case *this, int types, size_t devices, size_t jobs)
{
    *this = (struct division_case){.snapshot = {.type_count = types,
                                                .devices = this->devices,
                                                .device_count = devices,
                                                .jobs = this->jobs,
                                                .job_count = jobs}};
    for (size_t d = 0; d < devices; d++)
        this->devices[d].type = (int)(d % (size_t)types);
    for (size_t i = 0; i < jobs; i++)
        this->jobs[i].devices = 1;
}

static double case_share(struct division_case *this)
{
    for (int i = 0; i < MANY * TYPES; i++)
        this->shares[i] = this->seconds[i];
    return share_out(&this->snapshot, this->shares);
}

static void equal_jobs_take_turns(void **state)
{
    struct division_case this;

    (void)state;
    case_begin(&this, 1, 1, 2);
    this.seconds[0] = this.seconds[1] = 100;
    assert_float_equal(case_share(&this), 200, 1e-6);
    assert_float_equal(this.shares[0], 0.5, 1e-9);
    assert_float_equal(this.shares[1], 0.5, 1e-9);
    this.jobs[0].devices = 2; /* of four */
    this.snapshot.device_count = 4;
    this.jobs[1].devices = 4;
    assert_float_equal(case_share(&this), 150, 1e-6);
}

/* Ten jobs take 100 s on the one type and 400 on the other; ten jobs take 100 and 110. The latter
 * use the other type, except for the part q with which both types end at the same time: 1000 + 1000
 * q = 1100 (1 - q). */
static void types_go_to_whom_they_help_most(void **state)
{
    struct division_case this;
    double moved = 0;

    (void)state;
    case_begin(&this, 2, 2, 20);
    for (int i = 0; i < 20; i++) {
        this.seconds[2 * i] = 100;
        this.seconds[2 * i + 1] = i < 10 ? 400 : 110;
    }
    assert_float_equal(case_share(&this), 1000 + 1000 / 21.0, 1.1);
    for (int i = 0; i < 10; i++) {
        assert_float_equal(this.shares[2 * i + 1], 0, 1e-9);
        moved += this.shares[2 * (i + 10)];
    }
    assert_float_equal(moved, 100 / 2100.0 * 1000 / 1047.6, 2e-3);
}

static void who_takes_longer_than_all_together(void **state)
{
    struct division_case this;

    (void)state;
    case_begin(&this, 2, 4, 11);
    for (int i = 0; i < 11; i++) {
        this.seconds[2 * i] = i == 0 ? 1000 : 10;
        this.seconds[2 * i + 1] = i == 0 ? 1010 : 10;
    }
    assert_true(case_share(&this) < 1000);
    assert_true(this.shares[0] >= 1); /* it runs at once, all the time, on its best type */
    assert_true(this.shares[1] == 0);
}

static void nobody_can_run(void **state)
{
    struct division_case this;

    (void)state;
    case_begin(&this, 2, 2, 1);
    this.seconds[0] = this.seconds[1] = INFINITY;
    assert_true(case_share(&this) == 0);
    assert_true(this.shares[0] == 0 && this.shares[1] == 0);
    this.snapshot.job_count = 0;
    assert_true(case_share(&this) == 0);
}

static double draw(uint64_t seed, uint64_t index)
{
    return (philox_draw(seed, philox_stream(PHILOX_TEST, 6), index).word[0] + 0.5) * 0x1p-32;
}

/* All of each job is done, and no type is used more than once. No prices of the types show that T
 * could be shorter: with each job on its cheapest type, jobs cost at least what the machine does in
 * T. */
static void any_division(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct division_case this;
        double used[TYPES] = {0}, rest, least = 0;
        size_t jobs = 1 + (size_t)(draw(seed, 0) * (MANY - 1));

        case_begin(&this, TYPES, DEVICES, jobs);
        for (size_t i = 0; i < jobs; i++) {
            this.jobs[i].devices = draw(seed, 100 + i) < 0.2 ? 4 : 1;
            for (int type = 0; type < TYPES; type++)
                this.seconds[i * TYPES + (size_t)type] =
                    100 * exp(4 * draw(seed, 200 + i * TYPES + (size_t)type));
        }
        rest = case_share(&this);
        for (size_t i = 0; i < jobs; i++) {
            double done = 0, cheapest = INFINITY;

            for (int type = 0; type < TYPES; type++) {
                size_t at = i * TYPES + (size_t)type;

                assert_true(this.shares[at] >= 0);
                done += this.shares[at] * rest / this.seconds[at];
                used[type] += this.jobs[i].devices * this.shares[at];
                cheapest = fmin(cheapest, this.jobs[i].devices * this.seconds[at] / DEVICES);
            }
            assert_float_equal(done, 1, 1e-6);
            least += cheapest;
        }
        for (int type = 0; type < TYPES; type++)
            assert_true(used[type] <= DEVICES / TYPES * (1 + 1e-6));
        assert_true(rest >= least * (1 - 1e-9));
    }
}

/* ---- the policy ------------------------------------------------------------------------------ */

static void uncertain_jobs_first(void **state)
{
    struct machine *machine = machine_new(1, 4);

    (void)state;
    machine->snapshot.settings.makespan = true;
    decide(machine);
    assert_int_equal(device(machine, 0), 0);
    assert_true(isfinite(machine->decision.next_seconds)); /* then it is the turn of another */
    machine->jobs[2].left_deviation = 0.3;
    decide(machine);
    assert_int_equal(device(machine, 2), 0);
    free(machine);
}

/* A second on two devices removes the risk of one job, or of two. */
static void uncertain_gangs_after_singles(void **state)
{
    struct machine *machine = machine_new(2, 3);

    (void)state;
    machine->snapshot.settings.makespan = true;
    machine->jobs[0].devices = 2;
    for (int job = 0; job < 3; job++)
        machine->jobs[job].left_deviation = 0.3;
    decide(machine);
    assert_int_equal(device(machine, 0), -1);
    assert_true(device(machine, 1) >= 0 && device(machine, 2) >= 0);
    free(machine);
}

/* If many jobs wait, the longest one goes first; if few do, an uncertain one. */
static void uncertain_jobs_first_in_the_end(void **state)
{
    struct machine *machine = machine_new(1, 6);

    (void)state;
    machine->snapshot.settings.makespan = true;
    for (int job = 1; job < 6; job++)
        machine->estimates[job][0].seconds = 600;
    machine->jobs[1].left_deviation = 0.6;
    decide(machine);
    assert_int_equal(device(machine, 0), 0);
    machine->snapshot.job_count = 2;
    decide(machine);
    assert_int_equal(device(machine, 1), 0);
    free(machine);
}

static void nothing_left_to_do_is_placed(void **state)
{
    struct machine *machine = machine_new(2, 2);

    (void)state;
    machine->snapshot.settings.makespan = true;
    machine->estimates[1][0].seconds = machine->estimates[1][1].seconds = 0;
    decide(machine);
    assert_true(device(machine, 0) >= 0 && device(machine, 1) >= 0);
    machine->snapshot.jobs = &machine->jobs[1];
    machine->snapshot.job_count = 1;
    decide(machine);
    assert_true(device(machine, 0) >= 0);
    free(machine);
}

static void who_runs_goes_on_for_a_while(void **state)
{
    struct machine *machine = machine_new(1, 3);

    (void)state;
    machine->snapshot.settings.makespan = true;
    run_on(machine, 1, on_device[0]);
    machine->estimates[1][0].seconds = 900;
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_STAY);
    machine->estimates[1][0].seconds = 300; /* the others have much more work left */
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_PREEMPT);
    free(machine);
}

static void a_type_not_known_is_tried(void **state)
{
    struct machine *machine = machine_new(3, 4); /* two fast devices, one slow */

    (void)state;
    machine->snapshot.settings.makespan = true;
    decide(machine);
    assert_int_not_equal(device(machine, 1), 2);
    machine->estimates[1][1].deviation = 0.5;
    decide(machine);
    assert_int_equal(device(machine, 1), 2);
    free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_jobs_take_turns),
        cmocka_unit_test(types_go_to_whom_they_help_most),
        cmocka_unit_test(who_takes_longer_than_all_together),
        cmocka_unit_test(nobody_can_run),
        cmocka_unit_test(any_division),
        cmocka_unit_test(uncertain_jobs_first),
        cmocka_unit_test(uncertain_gangs_after_singles),
        cmocka_unit_test(uncertain_jobs_first_in_the_end),
        cmocka_unit_test(nothing_left_to_do_is_placed),
        cmocka_unit_test(who_runs_goes_on_for_a_while),
        cmocka_unit_test(a_type_not_known_is_tried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
