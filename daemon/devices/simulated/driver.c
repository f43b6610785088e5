/* driver.c: simulated devices, whose speed a section of the configuration sets. */
#include "daemon/devices/simulation.h"

static const struct simulation cpu = {.speed = 1, .bandwidth = 1};

const struct device_driver device_driver_simulated = {
    .kind = {.name = "simulated", .naming = DEVICE_NAMED_BY_SECTION, .only_by_name = true},
    .simulation = &cpu,
    .configure = simulation_configure,
    .describe_type = simulation_describe_type,
    .measure = simulation_measure,
    .arguments = simulation_add_arguments,
    .step_seconds = simulation_step_seconds,
};
