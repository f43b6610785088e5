/* own_cores.h: the cores that an attempt of a command keeps to. */
#pragma once

#include "proto/json.h"

struct attempt;

/* Takes cores for a command that is to be started; those of one that was found again; and gives
 * them back. */
void attempt_take_cores(struct attempt *attempt, struct json_object *spec, int threads);
void attempt_find_cores(struct attempt *attempt);
void attempt_leave_cores(struct attempt *attempt);
