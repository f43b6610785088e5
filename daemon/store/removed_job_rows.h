/* removed_job_rows.h: the rows of table removed_job: removed jobs whose folders must still be
 * deleted. */
#pragma once

#include "daemon/store/store.h"

#include <stddef.h>

/* Notes the job. Runs within the transaction that removes it. */
int removed_job_note(struct store_connection *connection, int64_t job, struct error *error);
/* Reads the first `limit` noted jobs behind the job `after`, ascending. `*count` is how many. */
int removed_jobs_read(struct store_connection *connection, int64_t after, size_t limit,
                      int64_t *jobs, size_t *count, struct error *error);
/* Deletes the note after the job's folders were deleted. */
int removed_job_forget(struct store_connection *connection, int64_t job, struct error *error);
