/* sweep_changes.h: cancels, holds and releases a whole sweep, including points that have no row
 * yet. The sweep's own row records the change for those points; jobs in memory change one by
 * one. */
#pragma once

#include "daemon/jobs/jobs.h"

/* Cancels the sweep. Points without a row never get one; points in memory are cancelled one by one.
 * -ERROR_NO_SUCH_JOB: nothing was left to cancel. */
void sweep_cancel(struct daemon *daemon, int64_t first_job, jobs_done done, void *data);
/* Holds or releases the queued points of the sweep, including those without a row.
 * -ERROR_NO_SUCH_JOB: no point is queued. */
void sweep_hold(struct daemon *daemon, int64_t first_job, bool held, jobs_done done, void *data);
