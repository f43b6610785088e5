/* job_pages.h: walks over all jobs that a call of List finds, page by page. */
#pragma once

#include "client/connection/connection.h"

/* Calls `visit` for each job, the newest first, until it returns false or no job is left. `filter`
 * holds parameters of List and is taken over; its `before` begins the walk below that number. NULL:
 * all jobs that the caller may see. */
enum exit_status job_pages_walk(struct invocation *invocation, struct json_object *filter,
                                bool (*visit)(void *context, struct json_object *job),
                                void *context);
