/* decision_view.h: from a decision as it is stored (jobs/candidates.h) to type Decision of
 * io.traind: every candidate gets its sentence, a waiting job what has to happen. */
#pragma once

#include "proto/json.h"

/* Takes `decision` over and returns the view, which the caller owns. `attempt`: the one that it
 * started, 0 for none; `waits`: the job still waits. */
struct json_object *decision_view(struct json_object *decision, int64_t attempt, bool waits);

/* Of a job about which nothing is decided yet: why, and what has to happen. `wait_reason` as in
 * io.traind. */
struct json_object *decision_view_undecided(const char *wait_reason, const char *reason);
