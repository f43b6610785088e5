/* driver.c: simulated accelerators, for tests of placement on devices whose arithmetic, memory
 * bandwidth and kernel launches are not in the CPU's proportion. The factors are the orders of
 * magnitude of a data-centre GPU compared with a server's processor: about 30 times the arithmetic,
 * 10 times the bandwidth, and 5 microseconds for each kernel. Speed and Bandwidth of a section
 * multiply them, and LaunchLatency adds to them; Memory is used as given. */
#include "daemon/devices/simulation.h"

extern const struct device_driver device_driver_accelerator;

static const struct simulation accelerator = {.speed = 30, .bandwidth = 10, .launch_seconds = 5e-6};

const struct device_driver device_driver_accelerator = {
    .kind = {.name = "accelerator", .naming = DEVICE_NAMED_BY_SECTION, .only_by_name = true},
    .simulation = &accelerator,
    .configure = simulation_configure,
    .describe_type = simulation_describe_type,
    .measure = simulation_measure,
    .arguments = simulation_add_arguments,
    .step_seconds = simulation_step_seconds,
};
