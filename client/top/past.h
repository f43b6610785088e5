/* past.h: what the daemon has sampled of the devices before top began, for their curves. */
#pragma once

#include "client/connection/connection.h"
#include "client/top/measurements.h"

/* Puts the last hour before `now` of each of the devices, a list of the daemon's, into the
 * measurements. An older daemon keeps none: then curves begin now. */
void past_load(struct invocation *invocation, struct json_object *devices, double now,
               struct measurements *measurements);
