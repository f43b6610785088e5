/* connection.h: one SQLite connection over both databases; for store/ alone. */
#pragma once

#include "daemon/store/schema.h"
#include "daemon/store/store.h"

#include <sqlite3.h>

enum store_access { STORE_READ_WRITE, STORE_READ_ONLY };

/* Opens checkpoints.db of `directory` and attaches traind.db; both must exist
 * in the newest schema. */
int store_connection_open(const char *directory, enum store_access access,
                          struct store_connection **connection, struct error *error);
void store_connection_close(struct store_connection *connection);

/* The handle of both databases, for calls that no statement covers. */
sqlite3 *store_database(struct store_connection *connection);

/* Translates the last failure into an errno and a sentence: -ENOSPC disk full, -EIO, -ERROR_DAMAGED
 * damaged, -EEXIST a violated constraint, and others. */
int store_error(sqlite3 *database, struct error *error);

/* Prepares the SQL, or returns the statement prepared earlier for it. The cache's key is the
 * address, so `sql` must be a constant. The connection owns the statement. 0 or negative errno. */
int store_connection_prepare(struct store_connection *connection, const char *sql,
                             sqlite3_stmt **statement, struct error *error);

/* Runs a constant statement through the cache. */
int store_connection_run(struct store_connection *connection, const char *sql, struct error *error);

/* Pages in the write-ahead logs of both files since they were last copied back (checkpointed). */
int store_connection_log_pages(const struct store_connection *connection);
/* Copies the logs back into the databases, as far as readers allow (SQLITE_CHECKPOINT_PASSIVE). */
void store_connection_fold_log(struct store_connection *connection);

/* Creates the files of a new folder. Checks existing files before anything writes to them,
 * thoroughly after an unclean end, and migrates them. prepare.c has the details. */
int store_prepare(const char *directory, store_progress progress, struct error *error);

/* "<directory>/traind.db", malloc'd. */
char *store_file_path(const char *directory, enum store_file file);
