/* job_environment.c: see job_environment.h. Only variables that programs know are set. For
 * PYTORCH_MPS_* see docs.pytorch.org/docs/stable/mps_environment_variables.html. The drivers set
 * the variables of their kinds of device. */
#include "daemon/attempts/job_environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MAX = 2048 };

static void add(struct json_object *variables, const char *name, const char *value)
{
    if (strncmp(name, "TRAIND_", 7) == 0 || !json_object_object_get_ex(variables, name, NULL))
        json_set_string(variables, name, value);
}

static void add_bytes(struct json_object *variables, const char *name, uint64_t bytes)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, bytes);
    if (bytes)
        add(variables, name, text);
}

/* Lists the ids or names of the devices of a kind, as in "GPU-a,GPU-b"; `driver` NULL: of all
 * kinds. */
static void list_devices(const struct job_environment *environment,
                         const struct device_driver *driver, bool ids, char text[LIST_MAX])
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < environment->device_count && used < LIST_MAX; i++) {
        const struct job_environment_device *device = &environment->devices[i];

        if (!driver || device->driver == driver)
            used += (size_t)snprintf(text + used, LIST_MAX - used, "%s%s", used ? "," : "",
                                     ids ? device->id : device->name);
    }
}

/* Adds the variables that every program gets. */
static void add_facts(const struct job_environment *environment, struct json_object *variables)
{
    char text[LIST_MAX];

    list_devices(environment, NULL, false, text);
    add(variables, "TRAIND_DEVICE", text[0] ? text : DEVICE_HOST);
    if (environment->attempt > 0) {
        snprintf(text, sizeof text, "%" PRId64, environment->attempt - 1);
        add(variables, "TRAIND_RESUME", text);
    }
    add_bytes(variables, "TRAIND_MEMORY", environment->memory);
    add_bytes(variables, "TRAIND_DEVICE_MEMORY", environment->device_memory);
    if (environment->checkpoint_directory)
        add(variables, "TRAIND_CHECKPOINT_DIRECTORY", environment->checkpoint_directory);
}

/* Without these variables every numerical library would use all cores of the machine. */
static void add_threads(const struct job_environment *environment, struct json_object *variables)
{
    char text[16];

    snprintf(text, sizeof text, "%d", environment->cores);
    add(variables, "OMP_NUM_THREADS", text);
    add(variables, "MKL_NUM_THREADS", text);
    add(variables, "OPENBLAS_NUM_THREADS", text);
}

/* The booked part of the devices' memory; 0: not known, or it is the host's memory. */
static double memory_part(const struct job_environment *environment)
{
    const struct job_environment_device *device = environment->devices;
    double part;

    if (environment->device_count == 0 || device->driver->kind.is_host ||
        environment->device_memory == 0 || device->memory_total == 0)
        return 0;
    part = (double)environment->device_memory / (double)device->memory_total;
    return part < 0.01 ? 0.01 : part > 0.99 ? 0.99 : part;
}

static void add_memory(double part, struct json_object *variables)
{
    char text[16];

    if (part == 0)
        return;
    snprintf(text, sizeof text, "%.3f", part);
    /* the low watermark must not exceed the high one, but its default does */
    add(variables, "PYTORCH_MPS_HIGH_WATERMARK_RATIO", text);
    add(variables, "PYTORCH_MPS_LOW_WATERMARK_RATIO", text);
}

/* Adds the variables of every kind of device, including kinds that the attempt does not use. */
static void add_kinds(const struct job_environment *environment, bool native,
                      struct json_object *variables)
{
    char ids[LIST_MAX];

    for (size_t i = 0; environment->drivers && environment->drivers[i]; i++) {
        const struct device_environment of_kind = {.ids = ids,
                                                   .memory_part = memory_part(environment),
                                                   .memory_declared =
                                                       environment->device_memory_declared,
                                                   .native = native};

        list_devices(environment, environment->drivers[i], true, ids);
        if (environment->drivers[i]->environment)
            environment->drivers[i]->environment(&of_kind, variables);
    }
}

void job_environment_add(const struct job_environment *environment, struct json_object *variables)
{
    add_facts(environment, variables);
    add_threads(environment, variables);
    add_kinds(environment, false, variables);
    add_memory(memory_part(environment), variables);
}

void job_environment_add_device(const struct job_environment *environment,
                                struct json_object *variables)
{
    add_kinds(environment, true, variables);
}
