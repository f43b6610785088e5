/* job_rows.h: rows of the store as the types of io.traind. The readers run on a storage thread;
 * what they make belongs to the caller, who may pass it on to the loop. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdint.h>
#include <sys/types.h>

/* The columns that job_row_read() takes, for the SELECT. */
#define JOB_COLUMNS                                                                            \
    "id, name, kind, state, user, uid, priority, device, reason, wait_reason, attempt, "       \
    "submitted, started, ended, exit_status, best_metric, best_value, best_step, best_epoch, " \
    "held, "                                                                                   \
    "job_group, sweep, pinned, "                                                               \
    "(SELECT sum(coalesce(attempt.ended, (julianday('now') - 2440587.5) * 86400) - "           \
    "attempt.started) FROM attempt WHERE attempt.job = job.id AND number > 0)"

/* A Job from the statement's present row, with the last value of each metric. Member `progress` is
 * null: job_view_add_progress() of methods/ has it, and the latest reason to wait. NULL with the
 * sentence. */
struct json_object *job_row_read(struct store_connection *connection, sqlite3_stmt *row,
                                 struct error *error);

/* The Job `id`. -ESRCH when there is none. */
int job_row_find(struct store_connection *connection, int64_t id, struct json_object **job,
                 struct error *error);

/* Whose the job is, or the sweep of which it is a point to come. 0: there is no such job. */
int job_owner_read(struct store_connection *connection, int64_t id, uid_t *owner,
                   struct error *error);

/* Columns as JSON; null stays null. */
void row_set_text(struct json_object *object, const char *key, sqlite3_stmt *row, int column);
void row_set_int(struct json_object *object, const char *key, sqlite3_stmt *row, int column);
void row_set_double(struct json_object *object, const char *key, sqlite3_stmt *row, int column);
/* A column of text as the JSON object that it holds, owned by the caller. NULL: null, or a damaged
 * row. */
struct json_object *row_read_object(sqlite3_stmt *row, int column);
