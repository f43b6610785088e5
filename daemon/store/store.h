/* store.h: the only way to disk for the daemon's state.
 *
 * Two threads own one SQLite connection each, both over the same pair of databases (WAL,
 * synchronous=FULL, foreign keys on):
 *
 *   the writer takes everything that is queued, runs it in one transaction and commits once (group
 *   commit); requests that arrive meanwhile join the next transaction. A request's `done` runs on
 *   the loop after that COMMIT is on disk: what a caller is told is true after a power cut;
 *
 *   the reader answers queries on a read-only connection and does the other blocking reads (logs).
 *
 * Each write request runs in a savepoint of its own, so one that fails takes nothing of its
 * neighbours with it. Requests of one kind run in the order in which they were handed in, and their
 * `done` in that order too. A read handed in from a `done` sees what that request wrote.
 *
 * checkpoints.db is the connection's main database and traind.db is attached as `traind`: table
 * names are unique, so plain names work in SQL. A WAL transaction over two files commits file by
 * file, in this order; so the rows of checkpoints.db are there before the spool offset in traind.db
 * that says so, and whoever ingests a record again after a crash in between replaces them. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct store;
/* Lives on a storage thread and is valid inside `work` only: it is handed to the functions of
 * store/…_rows.h, which have the SQL. */
struct store_connection;

/* Runs on a storage thread: touches nothing but `data` and the connection. 0 or negative errno with
 * a sentence; a failure undoes this request's own changes. */
typedef int (*store_work)(struct store_connection *connection, void *data, struct error *error);
/* Runs on the loop. `result` is 0 (durable), what `work` answered, or the error of the commit. */
typedef void (*store_done)(void *data, int result, const struct error *error);

/* Told every few seconds of an opening that takes long: a sentence. */
typedef void (*store_progress)(const char *sentence);

/* Opens, checks, migrates and locks nothing: the caller holds the lock on the folder. After an
 * unclean end both files are checked first. -ERROR_DAMAGED for a damaged database,
 * -ERROR_OTHER_VERSION for one of a newer traind: the files stay untouched and the sentence holds
 * the commands to recover. `progress` may be NULL. */
int store_open(uv_loop_t *loop, const char *directory, store_progress progress,
               struct store **store, struct error *error);

/* Finishes what is queued, runs the outstanding `done`s, marks the clean end, frees. Blocks; only
 * for the end of the program. The memory goes with the next turn of the loop. NULL is allowed. */
void store_close(struct store *store);

/* Hands a request to the writer, to the reader. Never fails and never blocks; `data` must live
 * until `done`. `done` may be NULL. Callers bound what they hand in: one call in flight per
 * connection, one batch in flight per spool. */
void store_write(struct store *store, store_work work, store_done done, void *data);
void store_read(struct store *store, store_work work, store_done done, void *data);
/* store_write() of something that nobody waits for: it goes with the next transaction, which comes
 * within 10 ms. Order counts all the same. */
void store_write_soon(struct store *store, store_work work, store_done done, void *data);

/* store_write() of what may be long: the writer takes a few of these at a time, so that nobody else
 * waits for many of them. `cost` is the number of rows that the work writes, or what takes as long.
 * It runs after all that was handed in before, but others that are handed in later overtake it. */
void store_write_bulk(struct store *store, unsigned cost, store_work work, store_done done,
                      void *data);

/* Requests handed in whose `done` has not run. */
size_t store_pending(const struct store *store);

/* Whether the disk was full when something was to be written last. */
bool store_disk_is_full(struct store *store);
