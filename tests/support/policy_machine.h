/* policy_machine.h: a small machine, and decisions about it, for tests of the policy. */
#pragma once

#include "scheduler/policy.h"

enum { JOBS_MAX = 8, DEVICES_MAX = 6 };

/* A small machine: devices 0 and 1 are "fast", 2 and 3 "slow"; every job takes 1000 s on fast and
 * 4000 s on slow ones until a test says otherwise. */
struct machine {
    struct policy_device devices[DEVICES_MAX];
    struct policy_user users[2];
    struct policy_estimate estimates[JOBS_MAX][2];
    struct policy_job jobs[JOBS_MAX];
    struct policy_snapshot snapshot;
    struct policy_decision decision;
    char workspace[1 << 21];
};

/* Makes a machine of the first `devices` devices and the first `jobs` jobs. The caller frees it
 * with free(). */
struct machine *machine_new(size_t devices, size_t jobs);
/* fast:0, slow:0 and slow:1, and two jobs that may share and keep 40% of a device busy. */
struct machine *two_small_jobs(void);

void decide(struct machine *machine);
enum policy_verdict verdict(const struct machine *machine, int job);
/* The first device of a job; -1: none. */
int device(const struct machine *machine, int job);
void run_on(struct machine *machine, int job, const int *devices);

extern const int on_device[][1];
/* Decides, and compares the sentence about the job. */
void check_sentence(struct machine *machine, int job, const char *expected);
