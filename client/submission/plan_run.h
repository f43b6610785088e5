/* plan_run.h: runs `traind-worker plan` as the calling user, to learn what a native job needs
 * without a daemon. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* Runs the traind-worker beside this program for the specification and returns the plan,
 * which the caller owns. `devices`: from the reply of Devices, to plan for their types as well, or
 * NULL. On failure the sentence is traind-worker's own. */
int plan_run(struct json_object *spec, struct json_object *devices, struct json_object **plan,
             struct error *error);
