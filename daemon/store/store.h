/* store.h: the only way to disk for the daemon's state.
 *
 * Three threads own one SQLite connection each. All use the same pair of databases (WAL,
 * synchronous=FULL, foreign keys on).
 *
 *   The writer runs all queued requests in one transaction and commits once (group commit).
 *   Requests that arrive meanwhile join the next transaction. A request's `done` runs on the loop
 *   once that COMMIT is on disk, so what a caller is told is still true after a power cut.
 *
 *   The reader answers queries on a read-only connection and does the other blocking reads (logs).
 *   A second reader takes those queries that may overtake others.
 *
 * Each write request runs in a savepoint of its own, so a request that fails does not undo the
 * others. Requests of one kind run in the order in which they were submitted, and so do their
 * `done`s. A read that is submitted from a `done` sees what that request wrote.
 *
 * checkpoints.db is the connection's main database, and traind.db is attached as `traind`. Table
 * names are unique, so SQL needs no prefix. A WAL transaction over two files commits one file after
 * the other, in this order. So the rows of checkpoints.db are on disk before the spool offset in
 * traind.db that covers them. After a crash between the two, the record is ingested again and
 * replaces those rows. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct store;
/* Belongs to a storage thread and is valid only inside `work`, which passes it to the functions of
 * store/…_rows.h. Those contain the SQL. */
struct store_connection;

/* Runs on a storage thread and uses only `data` and the connection. Returns 0 or a negative errno
 * with a sentence; a failure undoes this request's own changes. */
typedef int (*store_work)(struct store_connection *connection, void *data, struct error *error);
/* Runs on the loop. `result` is 0 (the changes are durable), the errno that `work` returned, or the
 * errno of the commit. */
typedef void (*store_done)(void *data, int result, const struct error *error);

/* Called with a sentence every few seconds while opening takes long. */
typedef void (*store_progress)(const char *sentence);

/* Opens, checks and migrates the databases. It locks nothing: the caller holds the lock on the
 * folder. After an unclean end both files are checked thoroughly first. -ERROR_DAMAGED for a
 * damaged database, -ERROR_OTHER_VERSION for one of a newer traind; then the files stay unchanged
 * and the sentence holds the commands to recover. `progress` may be NULL. */
int store_open(uv_loop_t *loop, const char *directory, store_progress progress,
               struct store **store, struct error *error);

/* Finishes the queued requests, runs their `done`s, marks the clean end and frees the store. It
 * blocks, so call it only when the program ends. The next turn of the loop frees the memory. NULL
 * is allowed. */
void store_close(struct store *store);

/* Submits a request to the writer or to the reader. Never fails and never blocks. `data` must live
 * until `done`, which may be NULL. Callers limit what they submit: one call in flight per
 * connection, one batch in flight per spool. */
void store_write(struct store *store, store_work work, store_done done, void *data);
void store_read(struct store *store, store_work work, store_done done, void *data);
/* Like store_read(), for long queries that nothing else depends on: two may run at once, and other
 * reads, submitted before or after, may overtake them. One alone holds up no other read. */
void store_read_beside(struct store *store, store_work work, store_done done, void *data);
/* Like store_write(), for a change that no caller waits for. It joins the next transaction, which
 * begins within 10 ms. It keeps its place in the order. */
void store_write_soon(struct store *store, store_work work, store_done done, void *data);

/* Like store_write(), for long work. The writer takes a few of these requests at a time, so that
 * other requests do not wait for many of them. `cost` is the number of rows that the work writes,
 * or an equivalent time. The request runs after all earlier ones, but later ones of the other kinds
 * may overtake it. */
void store_write_bulk(struct store *store, unsigned cost, store_work work, store_done done,
                      void *data);

/* Submitted requests whose `done` has not run. */
size_t store_pending(const struct store *store);

/* Whether the last write failed because the disk was full. */
bool store_disk_is_full(struct store *store);
