/* checkpoint_files.h: checkpoints that stay files in the attempt's folder because they are larger
 * than the database may hold (DatabaseLimit). */
#pragma once

#include "daemon/store/spool_store.h"

/* Whether most of the file is holes. Copying such a file would write many more bytes than its user
 * wrote. */
bool checkpoint_file_has_holes(int file, const struct stat *status);

/* Stores a row for the record's file. Refuses a path that is not in its plain form, and a file for
 * which a row exists already. */
int checkpoint_file_keep(struct store_connection *connection, struct spool_store *request,
                         const struct spool_record *record, const struct stat *status,
                         struct error *error);
