/* test_policy_choices.c: the devices that jobs exclude and prefer, kinds of jobs, and what is said
 * about every device. */
#include "tests/support/policy_machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- what jobs choose ------------------------------------------------------------------------ */

static const uint64_t only_first[POLICY_MASK_WORDS] = {1}, without_first[POLICY_MASK_WORDS] = {14},
                      only_slow[POLICY_MASK_WORDS] = {12};

static void jobs_exclude_devices(void **state)
{
    struct machine *machine = machine_new(4, 3);

    (void)state;
    machine->jobs[0].allowed = machine->jobs[1].allowed = without_first;
    decide(
        /* two may not use fast:0: one of them must be slow, and the third one gets fast:0 */
        machine);
    assert_true(device(machine, 0) == 1 || device(machine, 1) == 1);
    assert_true(device(machine, 0) >= 2 || device(machine, 1) >= 2);
    assert_int_equal(device(machine, 2), 0);
    machine->jobs[0].devices = 2; /* a gang on devices that it may use */
    decide(machine);
    assert_int_equal(device(machine, 0), 2);
    run_on(machine, 1, on_device[0]); /* a job that may not stay leaves */
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_MOVE);
    machine->jobs[1].on = NULL;
    machine->devices[1].lost = machine->devices[2].lost = machine->devices[3].lost = true;
    decide(machine);
    assert_int_equal(verdict(machine, 1), POLICY_IMPOSSIBLE);
    assert_int_equal(verdict(machine, 2), POLICY_START);
    free(machine);
}

static void reservations_respect_exclusions(void **state)
{
    struct machine *machine = machine_new(2, 3);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].movable = false;
    machine->jobs[1].allowed = only_first;
    machine->jobs[1].waited = 1e5;
    decide(machine); /* it waits for fast:0, and fast:1 is not held for it */
    assert_int_equal(verdict(machine, 1), POLICY_WAIT_RESERVATION);
    assert_int_equal(device(machine, 2), 1);
    free(machine);
}

static void preferred_devices_get_the_job_when_free(void **state)
{
    struct machine *machine = machine_new(4, 2);

    (void)state;
    machine->snapshot.job_count = 1;
    machine->jobs[0].preferred = only_slow;
    decide(machine);
    assert_int_equal(device(machine, 0), 2);
    run_on(machine, 0, on_device[0]); /* the move pays, but not in the last minute */
    decide(machine);
    assert_int_equal(device(machine, 0), 2);
    machine->estimates[0][0].seconds = 20;
    machine->estimates[0][1].seconds = 80;
    decide(machine);
    assert_int_equal(verdict(machine, 0), POLICY_STAY);
    machine->jobs[0].on =
        /* it is taken, so the job goes elsewhere, and takes no device from a job that gains more */
        NULL;
    machine->jobs[0].resumes = false;
    machine->estimates[0][0].seconds = 1000;
    machine->estimates[0][1].seconds = 4000;
    machine->devices[3].lost = true;
    machine->snapshot.job_count = 2;
    machine->estimates[1][0].seconds = INFINITY;
    machine->estimates[1][1].seconds = 100;
    decide(machine);
    assert_int_equal(device(machine, 0), 0);
    assert_int_equal(device(machine, 1), 2);
    /* an empty set counts as no preference */
    machine->jobs[0].preferred = (const uint64_t[POLICY_MASK_WORDS]){0};
    machine->devices[3].lost = false;
    decide(machine);
    assert_int_equal(device(machine, 0), 0);
    free(machine);
}

/* A queue of three kinds of jobs. All of them are in the snapshot, or they are `alike` the first
 * one. The decision about those is the same. */
static void kinds_stand_for_their_jobs(void **state)
{
    enum { KINDS = 3, EACH = 40, SHOWN = 2 };

    (void)state;
    for (int known = 0; known < 2; known++) {
        struct machine *machine = machine_new(2, 0);
        struct policy_job all[KINDS * EACH], few[KINDS * SHOWN];
        struct policy_decision whole, part;
        char *workspaces[2];

        for (int i = 0; i < KINDS * EACH; i++) {
            int kind = i / EACH, n = i % EACH;

            machine->estimates[kind][0].seconds = 1000 + 10 * kind;
            all[i] = machine->jobs[kind];
            all[i].waited = 10000 * kind;
            all[i].length_known = known;
            if (n < SHOWN)
                few[kind * SHOWN + n] = all[i];
            if (n == SHOWN - 1)
                few[kind * SHOWN + n].alike = EACH - SHOWN;
        }
        for (int turn = 0; turn < 2; turn++) {
            machine->snapshot.jobs = turn ? few : all;
            machine->snapshot.job_count = turn ? KINDS * SHOWN : KINDS * EACH;
            workspaces[turn] = calloc(1, policy_workspace_size(&machine->snapshot));
            assert_int_equal(policy_decide(&machine->snapshot, workspaces[turn],
                                           policy_workspace_size(&machine->snapshot),
                                           turn ? &part : &whole),
                             0);
        }
        assert_true(whole.value == part.value);
        for (int i = 0; i < KINDS * SHOWN; i++)
            assert_int_equal(part.placements[i].verdict,
                             whole.placements[i / SHOWN * EACH + i % SHOWN].verdict);
        free(workspaces[0]);
        free(workspaces[1]);
        free(machine);
    }
}

/* ---- candidates ------------------------------------------------------------------------------ */

static void check_candidates(struct machine *machine, int job, const char *expected)
{
    struct policy_candidate candidates[DEVICES_MAX];
    char text[256] = "";
    size_t count, used = 0;

    decide(machine);
    count = policy_candidates(&machine->snapshot, &machine->decision, (size_t)job, candidates,
                              DEVICES_MAX);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 policy_candidate_verdict_to_string(candidates[i].verdict));
        if (candidates[i].other)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, ":%d", (int)candidates[i].other);
    }
    assert_string_equal(text, expected);
}

static void candidates_of_a_placed_job(void **state)
{
    struct machine *machine = machine_new(4, 1);
    struct policy_candidate candidate;

    (void)state;
    check_candidates(machine, 0, "chosen equal slower slower");
    machine->jobs[0].preferred = only_slow;
    check_candidates(machine, 0, "not_preferred not_preferred chosen equal");
    machine->jobs[0].preferred = NULL;
    machine->jobs[0].allowed = without_first;
    machine->devices[1].draining = true;
    machine->devices[3].lost = true;
    check_candidates(machine, 0, "not_allowed draining chosen lost");
    machine->jobs[0].allowed = NULL;
    machine->devices[0].memory_outside = 500;
    machine->estimates[0][0].memory = machine->estimates[0][1].memory = 400;
    check_candidates(machine, 0, "memory draining chosen lost");
    assert_int_equal(policy_candidates(&machine->snapshot, &machine->decision, 0, &candidate, 1),
                     1);
    assert_true(candidate.memory == 400 && candidate.memory_free == 350);
    assert_true(candidate.seconds == 1000);
    machine->devices[0].memory_outside = 0; /* missing memory is reported before speed */
    machine->devices[2].memory_outside = 500;
    check_candidates(machine, 0, "chosen draining memory lost");
    machine->devices[2].memory_outside = 0;
    machine->jobs[0].allowed = without_first; /* it is excluded, whether it exists or not */
    machine->devices[0].lost = true;
    check_candidates(machine, 0, "not_allowed draining chosen lost");
    machine->jobs[0].allowed = NULL;
    machine->devices[0].lost = false;
    machine->devices[0].memory_outside = 500;
    machine->estimates[0][0].memory = 851;
    check_candidates(machine, 0, "too_large too_large chosen lost");
    machine->estimates[0][0].seconds = INFINITY;
    check_candidates(machine, 0, "cannot_run cannot_run chosen lost");
    machine->estimates[0][0] = (struct policy_estimate){.seconds = 3990};
    run_on(machine, 0, on_device[2]);
    check_candidates(machine, 0, "restart draining chosen lost");
    free(machine);
}

static void candidates_of_a_waiting_job(void **state)
{
    struct machine *machine = machine_new(2, 3);

    (void)state;
    machine->jobs[0].priority = machine->jobs[1].priority = 1;
    check_candidates(machine, 2, "busy:1 busy:2");
    machine->jobs[2].devices = 2;
    machine->snapshot.job_count = 3;
    machine->jobs[1].allowed = only_first; /* one is free, but the gang needs two */
    machine->jobs[0].devices = 1;
    machine->jobs[0].allowed = only_first;
    check_candidates(machine, 2, "busy:1 few");
    machine->jobs[2].devices = 1;
    machine->jobs[2].user = 0;
    machine->users[0].device_max = 1;
    machine->jobs[0].user = 0;
    check_candidates(machine, 2, "busy:1 user_limit");
    machine->jobs[2].user = POLICY_NONE;
    machine->jobs[1].waited = 1e5; /* a gang that waits for fast:0 holds fast:1 */
    machine->jobs[1].devices = 2;
    machine->jobs[1].allowed = NULL;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].movable = false;
    machine->estimates[2][0].seconds = 1001;
    check_candidates(machine, 2, "busy:1 reserved:2");
    check_candidates(machine, 1, "busy:1 reserved:2");
    free(machine);
}

static void candidates_where_devices_are_shared(void **state)
{
    struct machine *machine = two_small_jobs();

    (void)state;
    check_candidates(machine, 1, "chosen lost slower slower");
    machine->estimates[1][0].memory = 451;
    check_candidates(machine, 1, "memory:1 lost chosen equal");
    free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_exclude_devices),
        cmocka_unit_test(reservations_respect_exclusions),
        cmocka_unit_test(preferred_devices_get_the_job_when_free),
        cmocka_unit_test(kinds_stand_for_their_jobs),
        cmocka_unit_test(candidates_of_a_placed_job),
        cmocka_unit_test(candidates_of_a_waiting_job),
        cmocka_unit_test(candidates_where_devices_are_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
