/* probe.h: what drivers for Vulkan report of each device. A process of traind-worker asks them,
 * because a driver may crash or hang. Everything here runs on the loop; nothing blocks. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/types/device_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VULKAN_DEVICES_MAX = 32, VULKAN_TEXT_MAX = 160 };

struct vulkan_device {
    char name[DEVICE_NAME_MAX]; /* "vulkan:0", as the loader counts */
    char id[DEVICE_ID_MAX];     /* "vulkan-" and the UUID */
    char type[16];              /* "discrete", "integrated", "virtual", "cpu", "other" */
    char model[DEVICE_MODEL_MAX];
    char driver[VULKAN_TEXT_MAX];   /* name and version */
    char features[VULKAN_TEXT_MAX]; /* words */
    bool is_software, shares_memory;
    uint64_t memory_total;     /* bytes of its largest heap */
    uint64_t memory_used;      /* bytes of that heap that all programs hold */
    bool use_is_known;         /* the driver estimates memory_used */
    struct json_object *heaps; /* owned by the reading */
};

struct vulkan_reading {
    uint64_t begun;                 /* uv_hrtime() */
    bool failed;                    /* no answer came: the devices are unknown */
    char obstacle[VULKAN_TEXT_MAX]; /* why there is no device; "": no reason */
    struct vulkan_device devices[VULKAN_DEVICES_MAX];
    size_t count;
};

/* Fills in the reading from the answer of `traind-worker probe`. */
void vulkan_reading_take(struct vulkan_reading *reading, struct json_object *answer);
void vulkan_reading_free(struct vulkan_reading *reading);

/* Whether the ids of a device of Vulkan and of one of another kind have the same UUID, so that both
 * are the same GPU. */
bool vulkan_is_same_gpu(const char *id, const char *other);

struct vulkan_probe;

/* `taken` gets each reading, which belongs to the probe and stays valid until the next one.
 * `plugin`: a path; "": the installed one. */
typedef void (*vulkan_probe_taken)(struct daemon *daemon, const struct vulkan_reading *reading);
struct vulkan_probe *vulkan_probe_new(struct daemon *daemon, const char *plugin,
                                      vulkan_probe_taken taken);
void vulkan_probe_free(struct vulkan_probe *probe);

/* Calls `done`, which may be NULL, after a reading that begins now or later. */
void vulkan_probe_read(struct vulkan_probe *probe, void (*done)(void *data), void *data);
/* The last reading; NULL: there is none yet. */
const struct vulkan_reading *vulkan_probe_latest(const struct vulkan_probe *probe);
