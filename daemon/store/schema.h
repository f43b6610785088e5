/* schema.h: the tables of both databases and the steps from one version to the next. */
#pragma once

#include "base/error.h"

#include <sqlite3.h>

enum store_file { STORE_CHECKPOINTS, STORE_JOBS, STORE_FILES };

/* The newest version of each file (PRAGMA user_version). */
int store_schema_version(enum store_file file);

int store_schema_read_version(sqlite3 *database, int *version, struct error *error);

/* Migrates the database at `path`, which may be an empty file, to the newest version. Each step is
 * one transaction. */
int store_schema_migrate(const char *path, enum store_file file, struct error *error);
