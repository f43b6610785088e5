/* probe.c: see probe.h. One process runs at a time. Whoever asks while it runs waits for the next
 * one, because the present one may have read its answer already. */
#include "daemon/devices/vulkan/probe.h"

#include "base/file.h"
#include "base/memory.h"
#include "daemon/devices/driver.h"
#include "daemon/devices/worker_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A driver that takes longer hangs. Judging an error of a job waits 10 s for a reading. */
enum { PATIENCE_MILLISECONDS = 8000 };

struct waiter {
    struct waiter *next;
    void (*done)(void *data);
    void *data;
};

struct vulkan_probe {
    struct daemon *daemon;
    const char *plugin;
    char *worker; /* path of traind-worker, owned: the jobs, who know it, are opened later */
    vulkan_probe_taken taken;
    struct worker_call *call; /* NULL: no process runs */
    bool again;               /* somebody asked while it runs, or while its answer is taken */
    bool is_taken;            /* its answer is being taken, and `served` are not told yet */
    uint64_t begun;
    struct waiter *served, *waiting; /* by the present process, and by the next one */
    struct vulkan_reading *latest;   /* owned */
};

/* ---- what was answered ----------------------------------------------------------------------- */

/* The heap in which jobs have their memory: the largest of the device's own. */
static struct json_object *find_heap(struct json_object *heaps)
{
    struct json_object *best = NULL;

    for (size_t i = 0; heaps && i < json_object_array_length(heaps); i++) {
        struct json_object *heap = json_object_array_get_idx(heaps, i);

        if (json_get_bool(heap, "on_device", false) &&
            (!best || json_get_int(heap, "bytes", 0) > json_get_int(best, "bytes", 0)))
            best = heap;
    }
    return best;
}

static void copy_text(struct json_object *json, const char *key, char *text, size_t size)
{
    snprintf(text, size, "%.*s", (int)size - 1, json_get_string(json, key, ""));
}

static void take_device(struct vulkan_device *device, struct json_object *json)
{
    struct json_object *heap = find_heap(json_get(json, "heaps"));
    int64_t bytes = json_get_int(heap, "bytes", 0), budget = json_get_int(heap, "budget", 0);

    copy_text(json, "device", device->name, sizeof device->name);
    copy_text(json, "id", device->id, sizeof device->id);
    copy_text(json, "type", device->type, sizeof device->type);
    copy_text(json, "model", device->model, sizeof device->model);
    copy_text(json, "driver", device->driver, sizeof device->driver);
    copy_text(json, "features", device->features, sizeof device->features);
    device->is_software = json_get_bool(json, "is_software", false);
    device->shares_memory = json_get_bool(json, "shares_memory", false);
    device->memory_total = bytes > 0 ? (uint64_t)bytes : 0;
    device->use_is_known = budget > 0;
    device->memory_used = budget > 0 && budget < bytes ? (uint64_t)(bytes - budget) : 0;
    device->heaps = json_object_get(json_get(json, "heaps"));
}

void vulkan_reading_take(struct vulkan_reading *reading, struct json_object *answer)
{
    struct json_object *list = json_get(answer, "devices");
    size_t count =
        list && json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

    copy_text(answer, "reason", reading->obstacle, sizeof reading->obstacle);
    for (size_t i = 0; i < count && reading->count < VULKAN_DEVICES_MAX; i++) {
        struct json_object *json = json_object_array_get_idx(list, i);

        if (*json_get_string(json, "device", "") && *json_get_string(json, "id", ""))
            take_device(&reading->devices[reading->count++], json);
    }
}

void vulkan_reading_free(struct vulkan_reading *reading)
{
    for (size_t i = 0; reading && i < reading->count; i++)
        json_object_put(reading->devices[i].heaps);
    free(reading);
}

bool vulkan_is_same_gpu(const char *id, const char *other)
{
    const char *uuid = strchr(id, '-'), *its = strchr(other, '-');

    return uuid && its && strncmp(id, "vulkan-", 7) == 0 && strcmp(uuid, its) == 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void begin(struct vulkan_probe *probe);

static void serve(struct waiter *waiter)
{
    while (waiter) {
        struct waiter *next = waiter->next;

        waiter->done(waiter->data);
        free(waiter);
        waiter = next;
    }
}

static void take_answer(struct vulkan_probe *probe, struct json_object *answer,
                        const struct error *error)
{
    struct vulkan_reading *reading = memory_zero(sizeof *reading);
    struct vulkan_reading *previous = probe->latest;

    reading->begun = probe->begun;
    reading->failed = !answer;
    if (answer)
        vulkan_reading_take(reading, answer);
    else
        snprintf(reading->obstacle, sizeof reading->obstacle, "%.*s",
                 (int)sizeof reading->obstacle - 1, error->text);
    probe->latest = reading;
    probe->is_taken = true;
    probe->taken(probe->daemon, reading);
    probe->is_taken = false;
    vulkan_reading_free(previous);
    serve(TAKE_POINTER(probe->served));
    if (probe->again && !probe->call)
        begin(probe);
}

static void on_answer(void *data, struct json_object *answer, const struct error *error)
{
    struct vulkan_probe *probe = data;

    probe->call = NULL;
    take_answer(probe, answer, error);
}

static void begin(struct vulkan_probe *probe)
{
    const char *arguments[] = {"traind-worker", "probe",  "--json",
                               "--device",      "vulkan", probe->plugin[0] ? "--plugin" : NULL,
                               probe->plugin,   NULL};
    struct worker_call_options options = {.worker = probe->worker ? probe->worker : "traind-worker",
                                          .arguments = arguments,
                                          .drivers = probe->daemon->devices->drivers,
                                          .patience = PATIENCE_MILLISECONDS};
    struct error error;

    probe->again = false;
    probe->served = TAKE_POINTER(probe->waiting);
    probe->begun = uv_hrtime();
    probe->call = worker_call_begin(probe->daemon->loop, &options, on_answer, probe, &error);
    if (!probe->call)
        take_answer(probe, NULL, &error);
}

void vulkan_probe_read(struct vulkan_probe *probe, void (*done)(void *data), void *data)
{
    struct waiter *waiter = done ? malloc(sizeof *waiter) : NULL;

    if (waiter) {
        *waiter = (struct waiter){.next = probe->waiting, .done = done, .data = data};
        probe->waiting = waiter;
    } else if (done) { /* no memory: the last reading must do */
        done(data);
        return;
    }
    probe->again = true;
    if (!probe->call && !probe->is_taken)
        begin(probe);
}

const struct vulkan_reading *vulkan_probe_latest(const struct vulkan_probe *probe)
{
    return probe->latest;
}

struct vulkan_probe *vulkan_probe_new(struct daemon *daemon, const char *plugin,
                                      vulkan_probe_taken taken)
{
    struct vulkan_probe *probe = memory_zero(sizeof *probe);

    probe->daemon = daemon;
    probe->plugin = plugin;
    probe->worker = file_beside_program("traind-worker");
    probe->taken = taken;
    return probe;
}

void vulkan_probe_free(struct vulkan_probe *probe)
{
    if (!probe)
        return;
    if (probe->call)
        worker_call_abandon(probe->call);
    serve(TAKE_POINTER(probe->served));
    serve(TAKE_POINTER(probe->waiting));
    vulkan_reading_free(probe->latest);
    free(probe->worker);
    free(probe);
}
