/* job_edit_rows.h: stores edits of jobs, and reads which there were. An edit is a transition from a
 * state to itself. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/work/job_edit.h"
#include "proto/json.h"

#include <stdint.h>
#include <sys/types.h>

/* Stores the job as it will be, and that `uid`, whose name is `user` (or NULL), edited it. -EBUSY:
 * the job has ended. */
int job_edit_store(struct store_connection *connection, int64_t id, const struct job_edit *edit,
                   uid_t uid, const char *user, double time, struct error *error);

/* Adds a Transition of io.traind for each of the job's latest 100 edits, oldest first. */
int job_edits_read(struct store_connection *connection, int64_t id, struct json_object *edits,
                   struct error *error);
