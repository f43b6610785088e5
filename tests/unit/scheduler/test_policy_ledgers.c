/* test_policy_ledgers.c: devices that share a memory, or that are two ways to one GPU. Device 0
 * ("fast") stands for a GPU whose memory is that of device 2 ("slow"), the CPU. */
#include "tests/support/policy_machine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const int one_memory[] = {2, 1, 2, 3};
static const int each_its_own[] = {0, 1, 2, 3};

/* fast:0 and slow:0 alone, and jobs that need 500 of 850 bytes. */
static struct machine *unified_machine(size_t jobs)
{
    struct machine *machine = machine_new(4, jobs);

    machine->snapshot.ledgers = one_memory;
    machine->devices[1].lost = machine->devices[3].lost = true;
    for (int i = 0; i < JOBS_MAX; i++)
        machine->estimates[i][0].memory = machine->estimates[i][1].memory = 500;
    return machine;
}

static void one_ledger_holds_both(void **state)
{
    struct machine *machine = unified_machine(2);
    struct policy_candidate candidates[DEVICES_MAX];

    (void)state;
    decide(machine);
    assert_int_equal((device(machine, 0) >= 0) + (device(machine, 1) >= 0), 1);
    policy_candidates(&machine->snapshot, &machine->decision, device(machine, 0) < 0 ? 0 : 1,
                      candidates, DEVICES_MAX);
    assert_int_equal(candidates[2].verdict, POLICY_CANDIDATE_MEMORY);
    assert_int_equal(candidates[2].memory_free, 350);
    machine->snapshot.ledgers = each_its_own;
    decide(machine);
    assert_true(device(machine, 0) >= 0 && device(machine, 1) >= 0);
    /* what others hold counts once, and 0.0 is no limit */
    machine->snapshot.ledgers = one_memory;
    machine->estimates[1][0].memory = machine->estimates[1][1].memory = 350;
    decide(machine);
    assert_true(device(machine, 0) >= 0 && device(machine, 1) >= 0);
    machine->devices[2].memory_outside = 10;
    decide(machine);
    assert_int_equal((device(machine, 0) >= 0) + (device(machine, 1) >= 0), 1);
    machine->devices[2].high_watermark_ratio = 0;
    decide(machine);
    assert_true(device(machine, 0) >= 0 && device(machine, 1) >= 0);
    free(machine);
}

/* Of what does not fit together, the higher priority stays; of equals, more value. */
static void priorities_go_first(void **state)
{
    struct machine *machine = unified_machine(3);

    (void)state;
    machine->jobs[2].priority = 1;
    machine->estimates[2][0].memory = machine->estimates[2][1].memory = 800;
    decide(machine);
    assert_int_equal(device(machine, 2), 0);
    assert_true(device(machine, 0) < 0 && device(machine, 1) < 0);
    machine->jobs[2].priority = 0;
    machine->estimates[0][0].memory = machine->estimates[0][1].memory = 400;
    machine->estimates[1][0].memory = machine->estimates[1][1].memory = 400;
    machine->estimates[2][0].seconds = machine->estimates[2][1].seconds = 4000;
    decide(machine);
    assert_true(device(machine, 0) >= 0 && device(machine, 1) >= 0 && device(machine, 2) < 0);
    free(machine);
}

/* A job that cannot be moved keeps its memory, and others take what is left. */
static void what_runs_stays(void **state)
{
    struct machine *machine = unified_machine(3);

    (void)state;
    run_on(machine, 0, on_device[2]);
    machine->jobs[0].movable = false;
    machine->estimates[2][0].memory = 300;
    machine->jobs[1].priority = 1;
    decide(machine);
    assert_int_equal(device(machine, 0), 2);
    assert_int_equal(device(machine, 1), -1);
    assert_int_equal(device(machine, 2), 0);
    free(machine);
}

/* The other way to a GPU is as busy as the first. */
static void one_gpu_has_one_time(void **state)
{
    struct machine *machine = unified_machine(2);

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int type = 0; type < 2; type++)
            machine->estimates[i][type].memory = 100;
    decide(machine);
    assert_true(device(machine, 0) >= 0 && device(machine, 1) >= 0);
    machine->devices[0].same_hardware = true;
    decide(machine);
    assert_int_equal((device(machine, 0) >= 0) + (device(machine, 1) >= 0), 1);
    /* jobs that may share it do */
    for (int i = 0; i < 2; i++) {
        machine->jobs[i].shares = true;
        machine->estimates[i][0].utilisation = machine->estimates[i][1].utilisation = 0.5;
    }
    decide(machine);
    assert_true(device(machine, 0) >= 0 && device(machine, 1) >= 0);
    machine->devices[2].jobs_max = 1;
    decide(machine);
    assert_int_equal((device(machine, 0) >= 0) + (device(machine, 1) >= 0), 1);
    free(machine);
}

static void wrong_ledgers_are_refused(void **state)
{
    static const int chain[] = {1, 2, 2, 3}, beyond[] = {0, 1, 2, 4}, before[] = {-1, 1, 2, 3};
    const int *const wrong[] = {chain, beyond, before};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct machine *machine = unified_machine(1);

        machine->snapshot.ledgers = wrong[i];
        assert_int_equal(policy_decide(&machine->snapshot, machine->workspace,
                                       sizeof machine->workspace, &machine->decision),
                         -EINVAL);
        free(machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_ledger_holds_both),     cmocka_unit_test(priorities_go_first),
        cmocka_unit_test(what_runs_stays),           cmocka_unit_test(one_gpu_has_one_time),
        cmocka_unit_test(wrong_ledgers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
