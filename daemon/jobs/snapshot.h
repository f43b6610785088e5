/* snapshot.h: what a decision looks at: the devices, the jobs that run, and the first few jobs
 * of each class that waits. */
#pragma once

#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"
#include "scheduler/policy.h"

struct jobs;

/* What stands behind one job of the snapshot. */
struct snapshot_job {
    struct job *job; /* NULL: has ended, only its processes are still to go */
    struct attempt *attempt;
    struct job_class *class;
};

struct jobs_snapshot {
    struct policy_snapshot policy;
    struct policy_decision decision;
    struct snapshot_job *entries; /* one for each job of `policy` */
    size_t running_count;         /* so many of them run, the first */
    uint64_t number;              /* counts the snapshots that were made */
    bool decided; /* `decision` is about those that are there, no guest among them */

    /* memory, kept from one decision to the next */
    struct policy_device *devices;
    const char *type_names[DEVICE_TYPES_MAX];
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

/* Makes it, and the decision. `guest`, if it is not NULL, joins as the last job: one that is in no
 * table and waits. -ENOMEM, or what policy_decide() says. */
int jobs_snapshot_decide(struct jobs *jobs, struct job *guest);
void jobs_snapshot_release(struct jobs_snapshot *snapshot);
