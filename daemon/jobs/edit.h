/* edit.h: changes jobs that have not ended. All of the jobs change, or none. */
#pragma once

#include "daemon/context/context.h"
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
};

void jobs_edit(struct daemon *daemon, struct job_editing *editing);
void jobs_edit_release(struct job_editing *editing);
