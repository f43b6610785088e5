/* metric_pages.h: walks over the stored metrics of a job, page by page. */
#pragma once

#include "client/connection/connection.h"

/* Calls `take` with each page of the job's rows that lie behind `cursor`, oldest first, and the
 * cursor behind the page, until there are no more or it returns another status than
 * EXIT_STATUS_DONE. `names`: an array, borrowed; NULL: all metrics. */
enum exit_status metric_pages_walk(struct invocation *invocation, int64_t id,
                                   struct json_object *names, int64_t cursor,
                                   enum exit_status (*take)(void *context, struct json_object *rows,
                                                            int64_t cursor),
                                   void *context);

/* A `take` that appends the rows to `context`, a JSON array. */
enum exit_status metric_pages_append(void *context, struct json_object *rows, int64_t cursor);
