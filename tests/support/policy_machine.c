/* policy_machine.c: see policy_machine.h. */
#include "tests/support/policy_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const type_names[] = {"fast", "slow"};
static const char *const device_names[] = {"fast:0", "fast:1", "slow:0", "slow:1"};

struct machine *machine_new(size_t devices, size_t jobs)
{
    struct machine *machine = calloc(1, sizeof *machine);

    for (int d = 0; d < 4; d++)
        machine->devices[d] = (struct policy_device){.name = device_names[d],
                                                     .type = d / 2,
                                                     .memory_capacity = 1000,
                                                     .high_watermark_ratio = 0.85};
    for (int i = 0; i < JOBS_MAX; i++) {
        machine->estimates[i][0] = (struct policy_estimate){.seconds = 1000};
        machine->estimates[i][1] = (struct policy_estimate){.seconds = 4000};
        machine->jobs[i] = (struct policy_job){.id = i + 1,
                                               .user = POLICY_NONE,
                                               .devices = 1,
                                               .restart_seconds = 30,
                                               .length_known = true,
                                               .movable = true,
                                               .estimates = machine->estimates[i]};
    }
    machine->snapshot = (struct policy_snapshot){.type_count = 2,
                                                 .type_names = type_names,
                                                 .devices = machine->devices,
                                                 .device_count = devices,
                                                 .jobs = machine->jobs,
                                                 .job_count = jobs,
                                                 .users = machine->users,
                                                 .user_count = 2,
                                                 .settings = policy_settings_default()};
    return machine;
}

void decide(struct machine *machine)
{
    assert_true(policy_workspace_size(&machine->snapshot) <= sizeof machine->workspace);
    assert_int_equal(policy_decide(&machine->snapshot, machine->workspace,
                                   policy_workspace_size(&machine->snapshot), &machine->decision),
                     0);
}

enum policy_verdict verdict(const struct machine *machine, int job)
{
    return machine->decision.placements[job].verdict;
}

int device(const struct machine *machine, int job)
{
    return machine->decision.placements[job].devices ? machine->decision.placements[job].devices[0]
                                                     : -1;
}

void run_on(struct machine *machine, int job, const int *devices)
{
    machine->jobs[job].on = devices;
    machine->jobs[job].resumes = true;
}

const int on_device[][1] = {{0}, {1}, {2}, {3}};

struct machine *two_small_jobs(void)
{
    struct machine *machine = machine_new(4, 2);

    machine->devices[1].lost = true; /* one fast device */
    for (int i = 0; i < 2; i++) {
        machine->jobs[i].shares = true;
        for (int type = 0; type < 2; type++) {
            machine->estimates[i][type].utilisation = 0.4;
            machine->estimates[i][type].memory = 400;
        }
    }
    return machine;
}

void check_sentence(struct machine *machine, int job, const char *expected)
{
    char text[POLICY_REASON_MAX];

    decide(machine);
    assert_string_equal(
        policy_explain(&machine->snapshot, &machine->decision, (size_t)job, text, sizeof text),
        expected);
}
