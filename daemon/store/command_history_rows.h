/* command_history_rows.h: the rows of table command_history. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/work/command_history.h"

enum {
    COMMAND_HISTORY_ROWS_MAX = 1000,  /* of one user */
    COMMAND_HISTORY_NEWEST = 200,     /* of these, which stay however seldom they ran */
    COMMAND_HISTORY_DELETES_MAX = 200 /* at once: nobody else writes meanwhile */
};

/* On the writer, in the transaction that stores the end of `job`: adds the run to the history. Of
 * more rows than COMMAND_HISTORY_ROWS_MAX of its owner the surplus is forgotten, at most
 * COMMAND_HISTORY_DELETES_MAX with each command that is new: the rows of the fewest runs that ended
 * well, and of these the oldest. The COMMAND_HISTORY_NEWEST that were added last stay. */
int command_history_store(struct store_connection *connection, int64_t job, const char *device_type,
                          const struct command_run *run, struct error *error);

/* Reads one row for each type of device. Returns how many, or a negative errno. */
int command_history_read(struct store_connection *connection, uid_t uid, const char *digest,
                         struct command_history_row rows[COMMAND_HISTORY_TYPES_MAX],
                         struct error *error);

/* Passes each row of a command that a live job runs to `take`, with the first such job, in the
 * order of the jobs' ids. `take` returns 0 or -ENOMEM. */
int command_histories_live_read(struct store_connection *connection,
                                int (*take)(void *data, int64_t job,
                                            const struct command_history_row *row),
                                void *data, struct error *error);
