/* details.h: what starting a job needs of its specification, read from the store when its start
 * gets close and not kept for all that wait. */
#pragma once

#include "base/error.h"
#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

struct job;
struct job_details;
struct jobs;

void details_start(struct jobs *jobs);

/* What a read of a job's specification gives. */
struct details_read {
    struct jobs *jobs;
    int64_t id;
    struct job_details *details;
    char digest[JOB_DIGEST_SIZE];
    bool wants_plan;
    struct json_object *plan; /* where it was wanted and is there */
};
int details_read_work(struct store_connection *connection, void *data, struct error *error);
void details_read_free(struct details_read *read);

/* Reads the job's details unless they are there, then asks for a decision. */
void job_details_load(struct jobs *jobs, struct job *job);
/* Whether any are being read. */
bool details_are_loading(const struct jobs *jobs);
void job_details_free(struct job_details *details);
/* What follows for a queued job when that fails: a failure says nothing of the job, so it waits and
 * is read again; only one whose specification is no specification any more (-EINVAL) fails. */
void job_details_unread(struct jobs *jobs, struct job *job, int result, const struct error *error);
