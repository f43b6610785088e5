/* job_insert.h: stores submitted jobs as rows. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/work/job_entry.h"

/* Why a queued job waits that has not been looked at yet, with dependencies left out. */
void job_first_reason(const struct job_submission *submission, double time,
                      enum wait_reason *wait_reason, char sentence[JOB_REASON_MAX]);

/* On the writer: inserts the rows of `count` jobs, all queued. An entry whose submission.id is 0
 * gets a new id. -ENOENT with a sentence if an entry waits for a job that does not exist:
 * `*culprit` is the entry, `*missing` the job. */
int job_entries_insert(struct store_connection *connection, struct job_entry *entries, size_t count,
                       const char *user, double time, size_t *culprit, int64_t *missing,
                       struct error *error);
