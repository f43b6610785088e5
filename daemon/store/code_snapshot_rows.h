/* code_snapshot_rows.h: which jobs, sweeps and schedules run which frozen code
 * (folder/code_snapshot.h). */
#pragma once

#include "base/error.h"
#include "daemon/folder/code_snapshot.h"

#include <stddef.h>
#include <stdint.h>

struct store_connection;

/* Reads which snapshots are in use, in ascending order; the caller frees `*uses`. */
int code_snapshot_uses_read(struct store_connection *connection, struct code_snapshot_use **uses,
                            size_t *count, struct error *error);

/* Reads the snapshot of a job; its id is "" if the job has none, or does not exist. */
int code_snapshot_of_job_read(struct store_connection *connection, int64_t job,
                              struct code_snapshot_use *use, struct error *error);
