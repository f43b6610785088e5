/* worker_calibration.h: the measured speeds of a device as a JSON file, kept in the user's cache
 * (worker_kept.h). */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/train/calibration.h"
#include "proto/json.h"

#include <limits.h>

struct worker_calibration {
    bool known;
    char path[PATH_MAX]; /* of the file with the speeds */
    struct calibration speeds;
};

/* Loads the calibration from the file at `path`. With `path` NULL, loads the one kept for the
 * device that `info` describes; if there is none or it is unreadable, that is no error and `known`
 * is false. The caller releases it. */
int worker_calibration_load(const char *path, const struct backend_device_info *info,
                            struct worker_calibration *calibration, struct error *error);
/* Measures the device. `keep`: also stores the speeds in the cache if that is writable. */
int worker_calibration_measure(const struct backend *backend, struct backend_device *device,
                               bool keep, struct worker_calibration *calibration,
                               struct error *error);
/* Memory that measuring needs, generously. */
enum { WORKER_CALIBRATION_BYTES = 400 * 1024 * 1024 };
/* Whether a profiled run must measure the device first: no calibration is kept, and the memory
 * limit (0: none) allows it. Never for a GPU, where measuring needs more memory than most jobs. */
bool worker_calibration_is_due(const struct backend_device_info *info, uint64_t memory_limit);
/* Reads what worker_calibration_json() makes; flops_per_second and bytes_per_second suffice. */
int worker_calibration_read(struct json_object *json, struct calibration *speeds,
                            struct error *error);
void worker_calibration_release(struct worker_calibration *calibration);

/* Makes the content of a calibration file. */
struct json_object *worker_calibration_json(const struct backend_device_info *info,
                                            const struct calibration *speeds);
