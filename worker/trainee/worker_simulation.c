/* worker_simulation.c: see worker_simulation.h. */
#include "worker/trainee/worker_simulation.h"

#include "proto/device_host.h"
#include "proto/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct simulation_wish {
    double speed, bandwidth, launch_seconds, loss_error;
    int64_t memory_bytes;
    struct json_object *calibration; /* of this CPU; borrowed; NULL: the kept one */
};

static int check_member(const char *key, struct error *error)
{
    static const char *const known[] = {"kind",   "speed",       "bandwidth", "launch_seconds",
                                        "memory", "calibration", "loss_error"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], key) == 0)
            return 0;
    return error_set(error, -EINVAL, "--device-config: there is no \"%s\" in it", key);
}

static int read_wish(struct json_object *json, struct simulation_wish *wish, struct error *error)
{
    int r = json_object_is_type(json, json_type_object)
                ? 0
                : error_set(error, -EINVAL, "--device-config has to be an object");

    if (r < 0)
        return r;
    json_object_object_foreach (json, key, value) {
        (void)value;
        if (r == 0)
            r = check_member(key, error);
    }
    if (r == 0 && strcmp(json_get_string(json, "kind", ""), "simulated") != 0)
        r = error_set(error, -EINVAL, "--device-config: \"kind\" has to be \"simulated\"");
    *wish = (struct simulation_wish){.speed = json_get_double(json, "speed", 1),
                                     .bandwidth = json_get_double(json, "bandwidth", 0),
                                     .launch_seconds = json_get_double(json, "launch_seconds", 0),
                                     .loss_error = json_get_double(json, "loss_error", 0),
                                     .memory_bytes = json_get_int(json, "memory", 0),
                                     .calibration = json_get(json, "calibration")};
    if (r == 0 && !(wish->speed > 0 && wish->bandwidth >= 0 && wish->launch_seconds >= 0))
        r = error_set(error, -EINVAL,
                      "--device-config: speed has to be above 0, bandwidth and launch_seconds not "
                      "below it");
    if (r == 0 && !(wish->loss_error > -1))
        r = error_set(error, -EINVAL, "--device-config: loss_error has to be above -1");
    if (r == 0 && wish->memory_bytes < 1)
        r = error_set(error, -EINVAL, "--device-config: memory has to be a number of bytes");
    if (wish->bandwidth == 0)
        wish->bandwidth = wish->speed;
    return r;
}

static double simulated_seconds(const void *context, const struct graph *graph, int32_t node,
                                const struct node_description *description)
{
    return calibration_node_seconds(context, graph, node, description);
}

/* Finds this CPU's speeds, and measures them if they are not known. */
static int find_cpu_speeds(const struct worker_options *options, int threads,
                           const struct simulation_wish *wish,
                           struct worker_calibration *calibration, struct error *error)
{
    const struct backend *backend = backend_cpu();
    struct backend_device_config config = {.threads = threads};
    struct backend_device_info info;
    struct backend_device *device;
    int r;

    if (wish->calibration) {
        r = worker_calibration_read(wish->calibration, &calibration->speeds, error);
        calibration->known = r == 0;
        return r < 0 ? error_prefix(error, "--device-config: calibration") : 0;
    }
    r = backend->device_open(&config, &device, error);
    if (r < 0)
        return r;
    backend->device_describe(device, &info);
    r = worker_calibration_load(options->calibration, &info, calibration, error);
    if (r == 0 && !calibration->known)
        r = worker_calibration_measure(backend, device, true, calibration, error);
    backend->device_close(device);
    return r;
}

int worker_simulation_configure(const struct worker_options *options, const char *name, int threads,
                                struct worker_simulation *simulation,
                                struct backend_device_config *config, struct error *error)
{
    JSON_AUTO struct json_object *json = NULL;
    struct worker_calibration cpu = {0};
    struct simulation_wish wish;
    int r = json_parse(options->device_config, strlen(options->device_config), &json, error);

    if (r < 0)
        return error_prefix(error, "--device-config");
    r = read_wish(json, &wish, error);
    if (r == 0 && (strlen(name) >= sizeof simulation->name || strcmp(name, "auto") == 0 ||
                   strcmp(name, DEVICE_HOST) == 0))
        r = error_set(error, -EINVAL, "a simulated device is named by --device, not \"%s\"", name);
    if (r == 0)
        r = find_cpu_speeds(options, threads, &wish, &cpu, error);
    if (r == 0)
        r = calibration_scale(&cpu.speeds, wish.speed, wish.bandwidth, wish.launch_seconds,
                              &simulation->speeds, error);
    worker_calibration_release(&cpu);
    if (r < 0)
        return r;
    snprintf(simulation->name, sizeof simulation->name, "%s", name);
    simulation->simulated = true;
    simulation->config =
        (struct simulated_device_config){.name = simulation->name,
                                         .memory_bytes = (uint64_t)wish.memory_bytes,
                                         .node_seconds = simulated_seconds,
                                         .context = &simulation->speeds,
                                         .loss_error = wish.loss_error};
    config->simulated = &simulation->config;
    return 0;
}

void worker_simulation_release(struct worker_simulation *simulation)
{
    if (simulation->simulated)
        calibration_release(&simulation->speeds);
    simulation->simulated = false;
}
