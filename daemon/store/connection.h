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

/* Both databases, for what statements do not cover. */
sqlite3 *store_database(struct store_connection *connection);

/* Turns the last failure into an errno (-ENOSPC disk full, -EIO, -ERROR_DAMAGED damaged, -EEXIST
 * constraint, …) and a sentence. */
int store_error(sqlite3 *database, struct error *error);

/* The prepared statement of a constant, which is kept by address; prepared once. It belongs to the
 * connection. 0 or negative errno. */
int store_connection_prepare(struct store_connection *connection, const char *sql,
                             sqlite3_stmt **statement, struct error *error);

/* Runs a constant statement through the cache. */
int store_connection_run(struct store_connection *connection, const char *sql, struct error *error);

/* Pages in the write-ahead log of each file since it was last folded back. */
int store_connection_log_pages(const struct store_connection *connection);
/* Folds the logs back into the databases as far as readers allow. */
void store_connection_fold_log(struct store_connection *connection);

/* Makes the files of a fresh folder; checks those of a used one before anything writes to them
 * (through and through after an unclean end) and migrates them. prepare.c has the details. */
int store_prepare(const char *directory, store_progress progress, struct error *error);

/* "<directory>/traind.db", malloc'd. */
char *store_file_path(const char *directory, enum store_file file);
