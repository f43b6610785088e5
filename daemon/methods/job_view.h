/* job_view.h: a Job, as job_rows.h reads it, with what the loop knows of it. */
#pragma once

#include "daemon/context/context.h"
#include "proto/json.h"

/* On the loop: fills in how far a running job is, what a queued one waits for, and when that is
 * expected to start. */
void job_view_add_progress(struct daemon *daemon, struct json_object *job);

/* Leaves of a Job what a stranger may know of it: that it is there, where, and since when. */
void job_view_hide(struct json_object *job);
