/* calibration.h: how fast a device calculates and moves memory, measured with its own operators. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

struct calibration {
    double flops_per_second; /* float32 matrix product, 1024 x 1024 x 1024 */
    double bytes_per_second; /* an activation over 128 MiB, read and written */
    double kernel_seconds;   /* the least that one operator takes */
};

/* Takes about a second. */
int calibration_measure(const struct backend *backend, struct backend_device *device,
                        struct calibration *calibration, struct error *error);
