/* plan_run.h: `traind-worker plan`, run by the user who asks: what a native job needs, without a
 * daemon. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* Runs the traind-worker beside this program for the specification and returns the plan,
 * which the caller owns. What traind-worker says about a specification or data that do
 * not fit is the sentence. */
/* `devices`: those of Devices' reply, or NULL: it is planned for their types too. */
int plan_run(struct json_object *spec, struct json_object *devices, struct json_object **plan,
             struct error *error);
