/* decision_view.h: converts a stored decision (jobs/candidates.h) to type Decision of io.traind. It
 * adds a sentence to every candidate, and says what must happen before a waiting job can start. */
#pragma once

#include "proto/json.h"

/* Takes `decision` over and returns the view, which the caller owns. `attempt` is the attempt that
 * the decision started, 0 for none. `waits`: the job still waits. */
struct json_object *decision_view(struct json_object *decision, int64_t attempt, bool waits);

/* The view for a job without a decision: why it has none, and what must happen first. `wait_reason`
 * is that of io.traind. */
struct json_object *decision_view_undecided(const char *wait_reason, const char *reason);
