/* wild_snapshot.h: snapshots for the scheduler's tests that no caller would make on purpose: any
 * number of devices, types and jobs, gangs of any size, memory that differs from device to device,
 * pins, limits, and invalid numbers. */
#pragma once

#include "scheduler/policy.h"

enum { WILD_USERS_MAX = 6, WILD_MASKS = 6 };

struct wild_snapshot {
    struct policy_snapshot snapshot;
    struct policy_device devices[POLICY_DEVICES_MAX];
    struct policy_user users[WILD_USERS_MAX];
    struct policy_job *jobs;
    struct policy_estimate *estimates;
    int *placed; /* devices of the running jobs */
    int ledgers[POLICY_DEVICES_MAX];
    uint64_t masks[WILD_MASKS + POLICY_DEVICES_MAX][POLICY_MASK_WORDS]; /* then one device each */
};

/* Makes a snapshot that depends on the seed alone. Only indices are valid: neither the numbers nor
 * the places of jobs need to make sense. */
void wild_snapshot_make(struct wild_snapshot *wild, uint64_t seed);
void wild_snapshot_free(struct wild_snapshot *wild);
