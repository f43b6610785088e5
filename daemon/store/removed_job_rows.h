/* removed_job_rows.h: the rows of table removed_job: jobs that were removed while their folders are
 * still to go. */
#pragma once

#include "daemon/store/store.h"

#include <stddef.h>

/* Within the transaction that removes the job. */
int removed_job_note(struct store_connection *connection, int64_t job, struct error *error);
/* The first `limit` that are noted behind the job `after`, ascending: `*count` of them. */
int removed_jobs_read(struct store_connection *connection, int64_t after, size_t limit,
                      int64_t *jobs, size_t *count, struct error *error);
/* Its folders are gone. */
int removed_job_forget(struct store_connection *connection, int64_t job, struct error *error);
