/* own_cores.h: gives each attempt of a command cores of its own. */
#pragma once

#include "proto/json.h"

struct attempt;

/* Take cores for a command that is about to start; find the cores of an attempt that an earlier
 * daemon started; give the attempt's cores back. */
void attempt_take_cores(struct attempt *attempt, struct json_object *spec, int threads);
void attempt_find_cores(struct attempt *attempt);
void attempt_leave_cores(struct attempt *attempt);
