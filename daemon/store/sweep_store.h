/* sweep_store.h: the rows of table sweep, as submission and a restart need them. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "daemon/work/sweep.h"

/* On the writer: reserves ids and stores the row; fills in first_job. */
int sweep_insert(struct store_connection *connection, struct sweep *sweep, const char *name,
                 enum job_kind kind, int priority, struct error *error);

/* On a storage thread: hands each sweep that may still make points, or has points that have not
 * ended, to `take`, which takes it over and answers 0 or -ENOMEM. */
int sweeps_read(struct store_connection *connection, int (*take)(void *data, struct sweep *sweep),
                void *data, struct error *error);
