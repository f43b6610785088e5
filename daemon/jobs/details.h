/* details.h: the parts of a job's specification that its start needs. They are read from the store
 * shortly before the start, because keeping them for every waiting job would take too much
 * memory. */
#pragma once

#include "base/error.h"
#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

struct job;
struct job_details;
struct jobs;

void details_start(struct jobs *jobs);

/* A read of a job's specification, and its results. */
struct details_read {
    struct jobs *jobs;
    int64_t id;
    struct job_details *details;
    char digest[JOB_DIGEST_SIZE];
    bool wants_plan;
    struct json_object *plan; /* NULL: it was not wanted, or there is none */
};
int details_read_work(struct store_connection *connection, void *data, struct error *error);
void details_read_free(struct details_read *read);

/* Has the job's details read unless they are in memory already, and then makes a decision due. */
void job_details_load(struct jobs *jobs, struct job *job);
/* Begins to read what job_details_load() was asked for. */
void details_read_gathered(struct jobs *jobs);
/* Whether the details of any job are being read. */
bool details_are_loading(const struct jobs *jobs);
void job_details_free(struct job_details *details);
/* Handles a failed read for a queued job. A damaged specification (-EINVAL) fails the job. Any
 * other error says nothing about the job, so the job waits and its specification is read again. */
void job_details_unread(struct jobs *jobs, struct job *job, int result, const struct error *error);
