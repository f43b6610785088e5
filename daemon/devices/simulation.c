/* simulation.c: see simulation.h. */
#include "daemon/devices/simulation.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void simulation_configure(struct device *device, const struct config *config)
{
    (void)config;
    device->slots = 1;
    device->memory_total = device->config->memory;
}

/* The driver's speeds with what the device's section makes of them. */
static struct simulation simulation_of(const struct device *device)
{
    const struct simulation *kind = device->driver->simulation;
    const struct device_config *section = device->config;
    double factor = section->bandwidth > 0 ? section->bandwidth : section->speed;

    return (struct simulation){.speed = kind->speed * section->speed,
                               .bandwidth = kind->bandwidth * factor,
                               .launch_seconds = kind->launch_seconds + section->launch_seconds};
}

void simulation_describe_type(const struct device *device, char *text, size_t size)
{
    struct simulation simulation = simulation_of(device);

    snprintf(text, size, "simulated %gx, memory %gx, %g s a launch", simulation.speed,
             simulation.bandwidth, simulation.launch_seconds);
}

/* Reads the start of a small file. Returns the bytes read, 0 if there is no file. */
static size_t read_start(const char *path, char *text, size_t size)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = file < 0 ? 0 : read(file, text, size - 1);

    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* Reads what others hold from a file with a number, at most the device's memory. Text that is not a
 * number is logged once. */
bool simulation_measure(struct daemon *daemon, struct device *device)
{
    const char *path = device->config->outside_file;
    uint64_t held = 0;
    char text[64];
    bool wrong = false;

    (void)daemon;
    if (path[0] && read_start(path, text, sizeof text)) {
        size_t blanks = strspn(text, " \t\n"), digits = strspn(text + blanks, "0123456789");

        wrong = digits == 0 || text[blanks + digits + strspn(text + blanks + digits, " \t\n")];
        held = wrong ? 0 : strtoull(text, NULL, 10);
    }
    if (wrong && !device->outside_file_is_wrong)
        log_warning("%s does not hold a number of bytes: assuming that nothing else uses %s", path,
                    device->name);
    device->outside_file_is_wrong = wrong;
    device->memory_outside = held < device->memory_total ? held : device->memory_total;
    return false;
}

struct json_object *simulation_json(const struct device *device)
{
    struct json_object *json = json_object_new_object();
    struct simulation simulation = simulation_of(device);

    json_set_string(json, "kind", "simulated");
    json_set_double(json, "speed", simulation.speed);
    json_set_double(json, "bandwidth", simulation.bandwidth);
    json_set_double(json, "launch_seconds", simulation.launch_seconds);
    json_set_int(json, "memory", (int64_t)device->config->memory);
    if (device->config->loss_error != 0)
        json_set_double(json, "loss_error", device->config->loss_error);
    return json;
}

void simulation_add_arguments(const struct device *device, uint64_t memory_booked,
                              struct json_object *arguments)
{
    JSON_AUTO struct json_object *json = simulation_json(device);

    (void)memory_booked;
    if (device->config->calibration[0]) {
        device_argument_add(arguments, "--calibration");
        device_argument_add(arguments, device->config->calibration);
    }
    device_argument_add(arguments, "--device-config");
    device_argument_add(arguments, json_text(json, NULL));
}

double simulation_step_seconds(const struct device *device, double seconds, double kernels)
{
    struct simulation simulation = simulation_of(device);

    return seconds / simulation.speed + kernels * simulation.launch_seconds;
}
