/* devices_nvidia.c: takes the readings of devices/nvidia/monitor.c into the table of devices.
 *
 * A device is named cuda:N as the driver numbers it when it is seen first, and keeps that name: its
 * id is the UUID. One that vanishes stays in the table as lost, and comes back under its name. An
 * error of the device itself quarantines it until somebody undrains it. */
#include "daemon/attempts/devices_nvidia.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/attempts/warm_pool.h"
#include "daemon/devices/device_states.h"
#include "daemon/devices/nvidia/monitor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIDS_MAX = 256,
    CHANGE_THAT_COUNTS = 100 /* 1/100 of the memory: a decision may be another */
};

/* What is remembered of a device between readings; the index is that of the table. */
struct devices_nvidia {
    struct nvidia_monitor *monitor;
    void (*ready)(struct daemon *daemon); /* NULL: it was called */
    uint64_t failures[DEVICES_MAX];       /* those that have led to a quarantine */
    bool refused;                         /* a device that does not fit into the table was told */
    bool jobs_wait, reading_now;
};

/* ---- whose memory it is ------------------------------------------------------------------------
 */

/* The processes whose descendants are the jobs': planning runs look at devices, too. */
static size_t list_pids(const struct daemon *daemon, const struct device *device,
                        pid_t pids[PIDS_MAX])
{
    size_t count =
        daemon->jobs ? daemon->devices->listener->passing_pids(daemon, pids, PIDS_MAX) : 0;

    for (size_t i = 0; i < device->claim_count && count < PIDS_MAX; i++)
        if (device->claims[i]->pid > 0)
            pids[count++] = device->claims[i]->pid;
    return count;
}

struct nvidia_use device_nvidia_use(const struct daemon *daemon, const struct device *device,
                                    const struct nvidia_device *nvidia)
{
    pid_t pids[PIDS_MAX];
    size_t count = list_pids(daemon, device, pids);

    return nvidia_device_use(nvidia, pids, count, device->memory_booked);
}

bool device_holds_process(const struct daemon *daemon, const struct device *device,
                          const struct process_use *process)
{
    pid_t pids[PIDS_MAX];
    size_t count = list_pids(daemon, device, pids);

    return process_is_of(process, pids, count);
}

/* ---- readings ----------------------------------------------------------------------------------
 */

/* The name that the driver's number gives, or the next free one. */
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
    struct devices_nvidia *state = daemon->nvidia;
    const struct device_config *section;
    struct error error;
    struct device *device;
    char name[DEVICE_NAME_MAX];

    free_name(daemon->devices, nvidia, name);
    section = config_device(&daemon->config, name);
    if (section && !section->enabled)
        return NULL;
    device =
        devices_add(daemon->devices, &daemon->config, name, DEVICE_CUDA, nvidia->model, &error);
    if (!device) {
        if (!state->refused)
            log_error("%s", error.text);
        state->refused = true;
        return NULL;
    }
    snprintf(device->id, sizeof device->id, "%s", nvidia->uuid);
    for (size_t i = 0; i < device->index; i++) {
        const struct device *other = daemon->devices->list[i];

        if (other->kind == DEVICE_CUDA && other->type == device->type) { /* asked about already */
            device->trains = other->trains;
            memcpy(device->trains_reason, other->trains_reason, sizeof device->trains_reason);
        }
    }
    log_info("%s is %s, %s", device->name, nvidia->model, nvidia->uuid);
    watches_devices_changed(&daemon->watches);
    return device;
}

/* Errors since the last reading, which are the device's own. */
static void take_failures(struct daemon *daemon, struct device *device,
                          const struct nvidia_device *nvidia)
{
    uint64_t *taken = &daemon->nvidia->failures[device->index];

    if (nvidia->failures <= *taken)
        return;
    *taken = nvidia->failures;
    device_state_set(daemon, device, DEVICE_QUARANTINED, nvidia->health_reason, 0, NULL, NULL);
}

/* What each attempt on the device holds of it; more than it has booked is booked. */
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
        claim->readings += tells && claim->pid > 0;
        if (held > claim->memory_booked && claim->device_count == 1) {
            device->memory_booked += held - claim->memory_booked;
            claim->memory_booked = held;
        }
    }
}

/* Ownership is decided when the reading arrives: later the jobs are others, and what one that has
 * ended held then would count as others'. */
static void take_memory(struct daemon *daemon, struct device *device,
                        const struct nvidia_device *nvidia, uint64_t begun)
{
    struct nvidia_use use = device_nvidia_use(daemon, device, nvidia);
    uint64_t outside = use.outside;
    uint64_t before = device->memory_outside + device->memory_leaving;
    uint64_t change;

    if (begun > device->left_at) /* what is not free by now belongs to nobody of ours */
        device->memory_leaving = 0;
    else
        nvidia_monitor_read(daemon->nvidia->monitor);
    change = outside + device->memory_leaving;
    change = change > before ? change - before : before - change;

    device->memory_total = nvidia->memory_total;
    device->memory_outside = outside;
    take_peaks(device, nvidia, nvidia->processes_known && !use.by_booking);
    if (change > device->memory_total / CHANGE_THAT_COUNTS && daemon->jobs)
        daemon->devices->listener->changed(daemon, device);
}

void device_nvidia_left(struct daemon *daemon, struct device *device,
                        const struct device_claim *claim)
{
    uint64_t held = claim->device_memory_peak > claim->memory_booked ? claim->device_memory_peak
                                                                     : claim->memory_booked;

    if (device->kind != DEVICE_CUDA || !daemon->nvidia)
        return;
    device->memory_leaving += held;
    device->left_at = uv_hrtime();
    nvidia_monitor_read(daemon->nvidia->monitor);
}

static void take_device(struct daemon *daemon, const struct nvidia_device *nvidia, uint64_t begun)
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
    take_memory(daemon, device, nvidia, begun);
    if (!nvidia->is_instance && nvidia->utilisation >= 0)
        daemon->devices->listener->used(daemon, device, 0.01 * nvidia->utilisation);
    if (!nvidia->is_instance) /* the meter counts for all of them */
        device_energy_read(device, nvidia->energy, nvidia->power, clock_now());
    if (added && daemon->jobs)
        daemon->devices->listener->changed(daemon, device);
}

void devices_nvidia_watch(struct daemon *daemon, bool jobs_wait)
{
    struct devices_nvidia *state = daemon->nvidia;
    bool present = false, busy = false;

    if (!state || !state->monitor)
        return;
    state->jobs_wait = jobs_wait;
    for (size_t i = 0; i < daemon->devices->count; i++) {
        const struct device *device = daemon->devices->list[i];

        present = present || device->kind == DEVICE_CUDA;
        busy = busy || (device->kind == DEVICE_CUDA && device->claim_count > 0);
    }
    if (busy || (present && jobs_wait))
        nvidia_monitor_watch(state->monitor, true);
    else if (state->reading_now) /* so that the last reading knows nothing of jobs that ended */
        nvidia_monitor_watch(state->monitor, false);
}

static void on_reading(void *data, const struct nvidia_reading *reading)
{
    struct daemon *daemon = data;
    void (*ready)(struct daemon *) = daemon->nvidia->ready;

    for (size_t i = 0; i < reading->count; i++)
        take_device(daemon, &reading->devices[i], reading->begun);
    daemon->devices->listener->read(daemon);
    warm_pool_tend(daemon);
    daemon->nvidia->reading_now = true;
    devices_nvidia_watch(daemon, daemon->nvidia->jobs_wait);
    daemon->nvidia->reading_now = false;
    daemon->nvidia->ready = NULL;
    if (ready) {
        log_info("%s%s", reading->count ? "NVIDIA driver " : "no NVIDIA device: ",
                 reading->count       ? reading->driver
                 : *reading->obstacle ? reading->obstacle
                                      : "the driver has none");
        ready(daemon);
    }
}

int devices_nvidia_start(struct daemon *daemon, void (*ready)(struct daemon *daemon),
                         struct error *error)
{
    if (!daemon->config.nvidia_library[0]) {
        ready(daemon);
        return 0;
    }
    daemon->nvidia = calloc(1, sizeof *daemon->nvidia);
    if (!daemon->nvidia)
        return error_set(error, -ENOMEM, "no memory left");
    daemon->nvidia->ready = ready;
    return nvidia_monitor_start(daemon->loop, daemon->config.nvidia_library, on_reading, daemon,
                                &daemon->nvidia->monitor, error);
}

void devices_nvidia_stop(struct daemon *daemon)
{
    if (daemon->nvidia)
        nvidia_monitor_stop(daemon->nvidia->monitor);
    free(daemon->nvidia);
    daemon->nvidia = NULL;
}

/* ---- questions ---------------------------------------------------------------------------------
 */

const struct nvidia_device *device_nvidia(const struct daemon *daemon, const struct device *device)
{
    const struct nvidia_reading *reading =
        daemon->nvidia ? nvidia_monitor_reading(daemon->nvidia->monitor) : NULL;

    for (size_t i = 0; reading && i < reading->count; i++)
        if (strcmp(reading->devices[i].uuid, device->id) == 0)
            return &reading->devices[i];
    return NULL;
}

const char *devices_nvidia_driver(const struct daemon *daemon)
{
    const struct nvidia_reading *reading =
        daemon->nvidia ? nvidia_monitor_reading(daemon->nvidia->monitor) : NULL;

    return reading ? reading->driver : "";
}

const char *devices_nvidia_obstacle(const struct daemon *daemon)
{
    const struct nvidia_reading *reading =
        daemon->nvidia ? nvidia_monitor_reading(daemon->nvidia->monitor) : NULL;

    return reading ? reading->obstacle : "";
}

void devices_nvidia_refresh(struct daemon *daemon, void (*done)(void *data), void *data)
{
    if (daemon->nvidia)
        nvidia_monitor_refresh(daemon->nvidia->monitor, done, data);
    else
        done(data);
}

void devices_nvidia_look(struct daemon *daemon, void (*done)(void *data), void *data)
{
    if (daemon->nvidia)
        nvidia_monitor_look(daemon->nvidia->monitor, done, data);
    else
        done(data);
}
