/* checkpoint_files.h: checkpoints that stay files in the attempt's folder, because they are larger
 * than what the database takes (DatabaseLimit). */
#pragma once

#include "daemon/store/spool_store.h"

/* Whether most of the file is not on the disk: copying it would write what its user never wrote. */
bool checkpoint_file_has_holes(int file, const struct stat *status);

/* Stores a row for the file of the record, if its path can be told from those of others and no
 * other row stands for what is in it. */
int checkpoint_file_keep(struct store_connection *connection, struct spool_store *request,
                         const struct spool_record *record, const struct stat *status,
                         struct error *error);
