/* test_placement.c: where the head of the queue starts, and the sentences when it does not. */
#include "scheduler/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static struct placement_device cpu(void)
{
    return (struct placement_device){.name = "cpu",
                                     .kind = "cpu",
                                     .memory_capacity = 1000 * MIB,
                                     .high_watermark_ratio = 0.85,
                                     .slots = 1};
}

static void start_on_the_only_device(void **state)
{
    struct placement_device device = cpu();
    struct placement_need need = {.memory = 14 * MIB};
    struct placement placement = placement_decide(&need, &device, 1);

    (void)state;
    assert_int_equal(placement.verdict, PLACEMENT_START);
    assert_string_equal(placement.reason,
                        "cpu: the only device allowed; 14.0 MiB of 850 MiB free needed");
}

/* booked + outside + need <= ratio * capacity, to the byte */
static void the_ledger_is_exact(void **state)
{
    struct placement_device device = cpu();
    struct placement_need need = {.memory = 250 * MIB};

    (void)state;
    device.slots = 4;
    device.slots_used = 1;
    device.memory_booked = 400 * MIB;
    device.memory_outside = 200 * MIB;
    assert_int_equal(placement_decide(&need, &device, 1).verdict, PLACEMENT_START);
    device.memory_outside++;
    assert_int_equal(placement_decide(&need, &device, 1).verdict, PLACEMENT_WAIT_MEMORY);
    device.high_watermark_ratio = 0; /* no limit */
    assert_int_equal(placement_decide(&need, &device, 1).verdict, PLACEMENT_START);
}

static void outside_use_beyond_the_limit(void **state)
{
    struct placement_device device = cpu();
    struct placement_need need = {.memory = 0};

    (void)state;
    device.memory_outside = 2000 * MIB;
    assert_int_equal(placement_decide(&need, &device, 1).verdict, PLACEMENT_START);
    need.memory = 1;
    assert_int_equal(placement_decide(&need, &device, 1).verdict, PLACEMENT_WAIT_MEMORY);
}

static void no_slot(void **state)
{
    struct placement_device device = cpu();
    struct placement_need need = {0};
    struct placement placement;

    (void)state;
    device.slots_used = 1;
    placement = placement_decide(&need, &device, 1);
    assert_int_equal(placement.verdict, PLACEMENT_WAIT_SLOT);
    assert_string_equal(placement.reason, "waits for cpu: its one slot is taken");
}

static void impossible(void **state)
{
    struct placement_device device = cpu();
    const char *allowed[] = {"cuda"};
    struct placement_need need = {.memory = 851 * MIB};
    struct placement placement = placement_decide(&need, &device, 1);

    (void)state;
    assert_int_equal(placement.verdict, PLACEMENT_IMPOSSIBLE);
    assert_string_equal(placement.reason,
                        "needs 851 MiB, and cpu may hold 850 MiB at most (high_watermark_ratio "
                        "0.85)");
    need = (struct placement_need){.allowed = allowed, .allowed_count = 1};
    placement = placement_decide(&need, &device, 1);
    assert_int_equal(placement.verdict, PLACEMENT_IMPOSSIBLE);
    assert_string_equal(placement.reason, "no device that the job allows is here: it allows cuda, "
                                          "this machine has cpu");
    placement = placement_decide(&need, &device, 0);
    assert_int_equal(placement.verdict, PLACEMENT_IMPOSSIBLE);
}

static void several_devices(void **state)
{
    struct placement_device devices[3] = {cpu(), cpu(), cpu()};
    const char *allowed[] = {"cuda", "cpu"};
    struct placement_need need = {
        .memory = 10 * MIB, .allowed = allowed, .allowed_count = 2, .preferred = "cuda"};
    struct placement placement;

    (void)state;
    devices[1].name = "cuda:0";
    devices[2].name = "cuda:1";
    devices[1].kind = devices[2].kind = "cuda";
    devices[1].memory_booked = 100 * MIB;
    placement = placement_decide(&need, devices, 3);
    assert_int_equal(placement.device, 2); /* preferred kind, more free */
    assert_true(strstr(placement.reason, "cuda:1: the preferred device") == placement.reason);
    devices[2].slots_used = 1;
    assert_int_equal(placement_decide(&need, devices, 3).device, 1);
    devices[1].draining = true;
    placement = placement_decide(&need, devices, 3);
    assert_int_equal(placement.verdict, PLACEMENT_START); /* the CPU is allowed too */
    assert_int_equal(placement.device, 0);
    need.allowed_count = 1;
    assert_int_equal(placement_decide(&need, devices, 3).verdict, PLACEMENT_WAIT_SLOT);
    devices[2].lost = true;
    assert_int_equal(placement_decide(&need, devices, 3).verdict, PLACEMENT_WAIT_DRAINING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_on_the_only_device),
        cmocka_unit_test(the_ledger_is_exact),
        cmocka_unit_test(outside_use_beyond_the_limit),
        cmocka_unit_test(no_slot),
        cmocka_unit_test(impossible),
        cmocka_unit_test(several_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
