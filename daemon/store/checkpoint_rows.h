/* checkpoint_rows.h: the rows of checkpoints: a new one, those that it replaces, and what is said
 * of one that is not taken. All of it runs on the writer's thread, in the request of a spool. */
#pragma once

#include "daemon/store/spool_store.h"

/* Notes a file that is not needed any more: it goes once the request is committed. */
int checkpoint_obsolete_add(struct spool_store *request, int64_t attempt, const char *path);

/* Drops the one of that row. */
int checkpoint_drop(struct store_connection *connection, struct spool_store *request, int64_t id,
                    struct error *error);

/* Drops those of the attempt that stand for the file `path`. */
int checkpoint_row_drop(struct store_connection *connection, struct spool_store *request,
                        const char *path, struct error *error);

/* Drops what a checkpoint of this step of `job` takes the place of. */
int checkpoint_predecessors_drop(struct store_connection *connection, struct spool_store *request,
                                 int64_t job, int64_t step, bool best, struct error *error);

/* A row for `job`, which is negative while its content is being copied. */
int checkpoint_row_insert(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, int64_t job, bool in_database,
                          int64_t *id, struct error *error);

/* Drops those of earlier attempts that are beyond what the job keeps. */
int checkpoint_earlier_retain(struct store_connection *connection, struct spool_store *request,
                              struct error *error);

/* Says why a checkpoint was not taken, to the user and in the log: so often for one attempt. */
int checkpoint_complain(struct store_connection *connection, struct spool_store *request,
                        const struct spool_record *record, const char *why, struct error *error);

/* Only one checkpoint of a job is the best: no other than that of `step` is any more. */
int checkpoints_best_clear(struct store_connection *connection, int64_t job, int64_t step,
                           struct error *error);
