/* job_insert.h: from a specification to a durable row: what Submit, SubmitMany and the points of a
 * sweep share. */
#pragma once

#include "daemon/job_dependencies.h"
#include "daemon/jobs.h"
#include "proto/job_spec.h"

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

/* On the writer: the rows of `count` jobs, all queued. Entries whose submission.id is not 0 get
 * that id, the others new ones. -ENOENT with a sentence when an entry waits for a job that is not
 * there: `*culprit` is the entry, `*missing` the job. */
int job_entries_insert(struct store_connection *connection, struct job_entry *entries, size_t count,
                       const char *user, double time, size_t *culprit, int64_t *missing,
                       struct error *error);

/* On a storage thread: 1 when there is a job of that id, else 0. */
int job_row_exists(struct store_connection *connection, int64_t id, struct error *error);

/* The name of a user, or its number; the caller owns it. NULL for want of memory. */
char *job_user_name(uid_t uid);
