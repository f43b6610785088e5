/* job_edit.h: what an edit changes of a job's specification, and whether the job may change so. */
#pragma once

#include "daemon/types/job_types.h"
#include "daemon/work/job_entry.h"

/* When a key of a specification may change, the least restrictive first. */
enum job_edit_time {
    JOB_EDIT_ALWAYS,  /* also while the job runs: the change is in effect at once */
    JOB_EDIT_PLACING, /* while it waits for a device or is paused, suspended or not */
    JOB_EDIT_WAITING, /* while it waits or is paused: its next start reads it */
    JOB_EDIT_UNBEGUN, /* of a native job, before its first attempt: its checkpoints depend on it */
    JOB_EDIT_NEVER    /* another command does that */
};

struct job_edit {
    struct job_entry entry;      /* the job as it will be; owned */
    char change[JOB_REASON_MAX]; /* "priority 0 → 5; name a → b"; "": nothing changes */
    enum job_edit_time time;     /* the most restrictive of the keys that change */
    char path[256];              /* the key that is so */
    char owners_path[256];       /* a key that only the owner and root may change; "": none */
    bool priority, group, needs, work, time_limit,
        at;                    /* what changes; work: the plan or the command */
    double time_limit_seconds; /* 0: none */
    int retry_limit;           /* -1: the configuration's */
    double backoff_seconds;    /* -1: the configuration's */
};

/* On a worker or storage thread: applies `changes` (job_spec_merge()) to `spec`, the job's stored
 * specification, which changes in place, and finds out what that changes. -EINVAL with a sentence
 * and the fault. Release `edit` in any case. */
int job_edit_prepare(struct json_object *spec, struct json_object *changes, uid_t uid,
                     struct job_edit *edit, struct job_spec_fault *fault, struct error *error);
void job_edit_release(struct job_edit *edit);

/* How far a job is that is to be edited. */
struct job_edit_target {
    int64_t id;
    enum job_state state;
    bool runs;          /* it has an attempt that is not a planning run */
    bool suspended;     /* that attempt waits for a device again, or is paused */
    bool begun;         /* it has had an attempt */
    bool planning;      /* its plan is being made */
    bool saves_state;   /* pausing it loses nothing */
    double run_seconds; /* of the present attempt */
    bool by_search;     /* a search changes it, in keys that its checkpoints do not depend on */
    const char *pinned; /* the device that Move bound it to; NULL: none */
};

/* Whether the job may change so. -EBUSY with a sentence that names the remedy. */
int job_edit_check(const struct job_edit *edit, const struct job_edit_target *target,
                   struct error *error);
