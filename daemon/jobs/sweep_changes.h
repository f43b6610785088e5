/* sweep_changes.h: ends, holds and releases a sweep as a whole, points that are no rows yet
 * included. The sweep's row says what becomes of those; jobs of it that are in memory change one by
 * one. */
#pragma once

#include "daemon/jobs/jobs.h"

/* Ends the sweep: what is no row yet never becomes one, whatever its number; points in memory are
 * cancelled one by one. -ERROR_NO_SUCH_JOB when nothing was left to cancel. */
void sweep_cancel(struct daemon *daemon, int64_t first_job, jobs_done done, void *data);
/* Holds or releases what is queued of it, points to come included. -ERROR_NO_SUCH_JOB when that is
 * nothing. */
void sweep_hold(struct daemon *daemon, int64_t first_job, bool held, jobs_done done, void *data);
