/* driver.c: NVIDIA GPUs. Transfers the readings of monitor.c into the table of devices, and sets
 * the environment and arguments by which programs find their GPU.
 *
 * A device keeps the name cuda:N that it gets from the driver's number when it is first seen; its
 * id is the UUID. A device that vanishes stays in the table as lost, and comes back under its name.
 * An error of the device itself quarantines it until a user undrains it. */
#include "daemon/devices/driver.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/devices/device_states.h"
#include "daemon/devices/nvidia/monitor.h"
#include "daemon/devices/strays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIDS_MAX = 256,
    SAMPLE_SECONDS = 5,      /* an older reading says nothing of now: the driver may hang */
    CHANGE_THAT_COUNTS = 100 /* 1/100 of the memory: a larger change may change the decision */
};

/* State between readings. Arrays are indexed like the table of devices. */
struct nvidia_devices {
    struct nvidia_monitor *monitor;
    void (*ready)(struct daemon *daemon); /* NULL: it was called already */
    uint64_t failures[DEVICES_MAX];       /* failures that have led to a quarantine */
    bool refused;                         /* a device that does not fit into the table was logged */
    bool jobs_wait, reading_now;
};

extern const struct device_driver device_driver_nvidia;

static struct nvidia_devices *state_of(const struct daemon *daemon)
{
    return *device_driver_state(daemon, &device_driver_nvidia);
}

/* ---- whose memory it is ---------------------------------------------------------------------- */

static struct nvidia_use device_use(const struct daemon *daemon, const struct device *device,
                                    const struct nvidia_device *nvidia)
{
    pid_t pids[PIDS_MAX];
    size_t count = device_list_pids(daemon, device, pids, PIDS_MAX);

    return nvidia_device_use(nvidia, pids, count, device_ledger_booked(device));
}

/* ---- readings -------------------------------------------------------------------------------- */

/* The name by the driver's number or, if that is used, the next free one. */
static const char *free_name(const struct devices *devices, const struct nvidia_device *nvidia,
                             char name[DEVICE_NAME_MAX])
{
    snprintf(name, DEVICE_NAME_MAX, "%s", nvidia->name);
    for (int i = 0; devices_find(devices, name); i++)
        snprintf(name, DEVICE_NAME_MAX, "cuda:%d", i);
    return name;
}

static struct device *add_device(struct daemon *daemon, const struct nvidia_device *nvidia)
{
    struct nvidia_devices *state = state_of(daemon);
    const struct device_config *section;
    struct error error;
    struct device *device;
    char name[DEVICE_NAME_MAX];

    free_name(daemon->devices, nvidia, name);
    section = config_device(&daemon->config, name);
    if (section && !section->enabled)
        return NULL;
    device = devices_add(daemon->devices, &daemon->config, name, &device_driver_nvidia,
                         nvidia->model, &error);
    if (!device) {
        if (!state->refused)
            log_error("%s", error.text);
        state->refused = true;
        return NULL;
    }
    snprintf(device->id, sizeof device->id, "%s", nvidia->uuid);
    for (size_t i = 0; i < device->index; i++) {
        const struct device *other = daemon->devices->list[i];

        if (other->driver == &device_driver_nvidia &&
            other->type == device->type) { /* this type was probed already */
            device->trains = other->trains;
            memcpy(device->trains_reason, other->trains_reason, sizeof device->trains_reason);
        }
    }
    log_info("%s is %s, %s", device->name, nvidia->model, nvidia->uuid);
    watches_devices_changed(&daemon->watches);
    return device;
}

/* Quarantines the device if it had errors of its own since the last reading. */
static void take_failures(struct daemon *daemon, struct device *device,
                          const struct nvidia_device *nvidia)
{
    uint64_t *taken = &state_of(daemon)->failures[device->index];

    if (nvidia->failures <= *taken)
        return;
    *taken = nvidia->failures;
    device_state_set(daemon, device, DEVICE_QUARANTINED, nvidia->health_reason, 0, NULL, NULL);
}

/* Stores what each attempt on the device holds. If that is more than it booked, the booking
 * grows. */
static void take_peaks(struct device *device, const struct nvidia_device *nvidia, bool tells)
{
    for (size_t i = 0; i < device->claim_count; i++) {
        struct device_claim *claim = device->claims[i];
        uint64_t held = 0;

        for (size_t p = 0; claim->pid > 0 && p < nvidia->process_count; p++)
            if (process_is_of(&nvidia->processes[p], &claim->pid, 1))
                held += nvidia->processes[p].memory;
        if (held > claim->device_memory_peak)
            claim->device_memory_peak = held;
        claim->device_memory_held = held;
        if (held > 0 && !(claim->holds_since > 0))
            claim->holds_since = clock_now();
        claim->readings += tells && claim->pid > 0;
        if (held > 0 && claim->device_count == 1)
            device_raise_booking(device, claim, held);
    }
}

/* Attributes the memory when the reading arrives. Later the jobs may be others, and the memory of
 * an ended job would count as that of others. */
static void take_memory(struct daemon *daemon, struct device *device,
                        const struct nvidia_device *nvidia, uint64_t begun)
{
    struct nvidia_use use = device_use(daemon, device, nvidia);
    uint64_t outside = use.outside, before = device->memory_outside;
    uint64_t change;
    bool left = device->memory_leaving > 0 && begun > device->left_at, measured;

    if (begun > device->left_at) { /* what is not free by now does not belong to ended jobs */
        device->memory_leaving = 0;
    } else { /* this counts processes that have left since as others */
        outside = outside < before ? outside : before;
        nvidia_monitor_read(state_of(daemon)->monitor);
    }
    change = outside > before ? outside - before : before - outside;

    device->memory_total = nvidia->memory_total;
    device->memory_outside = outside;
    take_peaks(device, nvidia, nvidia->processes_known && !use.by_booking);
    for (struct device *way = device->sharers; way; way = way->next_sharer)
        take_peaks(way, nvidia, nvidia->processes_known && !use.by_booking);
    measured = device_claims_measured(device, true);
    if (daemon->jobs)
        strays_find(daemon, device, nvidia->processes, nvidia->process_count);
    if ((left || measured || change > device->memory_total / CHANGE_THAT_COUNTS) && daemon->jobs)
        daemon->devices->listener->changed(daemon, device);
}

static void leave_device(struct daemon *daemon, struct device *device,
                         const struct device_claim *claim)
{
    uint64_t held = claim->device_memory_peak > claim->memory_booked ? claim->device_memory_peak
                                                                     : claim->memory_booked;

    if (!state_of(daemon))
        return;
    device->memory_leaving += held;
    device->left_at = uv_hrtime();
    nvidia_monitor_read(state_of(daemon)->monitor);
}

static void take_device(struct daemon *daemon, const struct nvidia_device *nvidia,
                        const struct nvidia_reading *reading)
{
    struct device *device = devices_find(daemon->devices, nvidia->uuid);
    bool added = !device;

    if (!device)
        device = add_device(daemon, nvidia);
    if (!device)
        return;
    device->missing = nvidia->health == NVIDIA_LOST;
    snprintf(device->missing_reason, sizeof device->missing_reason, "%s",
             device->missing ? nvidia->health_reason : "");
    take_failures(daemon, device, nvidia);
    device_health_update(daemon, device);
    take_memory(daemon, device, nvidia, reading->begun);
    if (!nvidia->is_instance && nvidia->utilisation >= 0)
        daemon->devices->listener->used(daemon, device, 0.01 * nvidia->utilisation);
    if (!nvidia->is_instance &&
        !reading->rests) /* the meter counts all instances of the GPU together */
        device_energy_read(device, nvidia->energy, nvidia->power, clock_now());
    if (added && daemon->jobs)
        daemon->devices->listener->changed(daemon, device);
}

static void watch(struct daemon *daemon, bool jobs_wait)
{
    struct nvidia_devices *state = state_of(daemon);
    bool present = false, busy = false;

    if (!state || !state->monitor)
        return;
    state->jobs_wait = jobs_wait;
    for (size_t i = 0; i < daemon->devices->count; i++) {
        const struct device *device = daemon->devices->list[i];

        present = present || device->driver == &device_driver_nvidia;
        busy = busy ||
               (device_ledger(device)->driver == &device_driver_nvidia && device->claim_count > 0);
    }
    if (busy || (present && jobs_wait))
        nvidia_monitor_watch(state->monitor, true);
    else if (state->reading_now) /* stop only after a reading, so that the last one shows no ended
                                  * jobs */
        nvidia_monitor_watch(state->monitor, false);
}

static void on_reading(void *data, const struct nvidia_reading *reading)
{
    struct daemon *daemon = data;
    void (*ready)(struct daemon *) = state_of(daemon)->ready;

    if (daemon->devices->stopping) /* attempts are gone that would count as outside use */
        return;
    for (size_t i = 0; i < reading->count; i++)
        take_device(daemon, &reading->devices[i], reading);
    daemon->devices->listener->read(daemon);
    state_of(daemon)->reading_now = true;
    watch(daemon, state_of(daemon)->jobs_wait);
    state_of(daemon)->reading_now = false;
    state_of(daemon)->ready = NULL;
    if (ready) {
        log_info("%s%s", reading->count ? "NVIDIA driver " : "no NVIDIA device: ",
                 reading->count       ? reading->driver
                 : *reading->obstacle ? reading->obstacle
                                      : "the driver has none");
        ready(daemon);
    }
}

static int start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error)
{
    struct nvidia_devices *state;

    if (!daemon->config.nvidia_library[0]) {
        ready(daemon);
        return 0;
    }
    state = memory_zero(sizeof *state);
    *device_driver_state(daemon, &device_driver_nvidia) = state;
    state->ready = ready;
    return nvidia_monitor_start(daemon->loop, daemon->config.nvidia_library, "", on_reading, daemon,
                                &state->monitor, error);
}

static void stop(struct daemon *daemon)
{
    struct nvidia_devices *state = state_of(daemon);

    if (state)
        nvidia_monitor_stop(state->monitor);
    free(state);
    *device_driver_state(daemon, &device_driver_nvidia) = NULL;
}

static void refresh(struct daemon *daemon, enum device_reading reading, void (*done)(void *data),
                    void *data)
{
    if (!state_of(daemon))
        done(data);
    else if (reading != DEVICE_READING_RECENT)
        nvidia_monitor_look(state_of(daemon)->monitor, reading == DEVICE_READING_NEW, done, data);
    else
        nvidia_monitor_refresh(state_of(daemon)->monitor, done, data);
}

/* ---- reporting ------------------------------------------------------------------------------- */

static const struct nvidia_reading *reading_of(const struct daemon *daemon)
{
    return state_of(daemon) ? nvidia_monitor_reading(state_of(daemon)->monitor) : NULL;
}

/* The last reading of the device, or NULL. */
static const struct nvidia_device *find_read(const struct daemon *daemon,
                                             const struct device *device)
{
    const struct nvidia_reading *reading = reading_of(daemon);

    for (size_t i = 0; reading && i < reading->count; i++)
        if (strcmp(reading->devices[i].uuid, device->id) == 0)
            return &reading->devices[i];
    return NULL;
}

static const char *driver_version(const struct daemon *daemon)
{
    const struct nvidia_reading *reading = reading_of(daemon);

    return reading ? reading->driver : "";
}

static const char *obstacle(const struct daemon *daemon)
{
    const struct nvidia_reading *reading = reading_of(daemon);

    return reading ? reading->obstacle : "";
}

static uint64_t memory_used(const struct daemon *daemon, const struct device *device)
{
    const struct nvidia_device *nvidia = find_read(daemon, device);

    return nvidia ? nvidia->memory_used : device->memory_outside + device_ledger_booked(device);
}

static void take_sample(const struct daemon *daemon, const struct device *device,
                        struct device_sample *sample)
{
    const struct nvidia_reading *reading = reading_of(daemon);
    const struct nvidia_device *nvidia = find_read(daemon, device);

    if (!nvidia || uv_hrtime() - reading->begun > SAMPLE_SECONDS * UINT64_C(1000000000)) {
        sample->memory_used = NAN;
        return;
    }
    if (nvidia->utilisation >= 0)
        sample->utilisation = 0.01 * nvidia->utilisation;
    if (nvidia->temperature >= 0)
        sample->temperature = nvidia->temperature;
    sample->power = nvidia->power;
}

static bool list_users(const struct daemon *daemon, const struct device *device,
                       const struct process_use **users, size_t *count)
{
    const struct nvidia_device *nvidia = find_read(daemon, device);

    if (!nvidia)
        return false;
    *users = nvidia->processes;
    *count = nvidia->process_count;
    return true;
}

static void set_known(struct json_object *json, const char *key, double value)
{
    if (isfinite(value))
        json_set_double(json, key, value);
}

static void describe(const struct daemon *daemon, const struct device *device,
                     struct json_object *json)
{
    const struct nvidia_device *nvidia = find_read(daemon, device);
    char capability[32];

    if (!nvidia)
        return;
    if (nvidia->capability[0] > 0) {
        snprintf(capability, sizeof capability, "sm_%d%d", nvidia->capability[0],
                 nvidia->capability[1]);
        json_object_array_add(json_get(json, "features"), json_object_new_string(capability));
    }
    if (device_use(daemon, device, nvidia).by_booking)
        json_set(json, "outside_is_estimated", json_object_new_boolean(true));
    set_known(json, "utilisation", nvidia->utilisation < 0 ? NAN : 0.01 * nvidia->utilisation);
    set_known(json, "temperature", nvidia->temperature < 0 ? NAN : nvidia->temperature);
    set_known(json, "power_watts", nvidia->power);
    set_known(json, "energy_joules", nvidia->energy);
    if (nvidia->ecc_errors >= 0)
        json_set_int(json, "ecc_errors", nvidia->ecc_errors);
    if (*driver_version(daemon))
        json_set_string(json, "driver", driver_version(daemon));
    if (!device->health_reason[0] && nvidia->health_reason[0])
        json_set_string(json, "health_reason", nvidia->health_reason);
}

/* ---- starting programs ----------------------------------------------------------------------- */

/* Passes on the booked part of the device's memory. PyTorch frees cached memory beyond it before it
 * allocates more. JAX takes a declared part as its maximum. */
static void add_memory_part(const struct device_environment *environment,
                            struct json_object *variables)
{
    char part[16], text[64];

    snprintf(part, sizeof part, "%.3f", environment->memory_part);
    snprintf(text, sizeof text, "garbage_collection_threshold:%s", part);
    device_environment_add(variables, "PYTORCH_CUDA_ALLOC_CONF", text);
    device_environment_add(variables, "PYTORCH_ALLOC_CONF", text);
    if (environment->memory_declared) /* the shim passes it on to a PyTorch that knows the option */
        json_set_string(variables, "TRAIND_DEVICE_MEMORY_PART", part);
    /* JAX fails if both the old and the new name are set */
    if (environment->memory_declared &&
        !json_object_object_get_ex(variables, "XLA_CLIENT_MEM_FRACTION", NULL))
        device_environment_add(variables, "XLA_PYTHON_CLIENT_MEM_FRACTION", part);
}

/* Sets variables of these sources. CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER: CUDA C++ Programming
 * Guide, "CUDA Environment Variables". PYTORCH_CUDA_ALLOC_CONF, since 2.9 PYTORCH_ALLOC_CONF:
 * docs.pytorch.org/docs/stable/notes/cuda.html; garbage_collection_threshold exists since 1.12, and
 * an unknown key is an error. XLA_PYTHON_CLIENT_*:
 * docs.jax.dev/en/latest/gpu_memory_allocation.html. TF_FORCE_GPU_ALLOW_GROWTH:
 * www.tensorflow.org/guide/gpu. By default JAX and TensorFlow allocate nearly a whole GPU at
 * once. */
static void add_environment(const struct device_environment *environment,
                            struct json_object *variables)
{
    if (environment->native) { /* the daemon's choice overrides the user's */
        if (!environment->ids[0])
            return;
        json_set_string(variables, "CUDA_VISIBLE_DEVICES", environment->ids);
        json_set_string(variables, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        return;
    }
    /* empty if it has no GPU, so that the command uses none by accident */
    device_environment_add(variables, "CUDA_VISIBLE_DEVICES", environment->ids);
    if (!environment->ids[0])
        return;
    device_environment_add(variables, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    device_environment_add(variables, "XLA_PYTHON_CLIENT_PREALLOCATE", "false");
    device_environment_add(variables, "TF_FORCE_GPU_ALLOW_GROWTH", "true");
    if (environment->memory_part > 0)
        add_memory_part(environment, variables);
}

static const char *const start_variables[] = {"CUDA_", "NVIDIA_", "CUBLAS", "CUDNN", NULL};

static const char *plugin(const struct config *config)
{
    const char *backend = config->nvidia_backend;

    return !backend[0] ? NULL : backend[0] == '/' ? backend : "";
}

static int64_t warm_workers(const struct config *config)
{
    return config->warm_workers;
}

static const char *mps_program(const struct config *config)
{
    return config->mps_control;
}

/* NVIDIA's Multi-Process Service, docs.nvidia.com/deploy/mps. */
static const struct device_sharing mps = {
    .name = "mps", .title = "MPS", .variable = "CUDA_MPS_PIPE_DIRECTORY", .program = mps_program};

/* ---- suspending programs --------------------------------------------------------------------- */

enum {
    SUSPENDING_DRIVER = 570, /* the first that has cuCheckpointProcessLock() */
    REMAPPING_DRIVER = 580   /* the first that restores to another GPU (CUcheckpointGpuPair) */
};

static int driver_number(const struct daemon *daemon)
{
    return atoi(driver_version(daemon));
}

static const char *suspension_library(const struct config *config)
{
    return config->cuda_library;
}

static void suspension_obstacle(const struct daemon *daemon, char *text, size_t size)
{
    *text = '\0';
    if (!daemon->config.cuda_library[0])
        snprintf(text, size, "CudaLibrary of the configuration is empty");
    else if (driver_number(daemon) < SUSPENDING_DRIVER)
        snprintf(text, size, "NVIDIA's driver %s suspends no programs: one from %d on does",
                 driver_version(daemon), SUSPENDING_DRIVER);
}

static bool suspension_moves(const struct daemon *daemon)
{
    return driver_number(daemon) >= REMAPPING_DRIVER;
}

static const struct device_suspension suspension = {
    .library = suspension_library, .obstacle = suspension_obstacle, .moves = suspension_moves};

const struct device_driver device_driver_nvidia = {
    .kind = {.name = "cuda",
             .naming = DEVICE_NAMED_BY_NUMBER,
             .has_backend = true,
             .takes_turns = true,
             .reports_faults = true},
    .start = start,
    .stop = stop,
    .watch = watch,
    .refresh = refresh,
    .sample = take_sample,
    .left = leave_device,
    .obstacle = obstacle,
    .version = driver_version,
    .memory_used = memory_used,
    .users = list_users,
    .describe = describe,
    .arguments = device_argument_add_memory,
    .environment = add_environment,
    .start_variables = start_variables,
    .plugin = plugin,
    .warm_workers = warm_workers,
    .sharing = &mps,
    .suspension = &suspension,
};
