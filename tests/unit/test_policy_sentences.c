/* test_policy_sentences.c: what policy_explain() says of a decision is what decided it. */
#include "tests/support/policy_machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_sentence(struct machine *machine, int job, const char *expected)
{
    char text[POLICY_REASON_MAX];

    decide(machine);
    assert_string_equal(
        policy_explain(&machine->snapshot, &machine->decision, (size_t)job, text, sizeof text),
        expected);
}

/* A device without a limit but the low watermark, with a job on it that shares. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_not_join_waits_for_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
