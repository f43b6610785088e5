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
    char path[PATH_MAX]; /* of the file that it comes from */
    struct calibration speeds;
};

/* The calibration in the file at `path`; with NULL, the one that is kept of the device as `info`
 * describes it, or none, which is no error (nor is one that cannot be read). The caller releases
 * it. */
int worker_calibration_load(const char *path, const struct backend_device_info *info,
                            struct worker_calibration *calibration, struct error *error);
/* Measures the device; `keep`: for those who come later, where the cache can be written. */
int worker_calibration_measure(const struct backend *backend, struct backend_device *device,
                               bool keep, struct worker_calibration *calibration,
                               struct error *error);
/* What measuring takes, with room to spare. */
enum { WORKER_CALIBRATION_BYTES = 400 * 1024 * 1024 };
/* Whether a profiled run has to measure the device first: nothing is kept of it, and the memory
 * limit (0: none) allows it. Of a GPU it does not: that takes more memory than most jobs do. */
bool worker_calibration_is_due(const struct backend_device_info *info, uint64_t memory_limit);
/* Reads what worker_calibration_json() makes; flops_per_second and bytes_per_second suffice. */
int worker_calibration_read(struct json_object *json, struct calibration *speeds,
                            struct error *error);
void worker_calibration_release(struct worker_calibration *calibration);

/* What a file holds. */
struct json_object *worker_calibration_json(const struct backend_device_info *info,
                                            const struct calibration *speeds);
