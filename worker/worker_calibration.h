/* worker_calibration.h: the measured speeds of a device as an object, and where they are kept: in
 * the user's cache ($XDG_CACHE_HOME/traind, else ~/.cache/traind), one file for each device and
 * number of threads. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "proto/json.h"

/* The calibration in the file at `path`; with NULL, the one that is kept of the device as `info`
 * describes it, or none (*calibration NULL), which is no error. */
int worker_calibration_load(const char *path, const struct backend_device_info *info,
                            struct json_object **calibration, struct error *error);
/* Measures the device; `keep`: for those who come later, where the cache can be written. */
int worker_calibration_measure(const struct backend *backend, struct backend_device *device,
                               bool keep, struct json_object **calibration, struct error *error);
