/* snapshot.h: the input of a decision: the devices, the running jobs, and the first few jobs of
 * each waiting class. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"
#include "scheduler/policy.h"

struct jobs;

/* The job behind an entry of the snapshot. */
struct snapshot_job {
    struct job *job; /* NULL: it has ended, but its processes are still there */
    struct attempt *attempt;
    struct job_class *class;
};

struct jobs_snapshot {
    struct policy_snapshot policy;
    struct policy_decision decision;
    struct snapshot_job *entries; /* one for each job of `policy` */
    size_t running_count;         /* as many of the first ones run */
    uint64_t number;              /* counts the snapshots that were made */
    bool decided;                 /* `decision` belongs to these jobs, without a guest */

    /* buffers, kept from one decision to the next */
    struct policy_device *devices;
    const char *type_names[DEVICE_TYPES_MAX];
    int ledgers[DEVICES_MAX];
    struct policy_job *jobs;
    struct policy_estimate *estimates;
    uint64_t (*masks)[2][POLICY_MASK_WORDS]; /* allowed, preferred */
    int (*places)[JOB_DEVICES_MAX];
    size_t capacity;
    struct policy_user *users;
    size_t user_capacity;
    void *workspace;
    size_t workspace_size;
};

/* Makes the snapshot and its decision. `guest`, if not NULL, is a waiting job that is in no table;
 * it becomes the last job of the snapshot. Returns 0, -ENOMEM, or the error of policy_decide(). */
int jobs_snapshot_decide(struct jobs *jobs, struct job *guest);
void jobs_snapshot_release(struct jobs_snapshot *snapshot);
