/* driver.c: simulated devices, whose speed a section of the configuration sets. */
#include "daemon/devices/simulation.h"

static struct simulation simulation_of(const struct device *device)
{
    return (struct simulation){device->config->speed, device->config->bandwidth,
                               device->config->launch_seconds};
}

static void describe_type(const struct device *device, char *text, size_t size)
{
    const struct simulation simulation = simulation_of(device);

    simulation_describe(&simulation, text, size);
}

static void add_arguments(const struct device *device, uint64_t memory_booked,
                          struct json_object *arguments)
{
    const struct simulation simulation = simulation_of(device);

    (void)memory_booked;
    simulation_add_arguments(device, &simulation, arguments);
}

static double step_seconds(const struct device *device, double seconds, double kernels)
{
    const struct simulation simulation = simulation_of(device);

    return simulation_seconds(&simulation, seconds, kernels);
}

const struct device_driver device_driver_simulated = {
    .kind = {.name = "simulated", .naming = DEVICE_NAMED_BY_SECTION, .only_by_name = true},
    .configure = simulation_configure,
    .describe_type = describe_type,
    .measure = simulation_measure,
    .arguments = add_arguments,
    .step_seconds = step_seconds,
};
