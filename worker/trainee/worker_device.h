/* worker_device.h: opens the device of a command by its name, or a simulated one as --device-config
 * describes it. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "worker/trainee/worker_calibration.h"
#include "worker/trainee/worker_options.h"
#include "worker/trainee/worker_simulation.h"

#include <stdatomic.h>
#include <stdbool.h>

struct worker_device {
    const struct backend *backend;
    struct backend_device *device; /* the caller closes it, then releases the simulation */
    struct backend_device_info info;
};

/* A device that is being opened. A thread opens a GPU, because that takes a while. */
struct worker_device_opening {
    const struct worker_options *options;
    const char *name;
    int threads;
    const atomic_int *stop;
    struct opening_thread *thread; /* owned, but abandoned if it does not end; NULL: none */
    bool begun;
};

/* Begins to open the device as worker_device_open() would. `options` and `name` must outlive the
 * opening; if worker_device_hangs(), `options` must live until the process ends. When `stop` (may
 * be NULL) is set, a client of MPS stops waiting. */
void worker_device_begin(const struct worker_options *options, const char *name, int threads,
                         const atomic_int *stop, struct worker_device_opening *opening);
/* Waits until the device is open; the calling thread uses it from then on. Returns what
 * worker_device_open() returns, or -EINTR if `stop` was set. */
int worker_device_end(struct worker_device_opening *opening, struct worker_simulation *simulation,
                      struct worker_device *opened, struct error *error);
/* Closes a device whose opening was begun and not ended; otherwise does nothing. */
void worker_device_abandon(struct worker_device_opening *opening);
/* Whether an abandoned thread still opens a device. The process must then end with _exit(2),
 * because the driver's exit(3) handlers would wait for that thread. */
bool worker_device_hangs(void);

/* Opens the device of that name; "auto" and "cpu" mean the CPU. The configuration of a simulated
 * device states its speed relative to this CPU's. The CPU's speeds come from the configuration's
 * `calibration`, --calibration, the cache, or a measurement made and kept now. -ENODEV, -EINVAL
 * with a sentence. */
int worker_device_open(const struct worker_options *options, const char *name, int threads,
                       struct worker_simulation *simulation, struct worker_device *opened,
                       struct error *error);

/* worker_calibration_load(), or the speeds of a simulated device. */
int worker_device_calibration(const struct worker_options *options,
                              const struct worker_simulation *simulation,
                              const struct backend_device_info *info,
                              struct worker_calibration *calibration, struct error *error);
