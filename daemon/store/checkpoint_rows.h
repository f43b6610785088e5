/* checkpoint_rows.h: inserts the rows of checkpoints, drops those that they replace, and reports
 * checkpoints that are refused. Everything runs on the writer's thread, within the request of a
 * spool. */
#pragma once

#include "daemon/store/spool_store.h"

/* Notes a file that is no longer needed. It is removed once the request is committed. */
int checkpoint_obsolete_add(struct spool_store *request, int64_t attempt, const char *path);

/* Drops the checkpoint with that row id. */
int checkpoint_drop(struct store_connection *connection, struct spool_store *request, int64_t id,
                    struct error *error);

/* Drops the attempt's checkpoints whose file is `path`. */
int checkpoint_row_drop(struct store_connection *connection, struct spool_store *request,
                        const char *path, struct error *error);

/* Drops the checkpoints of `job` that a new one of this step replaces. */
int checkpoint_predecessors_drop(struct store_connection *connection, struct spool_store *request,
                                 int64_t job, int64_t step, bool best, struct error *error);

/* Inserts a row for `job`, which is negative while the content is being copied. */
int checkpoint_row_insert(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, int64_t job, bool in_database,
                          int64_t *id, struct error *error);

/* Drops checkpoints of earlier attempts beyond the number that the job keeps. */
int checkpoint_earlier_retain(struct store_connection *connection, struct spool_store *request,
                              struct error *error);

/* Reports to the user and in the log why a checkpoint was refused, at most SPOOL_COMPLAINTS_MAX
 * times for one attempt. */
int checkpoint_complain(struct store_connection *connection, struct spool_store *request,
                        const struct spool_record *record, const char *why, struct error *error);

/* Clears the mark `best` from all checkpoints of the job that are not of `step`: a job has only one
 * best step. */
int checkpoints_best_clear(struct store_connection *connection, int64_t job, int64_t step,
                           struct error *error);
