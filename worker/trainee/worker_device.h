/* worker_device.h: the device that a command works with: by its name, and a simulated one by what
 * --device-config says about it. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "worker/trainee/worker_calibration.h"
#include "worker/trainee/worker_options.h"

#include <stdatomic.h>
#include <stdbool.h>

/* What a simulated device is made of; it outlives the device. */
struct worker_simulation {
    bool simulated;
    char name[sizeof((struct backend_device_info *)0)->name];
    struct calibration speeds; /* of the simulated device */
    struct simulated_device_config config;
};

struct worker_device {
    const struct backend *backend;
    struct backend_device *device; /* the caller closes it, then releases the simulation */
    struct backend_device_info info;
};

/* A device that is being opened; GPUs by a thread, as that takes a while. */
struct worker_device_opening {
    const struct worker_options *options;
    const char *name;
    int threads;
    const atomic_int *stop;
    struct opening_thread *thread; /* NULL: none. Owned, left to itself where it does not end */
    bool begun;
};

/* Begins to open the device as worker_device_open() would; `options` and `name` outlive it, and
 * `options` the process where worker_device_hangs(). When `stop`, which may be NULL, is set, a
 * client of MPS waits no longer. */
void worker_device_begin(const struct worker_options *options, const char *name, int threads,
                         const atomic_int *stop, struct worker_device_opening *opening);
/* Waits until it is open; the calling thread uses it from now on. What worker_device_open()
 * returns, and -EINTR where it is to stop. */
int worker_device_end(struct worker_device_opening *opening, struct worker_simulation *simulation,
                      struct worker_device *opened, struct error *error);
/* Closes what was begun and not ended; else nothing. */
void worker_device_abandon(struct worker_device_opening *opening);
/* Whether a thread still opens a device that nobody waits for: the process has to end by _exit(2),
 * as the driver's own functions for exit(3) would wait for it. */
bool worker_device_hangs(void);

/* Opens the device of that name, "auto" and "cpu" the CPU. A simulated one is as fast as its
 * configuration says, in terms of this CPU's speeds: those of the configuration's `calibration`, of
 * --calibration, those that are kept, or else measured and kept now. -ENODEV, -EINVAL with a
 * sentence. */
int worker_device_open(const struct worker_options *options, const char *name, int threads,
                       struct worker_simulation *simulation, struct worker_device *opened,
                       struct error *error);
void worker_simulation_release(struct worker_simulation *simulation);

/* worker_calibration_load(), or what a simulated device was told. */
int worker_device_calibration(const struct worker_options *options,
                              const struct worker_simulation *simulation,
                              const struct backend_device_info *info,
                              struct worker_calibration *calibration, struct error *error);
