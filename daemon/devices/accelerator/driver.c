/* driver.c: simulated accelerators, for tests of placement on devices whose arithmetic, memory
 * bandwidth and kernel launches are not in the CPU's proportion. The factors are the orders of
 * magnitude of a data-centre GPU compared with a server's processor: about 30 times the arithmetic,
 * 10 times the bandwidth, and 5 microseconds for each kernel. Speed and Bandwidth of a section
 * multiply them, and LaunchLatency adds to them; Memory is used as given. */
#include "daemon/devices/simulation.h"

static const double arithmetic = 30, bandwidth = 10, launch_seconds = 5e-6;

extern const struct device_driver device_driver_accelerator;

static struct simulation simulation_of(const struct device *device)
{
    const struct device_config *section = device->config;
    double factor = section->bandwidth > 0 ? section->bandwidth : section->speed;

    return (struct simulation){.speed = arithmetic * section->speed,
                               .bandwidth = bandwidth * factor,
                               .launch_seconds = launch_seconds + section->launch_seconds};
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

const struct device_driver device_driver_accelerator = {
    .kind = {.name = "accelerator", .naming = DEVICE_NAMED_BY_SECTION, .only_by_name = true},
    .configure = simulation_configure,
    .describe_type = describe_type,
    .measure = simulation_measure,
    .arguments = add_arguments,
    .step_seconds = step_seconds,
};
