/* driver.c: GPUs by Vulkan. Takes the readings of probe.c into the table of devices.
 *
 * A device keeps the name vulkan:N that it gets from the loader's number when it is first seen; its
 * id is the UUID, by which the plugin finds it again (TRAIND_VULKAN_DEVICES). Vulkan lists no
 * processes, so what others hold is estimated by what is booked. */
#include "daemon/devices/driver.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/devices/device_states.h"
#include "daemon/devices/vulkan/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    VERSION_MAX = 512,
    /* a reading is a process of its own, which opens all drivers */
    READING_VALID_MILLISECONDS = 10000,
    CHANGE_THAT_COUNTS = 100, /* 1/100 of the memory: a larger change may change the decision */
    /* A process that fails or is slow for once, on a busy machine, must cost no job its device. So
     * the devices count as lost after so many readings in a row without an answer. */
    UNANSWERED_MAX = 3,
    /* At the start jobs that are found running are booked on the devices that are known by then. A
     * process that crashes is tried again, for as long as one that hangs may take. */
    START_MILLISECONDS = 8000
};

struct vulkan_devices {
    struct vulkan_probe *probe;
    uv_timer_t timer;                     /* runs while jobs are on devices that it measures */
    void (*ready)(struct daemon *daemon); /* NULL: it was called already */
    char version[VERSION_MAX];
    uint64_t started; /* uv_hrtime() */
    bool refused;     /* a device that does not fit into the table was logged */
    int unanswered;   /* readings in a row without an answer */
};

extern const struct device_driver device_driver_vulkan;

static struct vulkan_devices *state_of(const struct daemon *daemon)
{
    return *device_driver_state(daemon, &device_driver_vulkan);
}

/* ---- readings -------------------------------------------------------------------------------- */

/* The name by the loader's number or, if that is used, the next free one. */
static const char *free_name(const struct devices *devices, const struct vulkan_device *found,
                             char name[DEVICE_NAME_MAX])
{
    snprintf(name, DEVICE_NAME_MAX, "%s", found->name);
    for (int i = 0; devices_find(devices, name); i++)
        snprintf(name, DEVICE_NAME_MAX, "vulkan:%d", i);
    return name;
}

static struct device *add_device(struct daemon *daemon, const struct vulkan_device *found)
{
    struct vulkan_devices *state = state_of(daemon);
    const struct device_config *section;
    struct device *device;
    struct error error;
    char name[DEVICE_NAME_MAX];

    free_name(daemon->devices, found, name);
    section = config_device(&daemon->config, name);
    if ((found->is_software && !daemon->config.vulkan_software) || (section && !section->enabled))
        return NULL;
    device = devices_add(daemon->devices, &daemon->config, name, &device_driver_vulkan,
                         found->model, &error);
    if (!device) {
        if (!state->refused)
            log_error("%s", error.text);
        state->refused = true;
        return NULL;
    }
    snprintf(device->id, sizeof device->id, "%s", found->id);
    log_info("%s is %s (%s), %s", device->name, found->model, found->type, found->id);
    watches_devices_changed(&daemon->watches);
    return device;
}

/* What others hold is what is in use less what is booked. */
static void take_memory(struct daemon *daemon, struct device *device,
                        const struct vulkan_device *found, uint64_t begun)
{
    uint64_t before = device->memory_outside, outside, change;
    bool left = device->memory_leaving > 0 && begun > device->left_at, measured;

    device->memory_total = found->memory_total;
    if (device->ledger && !device_uses_host_memory(device)) /* the GPU's other driver tells it */
        measured = false;
    else
        measured = device_claims_measured(device, false);
    if (!found->use_is_known || device->ledger) { /* no start waits for what no reading shows */
        device->memory_leaving = 0;
        if (measured && daemon->jobs)
            daemon->devices->listener->changed(daemon, device);
        return;
    }
    outside =
        found->memory_used > device->memory_booked ? found->memory_used - device->memory_booked : 0;
    if (begun > device->left_at)
        device->memory_leaving = 0;
    else if (outside > before) /* this counts what has left since as others' */
        outside = before;
    change = outside > before ? outside - before : before - outside;
    device->memory_outside = outside;
    if ((left || measured || change > device->memory_total / CHANGE_THAT_COUNTS) && daemon->jobs)
        daemon->devices->listener->changed(daemon, device);
}

static const struct vulkan_device *find_in(const struct vulkan_reading *reading,
                                           const struct device *device)
{
    for (size_t i = 0; reading && i < reading->count; i++)
        if (strcmp(reading->devices[i].id, device->id) == 0)
            return &reading->devices[i];
    return NULL;
}

static void set_missing(struct daemon *daemon, struct device *device, const char *reason)
{
    device->missing = reason[0] != '\0';
    snprintf(device->missing_reason, sizeof device->missing_reason, "%s", reason);
    device_health_update(daemon, device);
}

/* A GPU that CUDA drives, too, has its ledger there; one without memory of its own at the CPU. */
static void find_ledger(struct daemon *daemon, struct device *device,
                        const struct vulkan_device *found)
{
    struct device *host = devices_find(daemon->devices, DEVICE_HOST);

    if (device->ledger)
        return;
    for (size_t i = 0; i < daemon->devices->count; i++) {
        struct device *other = daemon->devices->list[i];

        if (!vulkan_is_same_gpu(device->id, other->id) || other == device)
            continue;
        device_share_ledger(device, other, true);
        log_info("%s is the GPU of %s", device->name, other->name);
    }
    if (!device->ledger && found->shares_memory && host)
        device_share_ledger(device, host, false);
    if (device->ledger) /* it is counted there */
        device->memory_outside = device->memory_leaving = 0;
}

static void count_unanswered(struct vulkan_devices *state, const struct vulkan_reading *reading)
{
    if (!reading->failed)
        state->unanswered = 0;
    else if (state->unanswered++ == 0)
        log_warning("the state of Vulkan's devices is unknown: %s", reading->obstacle);
}

static void take_known(struct daemon *daemon, const struct vulkan_reading *reading)
{
    if (reading->failed && state_of(daemon)->unanswered < UNANSWERED_MAX)
        return;
    for (size_t i = 0; i < daemon->devices->count; i++) {
        struct device *device = daemon->devices->list[i];
        const struct vulkan_device *found = find_in(reading, device);

        if (device->driver != &device_driver_vulkan)
            continue;
        set_missing(daemon, device,
                    found             ? ""
                    : reading->failed ? "its driver does not answer"
                                      : "Vulkan's drivers do not list it any more");
        if (!found)
            continue;
        find_ledger(daemon, device, found);
        take_memory(daemon, device, found, reading->begun);
    }
}

static void add_new(struct daemon *daemon, const struct vulkan_reading *reading)
{
    for (size_t i = 0; i < reading->count; i++) {
        struct device *device = devices_find(daemon->devices, reading->devices[i].id);

        if (device || !(device = add_device(daemon, &reading->devices[i])))
            continue;
        find_ledger(daemon, device, &reading->devices[i]);
        take_memory(daemon, device, &reading->devices[i], reading->begun);
        device_health_update(daemon, device);
        if (daemon->jobs)
            daemon->devices->listener->changed(daemon, device);
    }
}

/* The drivers of the devices in the table, each once. */
static void note_version(struct daemon *daemon, const struct vulkan_reading *reading)
{
    struct vulkan_devices *state = state_of(daemon);
    size_t used = 0;

    state->version[0] = '\0';
    for (size_t i = 0; i < reading->count && used < sizeof state->version; i++)
        if (devices_find(daemon->devices, reading->devices[i].id) &&
            !strstr(state->version, reading->devices[i].driver))
            used += (size_t)snprintf(state->version + used, sizeof state->version - used, "%s%s",
                                     used ? ", " : "", reading->devices[i].driver);
}

/* Whether the last reading had no answer, and a further one may have one. */
static bool may_answer_yet(const struct vulkan_devices *state)
{
    return state->unanswered > 0 && state->unanswered < UNANSWERED_MAX;
}

/* Whether the start of the daemon waits for a further reading. */
static bool begins_again(struct vulkan_devices *state)
{
    bool again = state->ready && may_answer_yet(state) &&
                 uv_hrtime() - state->started < START_MILLISECONDS * UINT64_C(1000000);

    if (again)
        vulkan_probe_read(state->probe, NULL, NULL);
    return again;
}

static void on_reading(struct daemon *daemon, const struct vulkan_reading *reading)
{
    struct vulkan_devices *state = state_of(daemon);
    void (*ready)(struct daemon *);

    if (daemon->devices->stopping)
        return;
    count_unanswered(state, reading);
    if (begins_again(state))
        return;
    ready = TAKE_POINTER(state->ready);
    take_known(daemon, reading);
    add_new(daemon, reading);
    if (!reading->failed)
        note_version(daemon, reading);
    daemon->devices->listener->read(daemon);
    if (ready)
        ready(daemon);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static const char *plugin(const struct config *config)
{
    const char *backend = config->vulkan_backend;

    return !backend[0] ? NULL : backend[0] == '/' ? backend : "";
}

static bool plugin_is_installed(const char *path)
{
    static const char *const places[] = {"../lib/traind-vulkan.so",
                                         "../lib/traind/traind-vulkan.so"};

    if (path[0])
        return access(path, F_OK) == 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        AUTO_FREE char *place = file_beside_program(places[i]);

        if (place && access(place, F_OK) == 0)
            return true;
    }
    return false;
}

static void on_timer(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;

    vulkan_probe_read(state_of(daemon)->probe, NULL, NULL);
}

static int start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error)
{
    const char *path = plugin(&daemon->config);
    struct vulkan_devices *state;

    (void)error;
    if (!path || !plugin_is_installed(path)) {
        if (path && path[0])
            log_warning("no device by Vulkan: the plugin that [Vulkan] Backend names is not there: "
                        "%s",
                        path);
        ready(daemon);
        return 0;
    }
    state = memory_zero(sizeof *state);
    *device_driver_state(daemon, &device_driver_vulkan) = state;
    state->ready = ready;
    state->started = uv_hrtime();
    state->probe = vulkan_probe_new(daemon, path, on_reading);
    uv_timer_init(daemon->loop, &state->timer);
    state->timer.data = daemon;
    vulkan_probe_read(state->probe, NULL, NULL);
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free((char *)handle - offsetof(struct vulkan_devices, timer));
}

static void stop(struct daemon *daemon)
{
    struct vulkan_devices *state = state_of(daemon);

    if (!state)
        return;
    /* first, so that nobody who is told now asks for another reading */
    *device_driver_state(daemon, &device_driver_vulkan) = NULL;
    vulkan_probe_free(state->probe);
    uv_close((uv_handle_t *)&state->timer, on_timer_closed);
}

/* ---- when they are read ---------------------------------------------------------------------- */

/* The last reading's part about the device. */
static const struct vulkan_device *find_read(const struct daemon *daemon,
                                             const struct device *device)
{
    const struct vulkan_devices *state = state_of(daemon);

    return state ? find_in(vulkan_probe_latest(state->probe), device) : NULL;
}

static bool any_is_there(const struct daemon *daemon)
{
    for (size_t i = 0; i < daemon->devices->count; i++)
        if (daemon->devices->list[i]->driver == &device_driver_vulkan)
            return true;
    return false;
}

/* Whether readings tell something that decisions need: what others hold, or that a lost device is
 * back. */
static bool needs_readings(const struct daemon *daemon, const struct device *device, bool jobs_wait)
{
    const struct vulkan_device *found = find_read(daemon, device);

    if (device->driver != &device_driver_vulkan || (!jobs_wait && device->claim_count == 0))
        return false;
    return device->missing || !found || (found->use_is_known && !device->ledger);
}

static void watch(struct daemon *daemon, bool jobs_wait)
{
    struct vulkan_devices *state = state_of(daemon);
    bool needed;

    if (!state)
        return;
    needed = jobs_wait && may_answer_yet(state);
    for (size_t i = 0; i < daemon->devices->count; i++)
        needed = needed || needs_readings(daemon, daemon->devices->list[i], jobs_wait);
    if (!needed)
        uv_timer_stop(&state->timer);
    else if (!uv_is_active((uv_handle_t *)&state->timer))
        uv_timer_start(&state->timer, on_timer, READING_VALID_MILLISECONDS,
                       READING_VALID_MILLISECONDS);
}

static void refresh(struct daemon *daemon, enum device_reading reading, void (*done)(void *data),
                    void *data)
{
    struct vulkan_devices *state = state_of(daemon);
    const struct vulkan_reading *latest = state ? vulkan_probe_latest(state->probe) : NULL;
    bool is_recent =
        latest && uv_hrtime() - latest->begun < READING_VALID_MILLISECONDS * UINT64_C(1000000);

    if (!state || !(any_is_there(daemon) || may_answer_yet(state)) ||
        (reading != DEVICE_READING_NEW && is_recent))
        done(data);
    else
        vulkan_probe_read(state->probe, done, data);
}

static void leave_device(struct daemon *daemon, struct device *device,
                         const struct device_claim *claim)
{
    const struct vulkan_device *found = find_read(daemon, device);

    if (device->same_hardware) {
        device_left(daemon, device->ledger, claim);
        return;
    }
    if (!found || !found->use_is_known || device->ledger)
        return;
    device->memory_leaving += claim->memory_booked;
    device->left_at = uv_hrtime();
    vulkan_probe_read(state_of(daemon)->probe, NULL, NULL);
}

/* ---- reporting ------------------------------------------------------------------------------- */

static const char *obstacle(const struct daemon *daemon)
{
    const struct vulkan_devices *state = state_of(daemon);
    const struct vulkan_reading *latest = state ? vulkan_probe_latest(state->probe) : NULL;

    if (!state)
        return daemon->config.vulkan_backend[0] ? "the plugin for Vulkan is not installed"
                                                : "the configuration names no plugin for Vulkan";
    if (latest && latest->count > 0)
        return "drivers that compute on the CPU do not count: SoftwareDevices of the configuration";
    return latest && latest->obstacle[0] ? latest->obstacle : "Vulkan's drivers list none";
}

static const char *version(const struct daemon *daemon)
{
    const struct vulkan_devices *state = state_of(daemon);

    return state ? state->version : "";
}

static uint64_t memory_used(const struct daemon *daemon, const struct device *device)
{
    const struct vulkan_device *found = find_read(daemon, device);

    return found && found->use_is_known && !device->ledger
               ? found->memory_used
               : device->memory_outside + device->memory_booked;
}

static void add_features(struct json_object *list, const char *features)
{
    char words[VULKAN_TEXT_MAX], *rest = words;

    snprintf(words, sizeof words, "%s", features);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            json_object_array_add(list, json_object_new_string(word));
}

static void describe(const struct daemon *daemon, const struct device *device,
                     struct json_object *json)
{
    const struct vulkan_device *found = find_read(daemon, device);

    if (!found)
        return;
    add_features(json_get(json, "features"), found->features);
    json_set_string(json, "driver", found->driver);
    json_set(json, "heaps", json_object_get(found->heaps));
    if (found->use_is_known && !device->ledger)
        json_set_bool(json, "outside_is_estimated", true);
}

/* The same GPU by CUDA computes otherwise, so it is another type. */
static void describe_type(const struct device *device, char *text, size_t size)
{
    snprintf(text, size, "%s by Vulkan", device->model);
}

/* ---- starting programs ----------------------------------------------------------------------- */

/* Only traind's plugin reads it. */
static void add_environment(const struct device_environment *environment,
                            struct json_object *variables)
{
    if (environment->native && environment->ids[0])
        json_set_string(variables, "TRAIND_VULKAN_DEVICES", environment->ids);
}

const struct device_driver device_driver_vulkan = {
    .kind = {.name = "vulkan",
             .naming = DEVICE_NAMED_BY_NUMBER,
             .only_by_name = true,
             .for_native_jobs = true,
             .has_backend = true,
             .takes_turns = true,
             .reports_faults = true},
    .start = start,
    .stop = stop,
    .describe_type = describe_type,
    .watch = watch,
    .refresh = refresh,
    .left = leave_device,
    .obstacle = obstacle,
    .version = version,
    .memory_used = memory_used,
    .describe = describe,
    .arguments = device_argument_add_memory,
    .environment = add_environment,
    .plugin = plugin,
};
