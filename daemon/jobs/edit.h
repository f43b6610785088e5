/* edit.h: changes jobs that have not ended. All of the jobs change, or none. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "daemon/work/job_edit.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOBS_EDITED_MAX = 1000 }; /* in one request */

struct edited_job {
    int64_t id;
    struct job_edit edit; /* .change: what was changed, a sentence; "": nothing */
    bool live;            /* it had not ended when the request began */
    bool frozen;          /* this request keeps it from starting meanwhile */
};

struct job_editing {
    struct edited_job *jobs; /* the caller's; it fills in the ids, each once */
    size_t count;
    struct json_object *changes; /* a JSON Merge Patch; the caller's */
    int64_t priority_max;        /* that the caller may give */
    uid_t uid;                   /* who edits */
    bool by_search;              /* job_edit_target.by_search */
    store_work also;             /* stored in the same transaction, with `data`; NULL: nothing */
    /* Runs once the change is durable and in effect, or refused. -EINVAL with `fault`: the
     * specification would be invalid. -EBUSY with `refused` and its state: that job may not change
     * so, or has ended. Then the caller calls jobs_edit_release(). */
    void (*done)(struct job_editing *editing, int result, const struct error *error);
    void *data;
    struct job_spec_fault fault;
    int64_t refused;
    enum job_state refused_state;

    /* of edit.c */
    struct daemon *daemon;
    char *user; /* owned: the name of who edits another user's job, or NULL */
    double time;
    bool reserved;
};

void jobs_edit(struct daemon *daemon, struct job_editing *editing);

/* Keeps the jobs from starting, and from other edits, while the caller does what is part of its
 * own. After 0, either jobs_edit() or jobs_edit_give_up() follows. -EBUSY: another request edits
 * one of them; nothing is reserved, and `done` does not run. */
int jobs_edit_reserve(struct daemon *daemon, struct job_editing *editing, struct error *error);
/* Runs `done` with the result, a failure. */
void jobs_edit_give_up(struct job_editing *editing, int result, const struct error *error);
void jobs_edit_release(struct job_editing *editing);
