/* job_insert.h: from an entry to durable rows. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/work/job_entry.h"

/* On the writer: the rows of `count` jobs, all queued. Entries whose submission.id is not 0 get
 * that id, the others new ones. -ENOENT with a sentence when an entry waits for a job that is not
 * there: `*culprit` is the entry, `*missing` the job. */
int job_entries_insert(struct store_connection *connection, struct job_entry *entries, size_t count,
                       const char *user, double time, size_t *culprit, int64_t *missing,
                       struct error *error);
