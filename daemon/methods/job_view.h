/* job_view.h: completes a Job that job_rows.h has read with what the loop knows about it. */
#pragma once

#include "daemon/context/context.h"
#include "proto/json.h"

/* Fills in the progress of a running job, or what a queued job waits for and when it is expected to
 * start. Runs on the loop. */
void job_view_add_progress(struct daemon *daemon, struct json_object *job);

/* Removes from a Job all that strangers may not see. They may see that it exists, where it is, and
 * since when. */
void job_view_hide(struct json_object *job);
