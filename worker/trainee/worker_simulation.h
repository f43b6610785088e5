/* worker_simulation.h: a simulated device, made of what --device-config says about it. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "worker/trainee/worker_calibration.h"
#include "worker/trainee/worker_options.h"

#include <stdbool.h>

/* What a simulated device is made of; it outlives the device. */
struct worker_simulation {
    bool simulated;
    char name[sizeof((struct backend_device_info *)0)->name];
    struct calibration speeds; /* of the simulated device */
    struct simulated_device_config config;
};

/* Reads --device-config for the device of that name, of which `config` becomes. It is as fast as
 * that says, in terms of this CPU's speeds: those of its `calibration`, of --calibration, those
 * that are kept, or else measured and kept now. -EINVAL with a sentence. */
int worker_simulation_configure(const struct worker_options *options, const char *name, int threads,
                                struct worker_simulation *simulation,
                                struct backend_device_config *config, struct error *error);
void worker_simulation_release(struct worker_simulation *simulation);
