/* job_entry.h: a submitted specification after it was checked and split into its parts. Submit,
 * SubmitMany and the points of a sweep pass it to the store and to the job table. */
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

/* What the job table needs to know of a new job. */
struct job_submission {
    int64_t id;
    uid_t uid;
    enum job_kind kind;
    int priority;
    double put_first;                 /* when it was put before others of its user; 0: never */
    char plan_digest[65];             /* of a command: job_spec_command_digest() */
    bool held, notifies;              /* `hold` and `notify` of its specification */
    struct sweep_run *sweep;          /* the sweep that this job is a point of (jobs), or NULL */
    double at;                        /* when it may start, since the epoch; 0: at once */
    const char *group;                /* borrowed, or NULL */
    struct dependencies dependencies; /* borrowed; the same as in the rows */
    const char *needs;                /* job_needs_text(); borrowed */
};
enum { SPEC_TEXT_MAX = 256 * 1024 }; /* bytes after normalisation; the reply of Show must hold it */

struct job_entry {
    struct job_submission submission; /* `dependencies` are owned by the entry until jobs_add() */
    char *name, *spec, *group;        /* owned; group may be NULL */
    char *needs;                      /* owned; job_needs_text() */
    char snapshot[65];                /* `snapshot.id` of its specification; "": none */
    int64_t weights_job;              /* `weights.job` of its specification; 0: none */
    int64_t weights_step;             /* `weights.step`; -1: not given */
    int64_t sweep;                    /* 0: it is not a point of a sweep */
    enum job_state final_state;       /* for a job that never runs; JOB_QUEUED: it does run */
    char *final_reason;               /* owned, or NULL */
    bool has_at;                      /* its specification says `at`, be it 0 */
    bool exists;                      /* of a point: its row exists already */
};

void job_entry_release(struct job_entry *entry);

/* On a worker or storage thread: checks the specification, fills in defaults. -EINVAL with a
 * sentence and the fault. */
int job_entry_prepare(struct json_object *spec, uid_t uid, struct job_entry *entry,
                      struct job_spec_fault *fault, struct error *error);

/* Checks that the priority is at most `maximum`. -EINVAL with a sentence and the fault. */
int job_priority_check(int64_t priority, int64_t maximum, struct job_spec_fault *fault,
                       struct error *error);

/* Checks that a job that is to start `at` that time, if it `has_at` one, has not missed it already.
 * -EINVAL with a sentence and the fault. */
int job_at_check(bool has_at, double at, double now, struct job_spec_fault *fault,
                 struct error *error);

/* Says until when the job waits: "waits until 2027-01-01 03:00:00 CET (at)", in the local time of
 * this process. Returns `text`. */
char *job_at_describe(double at, char *text, size_t size);

/* The part of a normalised specification on which placement depends, as JSON; the caller frees it.
 */
char *job_needs_text(struct json_object *spec);

/* The name of a user, or the uid as text; the caller frees it. */
char *job_user_name(uid_t uid);
