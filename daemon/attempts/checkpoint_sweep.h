/* checkpoint_sweep.h: what an attempt that has ended leaves behind in its folder and nobody needs:
 * the copies of the checkpoints that it began from, files that were never finished or announced,
 * and those whose removal a crash of the daemon forgot.
 *
 * One folder after the other: a job may leave so many files that this takes a minute, and the
 * thread pool, on which everybody's submissions are checked, has only four threads. */
#pragma once

#include "daemon/store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct daemon;

/* A member of struct daemon. */
struct checkpoint_sweeps {
    bool under_way, stopped;
    struct checkpoint_sweep *first, **last; /* that wait; owned */
};

/* Removes the files of an attempt that has ended, whose spool is stored to the end, apart from its
 * log, its records and the checkpoints that are kept as files. */
void checkpoint_sweep(struct daemon *daemon, int64_t job, int64_t attempt);
/* At a start: sweeps those that are noted. */
void checkpoint_sweeps_resume(struct daemon *daemon);
/* Forgets those that wait. */
void checkpoint_sweeps_stop(struct daemon *daemon);
