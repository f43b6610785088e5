/* worker_devices.h: the devices that this machine's backends can open. */
#pragma once

#include "proto/json.h"
#include "worker/trainee/worker_options.h"

/* {"devices": [{"device", "trains", and either "reason" or the device's description}]}: of all
 * kinds, or --device alone. The caller owns it. */
struct json_object *worker_devices_new(const struct worker_options *options);
