/* job_entry.h: a specification that was submitted, checked and taken apart: what Submit, SubmitMany
 * and the points of a sweep hand to the store and to the job table. */
#pragma once

#include "daemon/types/job_types.h"
#include "daemon/work/job_dependencies.h"
#include "proto/job_spec.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define JOB_HELD_SENTENCE "held until `trainctl release`"

struct sweep_run;

/* What the job table is told of a job. */
struct job_submission {
    int64_t id;
    uid_t uid;
    enum job_kind kind;
    int priority;
    char plan_digest[65];             /* of a command: job_spec_command_digest() */
    bool held, notifies;              /* `hold` and `notify` of its specification */
    struct sweep_run *sweep;          /* whose point it is (jobs), or NULL */
    const char *group;                /* lent, or NULL */
    struct dependencies dependencies; /* lent; as their rows are */
    const char *needs;                /* job_needs_text(); lent */
};
enum { SPEC_TEXT_MAX = 256 * 1024 }; /* bytes, normalised: Show's reply has to hold it */

struct job_entry {
    struct job_submission submission; /* `dependencies` are owned by the entry until jobs_add() */
    char *name, *spec, *group;        /* owned; group may be NULL */
    char *needs;                      /* owned; job_needs_text() */
    int64_t sweep;                    /* 0: of none */
    enum job_state final_state;       /* of one that never runs; JOB_QUEUED: it does */
    char *final_reason;               /* owned, or NULL */
    bool exists;                      /* of a point: there is a row already */
};

void job_entry_release(struct job_entry *entry);

/* On a worker or storage thread: checks the specification, fills in defaults. -EINVAL with a
 * sentence and the fault. */
int job_entry_prepare(struct json_object *spec, uid_t uid, struct job_entry *entry,
                      struct job_spec_fault *fault, struct error *error);

/* Whether who submits it may give a job that priority: `maximum` at most. -EINVAL with a sentence
 * and the fault. */
int job_priority_check(int64_t priority, int64_t maximum, struct job_spec_fault *fault,
                       struct error *error);

/* The part of a normalised specification that decides; the caller frees it. */
char *job_needs_text(struct json_object *spec);

/* The name of a user, or its number; the caller owns it. */
char *job_user_name(uid_t uid);
