/* checkpoint_sweep.h: removes the useless files that an ended attempt leaves in its folder: copies
 * of the checkpoints that it began from, checkpoints that were never finished or announced, and
 * files that a crash of the daemon kept from being removed.
 *
 * One folder is swept at a time. A job may leave so many files that this takes a minute, and the
 * thread pool, which also checks submissions, has only four threads. */
#pragma once

#include "daemon/store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct daemon;

/* A member of struct daemon. */
struct checkpoint_sweeps {
    bool under_way, stopped;
    struct checkpoint_sweep *first, **last; /* the waiting ones; owned */
};

/* Removes all files of an ended attempt but its log, its records and the checkpoints that are kept
 * as files. Its spool must be stored to the end. */
void checkpoint_sweep(struct daemon *daemon, int64_t job, int64_t attempt);
/* When the daemon starts: sweeps the attempts that the database notes as unswept. */
void checkpoint_sweeps_resume(struct daemon *daemon);
/* Drops the waiting sweeps; the next start makes them. */
void checkpoint_sweeps_stop(struct daemon *daemon);
