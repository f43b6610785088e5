/* probe.c: finds the NVIDIA devices of this machine and reads their state from the driver. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/devices/nvidia/internal.h"
#include "daemon/devices/nvidia/power.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    DEVICES_AT_ONCE_MAX = 256,
    REST_SECONDS = 30, /* laptops' GPUs fall asleep within 10 s after the last question */
    CELSIUS_MAX = 1000,
    MILLIWATTS_MAX = 100 * 1000 * 1000
};

struct nvidia_probe *nvidia_probe_new(const char *library, const char *root)
{
    struct nvidia_probe *probe = memory_zero(sizeof *probe);

    probe->library = memory_copy_text(library);
    probe->root = memory_copy_text(root);
    return probe;
}

static void shut_down(struct nvidia_probe *probe)
{
    if (!probe->initialised)
        return;
    if (probe->events)
        probe->nvml.event_set_free(probe->events);
    probe->events = NULL;
    probe->nvml.shutdown();
    probe->initialised = false;
    for (size_t i = 0; i < probe->known_count; i++)
        probe->known[i].handle = probe->known[i].parent = NULL;
}

void nvidia_probe_free(struct nvidia_probe *probe)
{
    if (!probe)
        return;
    shut_down(probe);
    nvml_unload(&probe->nvml);
    free(probe->known);
    free(probe->library);
    free(probe->root);
    free(probe);
}

void nvidia_reading_free(struct nvidia_reading *reading)
{
    if (!reading)
        return;
    for (size_t i = 0; i < reading->count; i++)
        free(reading->devices[i].processes);
    free(reading->devices);
    free(reading);
}

/* Loads and initialises the library if that was not done. Returns false with the reason in
 * `obstacle`. */
static bool bring_up(struct nvidia_probe *probe, char obstacle[NVIDIA_TEXT_MAX])
{
    struct error error;
    int result;

    if (probe->initialised)
        return true;
    if (!probe->nvml.library && nvml_load(&probe->nvml, probe->library, &error) < 0) {
        snprintf(obstacle, NVIDIA_TEXT_MAX, "%.*s", NVIDIA_TEXT_MAX - 1, error.text);
        return false;
    }
    result = probe->nvml.init();
    if (result != NVML_SUCCESS) {
        snprintf(obstacle, NVIDIA_TEXT_MAX,
                 "NVIDIA's management library cannot be used: %s (NVML error %d).",
                 nvml_result_text(result), result);
        return false;
    }
    probe->initialised = true;
    if (probe->nvml.event_set_create(&probe->events) != NVML_SUCCESS)
        probe->events = NULL;
    return true;
}

/* ---- finding devices ------------------------------------------------------------------------- */

/* Finds or adds the device with that UUID. Invalidates other pointers into `known`. NULL: no
 * memory. */
static struct known_device *know(struct nvidia_probe *probe, const char *uuid)
{
    struct known_device *grown;

    for (size_t i = 0; i < probe->known_count; i++)
        if (strcmp(probe->known[i].last.uuid, uuid) == 0)
            return &probe->known[i];
    grown = reallocarray(probe->known, probe->known_count + 1, sizeof *probe->known);
    if (!grown)
        return NULL;
    probe->known = grown;
    probe->known[probe->known_count] = (struct known_device){0};
    snprintf(probe->known[probe->known_count].last.uuid, sizeof grown->last.uuid, "%s", uuid);
    return &probe->known[probe->known_count++];
}

static void register_events(struct nvidia_probe *probe, nvml_device device)
{
    unsigned long long supported;

    if (probe->events && probe->nvml.supported_events(device, &supported) == NVML_SUCCESS &&
        (supported & (NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC)))
        probe->nvml.register_events(
            device, supported & (NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC), probe->events);
}

/* Whether the GPU's errors are reported already, perhaps because of another of its instances. */
static bool is_registered(const struct nvidia_probe *probe, nvml_device gpu)
{
    for (size_t i = 0; i < probe->known_count; i++)
        if (probe->known[i].parent == gpu)
            return true;
    return false;
}

/* Records one device of this reading. */
static void find_device(struct nvidia_probe *probe, nvml_device handle, nvml_device parent,
                        const char *name)
{
    char uuid[NVML_UUID_SIZE];
    struct known_device *known;

    if (probe->nvml.uuid(handle, uuid, sizeof uuid) != NVML_SUCCESS || !(known = know(probe, uuid)))
        return;
    if (!is_registered(probe, parent))
        register_events(probe, parent);
    known->handle = handle;
    known->parent = parent;
    if (handle == parent || probe->nvml.gpu_instance(handle, &known->gpu_instance) != NVML_SUCCESS)
        known->gpu_instance = NVML_INSTANCE_NONE;
    snprintf(known->last.name, sizeof known->last.name, "%s", name);
    known->seen = true;
}

/* Records the instances of a divided GPU. Such a GPU itself is not a device, because programs can
 * only use its instances. */
static bool find_instances(struct nvidia_probe *probe, nvml_device gpu, unsigned int index)
{
    const struct nvml *nvml = &probe->nvml;
    unsigned int mode = 0, pending, count = 0;
    nvml_device instance;
    char name[32];

    if (nvml->mig_mode(gpu, &mode, &pending) != NVML_SUCCESS || mode != NVML_MIG_ENABLED ||
        nvml->mig_count_max(gpu, &count) != NVML_SUCCESS)
        return false;
    for (unsigned int i = 0; i < count && i < DEVICES_AT_ONCE_MAX; i++) {
        if (nvml->mig_by_index(gpu, i, &instance) != NVML_SUCCESS)
            continue; /* indices are not consecutive */
        snprintf(name, sizeof name, "cuda:%u.%u", index, i);
        find_device(probe, instance, gpu, name);
    }
    return true;
}

/* Finds all devices. Returns whether the driver reports a GPU as lost. */
static bool find_devices(struct nvidia_probe *probe)
{
    unsigned int count = 0;
    nvml_device handle;
    bool lost = false;
    char name[32];

    for (size_t i = 0; i < probe->known_count; i++)
        probe->known[i].seen = false;
    if (probe->nvml.device_count(&count) != NVML_SUCCESS)
        return false;
    for (unsigned int i = 0; i < count && i < DEVICES_AT_ONCE_MAX; i++) {
        int result = probe->nvml.device_by_index(i, &handle);

        lost = lost || result == NVML_ERROR_GPU_IS_LOST;
        if (result != NVML_SUCCESS || find_instances(probe, handle, i))
            continue;
        snprintf(name, sizeof name, "cuda:%u", i);
        find_device(probe, handle, handle, name);
    }
    return lost;
}

/* ---- reading a device ------------------------------------------------------------------------ */

/* Reads the memory in bytes. Returns 0 or an NVML error; a lost device returns an error. */
static int read_memory(const struct nvml *nvml, nvml_device handle, struct nvidia_device *device)
{
    struct nvml_memory_v2 newer = {.version = NVML_MEMORY_V2};
    struct nvml_memory older = {0};
    int result = nvml->memory_v2(handle, &newer);

    if (result == NVML_SUCCESS && newer.total != NVML_MEMORY_UNKNOWN) {
        device->memory_total = newer.total > newer.reserved ? newer.total - newer.reserved : 0;
        device->memory_used = newer.used;
        return result;
    }
    result = nvml->memory(handle, &older); /* its `used` includes what the driver reserves */
    if (result == NVML_SUCCESS) {
        device->memory_total = older.total;
        device->memory_used = older.used;
    }
    return result;
}

/* Reads the sensors. An instance has few of its own; the others are those of its GPU. What no GPU
 * can have is not known. */
static void read_sensors(const struct nvml *nvml, const struct known_device *known,
                         struct nvidia_device *device)
{
    struct nvml_utilization utilization;
    unsigned int celsius, milliwatts;
    unsigned long long millijoules;

    device->utilisation = device->temperature = -1;
    device->power = device->energy = NAN;
    if (nvml->utilization(known->handle, &utilization) == NVML_SUCCESS && utilization.gpu <= 100)
        device->utilisation = (int)utilization.gpu;
    if (nvml->temperature(known->parent, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS &&
        celsius <= CELSIUS_MAX)
        device->temperature = (int)celsius;
    if (nvml->power(known->parent, &milliwatts) == NVML_SUCCESS && milliwatts <= MILLIWATTS_MAX)
        device->power = 1e-3 * milliwatts;
    if (nvml->energy(known->parent, &millijoules) == NVML_SUCCESS)
        device->energy = 1e-3 * (double)millijoules;
}

static void read_device(struct nvidia_probe *probe, struct known_device *known,
                        struct nvidia_device *device)
{
    const struct nvml *nvml = &probe->nvml;
    int result;

    *device = known->last;
    device->is_instance = known->handle != known->parent;
    device->health = NVIDIA_HEALTHY;
    device->health_reason[0] = '\0';
    device->ecc_errors = -1;
    nvml->name(known->handle, device->model, sizeof device->model);
    nvml->capability(known->handle, &device->capability[0], &device->capability[1]);
    read_sensors(nvml, known, device);
    nvidia_read_errors(probe, known, device);
    result = read_memory(nvml, known->handle, device);
    device->failures = known->failures;
    if (known->failures > 0) {
        device->health = NVIDIA_FAILED;
        snprintf(device->health_reason, sizeof device->health_reason, "%s", known->failure);
    }
    if (result != NVML_SUCCESS) {
        device->health = NVIDIA_LOST;
        snprintf(device->health_reason, sizeof device->health_reason,
                 "It does not answer: %s (NVML error %d).", nvml_result_text(result), result);
    }
    known->last = *device;
    if (result == NVML_SUCCESS)
        nvidia_read_processes(nvml, known->handle, device);
}

/* Describes a device that has gone by its last facts and `reason`. */
static void describe_lost(const struct known_device *known, const char *reason,
                          struct nvidia_device *device)
{
    *device = known->last;
    device->health = NVIDIA_LOST;
    device->failures = known->failures;
    device->memory_used = 0;
    device->utilisation = device->temperature = -1;
    device->power = NAN;
    snprintf(device->health_reason, sizeof device->health_reason, "%s",
             known->failures ? known->failure : reason);
}

/* ---- readings -------------------------------------------------------------------------------- */

/* What the driver said last. A GPU that sleeps is not busy, and nobody knows its sensors. */
static void describe_resting(struct nvidia_probe *probe, bool asleep,
                             struct nvidia_reading *reading)
{
    reading->rests = true;
    for (size_t i = 0; reading->devices && i < probe->known_count; i++) {
        struct nvidia_device *device = &reading->devices[reading->count++];

        *device = probe->known[i].last;
        if (!asleep)
            continue;
        device->utilisation = 0;
        device->temperature = -1;
        device->power = NAN;
    }
}

static void describe_all(struct nvidia_probe *probe, bool up, bool lost,
                         struct nvidia_reading *reading)
{
    const char *absence = !up    ? reading->obstacle
                          : lost ? "The driver says that the GPU is lost."
                                 : "It has vanished from the machine.";
    bool busy = false;

    probe->complete = up;
    for (size_t i = 0; reading->devices && i < probe->known_count; i++) {
        struct nvidia_device *device = &reading->devices[reading->count++];

        if (up && probe->known[i].seen)
            read_device(probe, &probe->known[i], device);
        else
            describe_lost(&probe->known[i], absence, device);
        probe->complete = probe->complete && device->health != NVIDIA_LOST;
        busy = busy || device->utilisation > 0;
    }
    probe->idle_at = busy ? 0 : uv_hrtime();
}

static bool is_idle(const struct nvidia_probe *probe)
{
    return probe->idle_at > 0 && uv_hrtime() - probe->idle_at < REST_SECONDS * UINT64_C(1000000000);
}

/* Asks the driver. */
static void read_all(struct nvidia_probe *probe, enum nvidia_request request,
                     struct nvidia_reading *reading)
{
    bool up, lost = false;

    if (request == NVIDIA_RESCAN) {
        nvidia_take_events(probe); /* shutting down frees the event set and its events */
        shut_down(probe);
    }
    up = bring_up(probe, reading->obstacle);
    *probe->driver = '\0';
    probe->cuda_version = 0;
    if (up) {
        probe->nvml.driver_version(probe->driver, sizeof probe->driver);
        probe->nvml.cuda_version(&probe->cuda_version);
        nvidia_take_events(probe);
        lost = find_devices(probe);
    }
    reading->devices = calloc(probe->known_count + 1, sizeof *reading->devices);
    describe_all(probe, up, lost, reading);
}

struct nvidia_reading *nvidia_probe_read(struct nvidia_probe *probe, enum nvidia_request request)
{
    struct nvidia_reading *reading = memory_zero(sizeof *reading);
    enum nvidia_power power =
        request < NVIDIA_READ ? nvidia_power_read(probe->root) : NVIDIA_STAYS_ON;
    bool rests = power == NVIDIA_ASLEEP || (request == NVIDIA_READ_UNLESS_IDLE &&
                                            power == NVIDIA_MAY_SLEEP && is_idle(probe));

    if (probe->complete && probe->known_count > 0 && rests) {
        reading->devices = calloc(probe->known_count + 1, sizeof *reading->devices);
        describe_resting(probe, power == NVIDIA_ASLEEP, reading);
    } else {
        read_all(probe, request, reading);
    }
    if (probe->complete &&
        (power == NVIDIA_ASLEEP || (power == NVIDIA_MAY_SLEEP && probe->idle_at > 0)))
        shut_down(probe); /* else it would keep them awake */
    snprintf(reading->driver, sizeof reading->driver, "%s", probe->driver);
    reading->cuda_version = probe->cuda_version;
    return reading;
}
