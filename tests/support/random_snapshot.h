/* random_snapshot.h: random snapshots for the scheduler's tests and its timing. */
#pragma once

#include "scheduler/policy.h"

struct random_snapshot {
    struct policy_snapshot snapshot;
    struct policy_device devices[POLICY_DEVICES_MAX];
    struct policy_user users[4];
    struct policy_job *jobs;
    struct policy_estimate *estimates;
    int *placed; /* devices of the running jobs */
    int ledgers[POLICY_DEVICES_MAX];
    uint64_t masks[4][POLICY_MASK_WORDS];
};

struct random_shape {
    int types, devices, jobs;
    int gang_max; /* devices that a job needs, at most; 1: single devices */
    bool plain;   /* none of the following: */
                  /* memory, outside users, draining, lost, unmovable, sharing, priorities */
    bool choosy;  /* some jobs exclude devices, or prefer some */
    bool unified; /* devices share memories, and some are two ways to one GPU */
};

/* Makes a snapshot that depends on shape and seed alone. Running jobs are placed so that the ledger
 * holds. */
void random_snapshot_make(struct random_snapshot *random, const struct random_shape *shape,
                          uint64_t seed);
void random_snapshot_free(struct random_snapshot *random);
