/* device_view.h: a device as io.traind shows it. */
#pragma once

#include "daemon/daemon.h"
#include "proto/json.h"

/* A Device of io.traind, from memory alone; what was measured is as old as the last measurement. */
struct json_object *device_describe(const struct daemon *daemon, const struct device *device);
