/* device_backends.c: see device_backends.h. One question is asked at a time. A process that does
 * not answer in time, because its driver hangs, is killed. */
#include "daemon/jobs/device_backends.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/warm_pool.h"
#include "daemon/devices/driver.h"
#include "daemon/devices/worker_call.h"
#include "proto/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSIONS_MAX = 256,
    PATIENCE_MILLISECONDS = 60000,
    /* until a device that could not be opened, for example for lack of memory, is tried again */
    AGAIN_MILLISECONDS = 60000
};

struct device_backends {
    struct worker_call *asking; /* NULL: nothing is asked */
    int asked_type;             /* the type of device that `asking` is about */
    char asked_name[DEVICE_NAME_MAX];
    bool asked[DEVICE_TYPES_MAX], answered[DEVICE_TYPES_MAX];
    uint64_t again_at[DEVICE_TYPES_MAX]; /* uv_now(); 0: it trains */
    char versions[VERSIONS_MAX];         /* the drivers' versions at the last questions */
    device_backends_known known;
    bool stopping;
};

/* ---- the loop -------------------------------------------------------------------------------- */

static void set_trains(struct daemon *daemon, int type, bool trains, const char *reason)
{
    for (size_t i = 0; i < daemon->devices->count; i++) {
        struct device *device = daemon->devices->list[i];

        if (!device->driver->kind.has_backend || device->type != type)
            continue;
        device->trains = trains;
        snprintf(device->trains_reason, sizeof device->trains_reason, "%.*s",
                 (int)sizeof device->trains_reason - 1, reason);
    }
}

static void take_answer(struct daemon *daemon, struct json_object *answer,
                        const struct error *error)
{
    struct device_backends *backends = daemon->backends;
    struct json_object *list = json_get(answer, "devices"), *first;
    const char *reason = error->text, *name = backends->asked_name;
    int type = backends->asked_type;
    bool trains;

    first = list && json_object_is_type(list, json_type_array) ? json_object_array_get_idx(list, 0)
                                                               : NULL;
    trains = json_get_bool(first, "trains", false);
    if (first)
        reason = json_get_string(first, "reason", "");
    set_trains(daemon, type, trains, trains ? "" : reason);
    backends->again_at[type] = trains ? 0 : uv_now(daemon->loop) + AGAIN_MILLISECONDS;
    if (backends->answered[type] && !trains)
        return; /* it has been logged before */
    backends->answered[type] = true;
    if (trains)
        log_info("native jobs train on %s: %s", name, json_text(json_get(first, "versions"), NULL));
    else
        log_info("native jobs do not train on %s: %s", name, reason);
}

static void on_answer(void *data, struct json_object *answer, const struct error *error)
{
    struct daemon *daemon = data;

    daemon->backends->asking = NULL;
    take_answer(daemon, answer, error);
    watches_devices_changed(&daemon->watches);
    device_backends_ask(daemon);
    warm_pool_tend(daemon);
    if (!device_backends_pending(daemon))
        daemon->backends->known(daemon);
}

static void question_begin(struct daemon *daemon, const struct device *device)
{
    struct device_backends *backends = daemon->backends;
    const char *plugin = device_plugin(device, &daemon->config);
    const char *arguments[] = {"traind-worker", "devices",    "--json",
                               "--device",      device->name, plugin[0] ? "--plugin" : NULL,
                               plugin,          NULL};
    struct worker_call_options options = {.worker = daemon->worker_path,
                                          .arguments = arguments,
                                          .device = device,
                                          .drivers = daemon->devices->drivers,
                                          .patience = PATIENCE_MILLISECONDS};
    struct error error;

    backends->asked[device->type] = true;
    backends->asked_type = device->type;
    snprintf(backends->asked_name, sizeof backends->asked_name, "%s", device->name);
    backends->asking = worker_call_begin(daemon->loop, &options, on_answer, daemon, &error);
    if (!backends->asking)
        take_answer(daemon, NULL, &error);
}

/* A device of a type that must be asked about; NULL: none is left. */
static struct device *next_device(const struct daemon *daemon)
{
    const struct device_backends *backends = daemon->backends;

    for (size_t i = 0; i < daemon->devices->count; i++) {
        struct device *device = daemon->devices->list[i];

        if (device->driver->kind.has_backend && !device->missing &&
            (!backends->asked[device->type] ||
             (backends->again_at[device->type] &&
              uv_now(daemon->loop) >= backends->again_at[device->type])))
            return device;
    }
    return NULL;
}

void device_backends_ask(struct daemon *daemon)
{
    struct device_backends *backends = daemon->backends;
    struct device *device;
    char versions[VERSIONS_MAX];

    if (!backends || backends->stopping || backends->asking)
        return;
    devices_versions(daemon, versions, sizeof versions);
    if (strcmp(backends->versions, versions) != 0) {
        memset(backends->asked, 0, sizeof backends->asked);
        memset(backends->answered, 0, sizeof backends->answered);
        memcpy(backends->versions, versions, sizeof versions);
    }
    while ((device = next_device(daemon)) && !backends->asking) {
        if (device_plugin(device, &daemon->config)) {
            question_begin(daemon, device);
            continue;
        }
        backends->asked[device->type] = true;
        set_trains(daemon, device->type, false, "the configuration names no backend (Backend)");
    }
}

void device_backends_start(struct daemon *daemon, device_backends_known known)
{
    daemon->backends = memory_zero(sizeof *daemon->backends);
    daemon->backends->known = known;
    device_backends_ask(daemon);
}

bool device_backends_pending(const struct daemon *daemon)
{
    const struct device_backends *backends = daemon->backends;

    return backends && backends->asking && !backends->answered[backends->asked_type];
}

void device_backends_stop(struct daemon *daemon)
{
    if (!daemon->backends)
        return;
    daemon->backends->stopping = true;
    if (daemon->backends->asking)
        worker_call_abandon(TAKE_POINTER(daemon->backends->asking));
}
