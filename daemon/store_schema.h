/* store_schema.h: the tables of both databases and the steps from one version to the next. */
#pragma once

#include "base/error.h"

#include <sqlite3.h>

enum store_file { STORE_CHECKPOINTS, STORE_JOBS, STORE_FILES };

/* The newest version of each file (PRAGMA user_version). */
int store_schema_version(enum store_file file);

/* Brings the database `name` ("main", "traind") of the connection from its version to the newest,
 * each step in a transaction. */
int store_schema_migrate(sqlite3 *database, const char *name, enum store_file file,
                         struct error *error);
