/* test_policy_sentences.c: policy_explain() names what decided. */
#include "tests/support/policy_machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* A device with only a low watermark, and a job on it that shares. */
static void who_may_not_join_waits_for_memory(void **state)
{
    struct machine *machine = two_small_jobs();

    (void)state;
    machine->snapshot.device_count = 1;
    machine->devices[0].high_watermark_ratio = 0;
    machine->devices[0].low_watermark_ratio = 0.3;
    check_sentence(machine, 1,
                   "waits for memory: fast:0 is filled beyond its low watermark, above which no "
                   "further job joins");
    machine->devices[0].high_watermark_ratio = 0.85;
    machine->devices[0].low_watermark_ratio = 0;
    machine->estimates[1][0].memory = 500;
    check_sentence(machine, 1,
                   "waits for memory: needs 500 B, and fast:0 has 450 B free below its watermark");
    free(machine);
}

static const uint64_t only_slow[POLICY_MASK_WORDS] = {12};

/* For a placed job: what decided about its device. */
static void a_place_and_what_decided(void **state)
{
    struct machine *machine = machine_new(3, 1);
    struct policy_job *job = &machine->jobs[0];

    (void)state;
    check_sentence(
        machine, 0,
        "fast:0: the fastest for it; predicted 16 min 40 s (fast 16 min 40 s, slow 1 h 07 min)");
    machine->devices[0].lost = true;
    check_sentence(
        machine, 0,
        "fast:1: the fastest for it; predicted 16 min 40 s (fast 16 min 40 s, slow 1 h 07 min)");
    machine->devices[1].lost = true;
    check_sentence(machine, 0,
                   "slow:0: fast:0 would be faster, but it is lost; predicted 1 h 07 min (fast 16 "
                   "min 40 s, slow 1 h 07 min)");
    machine->devices[0].lost = false;
    machine->devices[0].memory_outside = 900;
    check_sentence(machine, 0,
                   "slow:0: fast:0 would be faster, but too little of its memory is free; "
                   "predicted 1 h 07 min (fast 16 min 40 s, slow 1 h 07 min)");
    machine->devices[0].memory_outside = 0;
    job->preferred = only_slow;
    check_sentence(machine, 0,
                   "slow:0: the job prefers it; predicted 1 h 07 min (fast 16 min 40 s, slow 1 h "
                   "07 min)");
    machine->devices[2].memory_outside = 900;
    check_sentence(machine, 0,
                   "fast:0: the job prefers slow:0, but too little of its memory is free; "
                   "predicted 16 min 40 s (fast 16 min 40 s, slow 1 h 07 min)");
    job->length_known = false;
    check_sentence(machine, 0,
                   "fast:0: the job prefers slow:0, but too little of its memory is free; how long "
                   "it takes is not known");
    machine->devices[2].memory_outside = 0;
    job->preferred = NULL;
    check_sentence(machine, 0, "fast:0: free for it; how long it takes is not known");
    job->allowed = only_slow;
    job->pinned = true;
    check_sentence(machine, 0, "slow:0: it is pinned there; how long it takes is not known");
    free(machine);
}

static void what_may_be_the_fastest_is_tried(void **state)
{
    struct machine *machine = machine_new(3, 1);

    (void)state;
    machine->estimates[0][1] = (struct policy_estimate){.seconds = 1300, .deviation = 0.5};
    check_sentence(machine, 0,
                   "slow:0: it may be the fastest, which running it there shows; predicted 21 min "
                   "40 s (fast 16 min 40 s, slow about 21 min 40 s)");
    free(machine);
}

/* For a job that has to leave: for which job, and why it is this one. */
static void a_device_and_who_gets_it(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[1].priority = 10;
    check_sentence(machine, 0, "gives fast:0 up to job 2, whose priority is higher");
    machine->jobs[1].priority = 0;
    machine->estimates[1][0].seconds = 10;
    check_sentence(machine, 0, "gives fast:0 up to job 2, which gains more from it");
    machine->estimates[1][0].seconds = 1000;
    machine->jobs[1].waited = 1e6;
    check_sentence(machine, 0, "gives fast:0 up to job 2, which had waited too long");
    machine->jobs[0].allowed = only_slow;
    check_sentence(machine, 0, "leaves fast:0, where it may not run any more");
    machine->devices[0].lost = true;
    check_sentence(machine, 0, "leaves fast:0, which is lost");
    /* the other job takes the faster device, and this one goes elsewhere */
    machine->devices[0].lost = false;
    machine->jobs[0].allowed = NULL;
    machine->jobs[1].waited = 0;
    machine->jobs[1].priority = 10;
    machine->snapshot.device_count = 3;
    machine->devices[1].draining = true;
    check_sentence(machine, 0,
                   "moves to slow:0: fast:0 would be faster, but job 2 has it; predicted 1 h 07 "
                   "min (fast 16 min 40 s, slow 1 h 07 min)");
    free(machine);
}

/* Only draining devices are named, and for a gang only kinds with enough of them. */
static void devices_that_drain_are_named(void **state)
{
    struct machine *machine = machine_new(3, 1);

    (void)state;
    machine->jobs[0].devices = 2;
    machine->devices[1].draining = machine->devices[2].draining = true;
    check_sentence(machine, 0,
                   "waits for 2 devices of one kind: too few take jobs while fast:1 is drained or "
                   "quarantined");
    machine->devices[0].draining = true;
    check_sentence(machine, 0,
                   "waits for 2 devices of one kind: too few take jobs while fast:0, fast:1 are "
                   "drained or quarantined");
    machine->jobs[0].devices = 1;
    check_sentence(machine, 0,
                   "waits for fast:0 or fast:1 or slow:0, which are drained or quarantined");
    machine->devices[1].lost = true;
    machine->jobs[0].allowed = (const uint64_t[POLICY_MASK_WORDS]){3};
    check_sentence(machine, 0, "waits for fast:0, which is drained or quarantined");
    free(machine);
}

static void the_limit_of_a_user_is_named(void **state)
{
    struct machine *machine = machine_new(3, 2);

    (void)state;
    machine->users[0].device_max = 1;
    for (int i = 0; i < 2; i++)
        machine->jobs[i].user = 0;
    check_sentence(machine, 1, "waits: its user has 1 device, as many as allowed (DevicesPerUser)");
    free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_not_join_waits_for_memory),
        cmocka_unit_test(a_place_and_what_decided),
        cmocka_unit_test(what_may_be_the_fastest_is_tried),
        cmocka_unit_test(a_device_and_who_gets_it),
        cmocka_unit_test(devices_that_drain_are_named),
        cmocka_unit_test(the_limit_of_a_user_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
