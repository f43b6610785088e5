/* device.c: see device.h. */
#include "daemon/devices/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Equal speed: the same model; of simulated devices, the same configuration. */
static void describe_type(const struct device *device, char *text, size_t size)
{
    if (device->kind == DEVICE_SIMULATED)
        snprintf(text, size, "simulated %gx, memory %gx, %g s a launch", device->config->speed,
                 device->config->bandwidth > 0 ? device->config->bandwidth : device->config->speed,
                 device->config->launch_seconds);
    else
        snprintf(text, size, "%s", device->kind == DEVICE_CPU ? "cpu" : device->model);
}

static int find_type(struct devices *devices, const struct device *device, struct error *error)
{
    char name[sizeof devices->type_names[0]];

    describe_type(device, name, sizeof name);
    for (int type = 0; type < devices->type_count; type++)
        if (strcmp(devices->type_names[type], name) == 0)
            return type;
    if (devices->type_count == DEVICE_TYPES_MAX)
        return error_set(error, -ENOSPC, "more than %d kinds of devices", DEVICE_TYPES_MAX);
    strcpy(devices->type_names[devices->type_count], name);
    return devices->type_count++;
}

static void configure(struct device *device, const struct config *config)
{
    device->config = config_device(config, device->name);
    device->high_watermark_ratio = config_high_watermark(config, device->config);
    device->low_watermark_ratio = config_low_watermark(config, device->config);
    device->slots = device->kind == DEVICE_SIMULATED                      ? 1
                    : device->kind == DEVICE_CPU && config->cpu_slots > 0 ? (int)config->cpu_slots
                                                                          : -1;
    if (device->config && device->config->slots >= 0)
        device->slots = (int)device->config->slots;
    if (device->kind == DEVICE_SIMULATED)
        device->memory_total = device->config->memory;
}

void devices_configure(struct devices *devices, struct device *device, const struct config *config)
{
    struct error error;
    int type;

    configure(device, config);
    type = find_type(devices, device, &error);
    if (type >= 0) /* else there are too many: it stays what it was */
        device->type = type;
}

struct device *devices_add(struct devices *devices, const struct config *config, const char *name,
                           enum device_kind kind, const char *model, struct error *error)
{
    struct device *device = calloc(1, sizeof *device);

    if (!device || devices->count == DEVICES_MAX) {
        free(device);
        error_set(error, -ENOSPC, "device %s: this machine has more than %d devices", name,
                  DEVICES_MAX);
        return NULL;
    }
    snprintf(device->name, sizeof device->name, "%s", name);
    snprintf(device->model, sizeof device->model, "%s", model);
    device->kind = kind;
    configure(device, config);
    device->type = find_type(devices, device, error);
    if (device->type < 0) {
        free(device);
        return NULL;
    }
    device->index = devices->count;
    devices->list[devices->count++] = device;
    return device;
}

struct device *devices_add_simulated(struct devices *devices, const struct config *config,
                                     const struct device_config *section, struct error *error)
{
    struct device *device =
        devices_add(devices, config, section->name, DEVICE_SIMULATED, "simulated", error);

    if (!device)
        return NULL;
    snprintf(device->id, sizeof device->id, "simulated-%s", section->name);
    device->trains = true;
    return device;
}

int devices_open(struct devices *devices, const struct config *config, const struct cpu_probe *cpu,
                 struct error *error)
{
    const struct device_config *section = config_device(config, "cpu");
    struct device *device;

    if (!section || section->enabled) {
        device = devices_add(devices, config, "cpu", DEVICE_CPU, cpu->model, error);
        if (!device)
            return error->code;
        snprintf(device->id, sizeof device->id, "%s", cpu->id);
        device->memory_total = cpu->memory_total;
        device->trains = true;
    }
    for (size_t i = 0; i < config->device_count; i++) {
        section = &config->devices[i];
        if (section->kind != DEVICE_SIMULATED || !section->enabled)
            continue;
        if (!devices_add_simulated(devices, config, section, error))
            return error->code;
    }
    return 0;
}

void devices_close(struct devices *devices)
{
    for (size_t i = 0; i < devices->count; i++) {
        free(devices->list[i]->claims);
        free(devices->list[i]);
    }
    *devices = (struct devices){0};
}

struct device *devices_find(const struct devices *devices, const char *name)
{
    for (size_t i = 0; i < devices->count; i++)
        if (strcmp(devices->list[i]->name, name) == 0 || strcmp(devices->list[i]->id, name) == 0)
            return devices->list[i];
    return NULL;
}

char *devices_name(const struct device *const *list, int count, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "cpu");
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", list[i]->name);
    return text;
}

int devices_parse(const struct devices *devices, const char *text, struct device **list, int limit)
{
    char copy[ATTEMPT_DEVICES_TEXT_MAX], *rest = copy;
    int count = 0;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *name; count < limit && (name = strsep(&rest, ","));) {
        struct device *device = devices_find(devices, name + strspn(name, " "));

        if (device)
            list[count++] = device;
    }
    return count;
}

bool device_matches(const struct device *device, const char *pattern)
{
    return strcmp(device->name, pattern) == 0 || strcmp(device->id, pattern) == 0 ||
           strcmp(device_kind_to_string(device->kind), pattern) == 0 ||
           strcmp(pattern, DEVICES_ANY) == 0 ||
           (strcmp(pattern, DEVICES_GPU) == 0 && device->kind != DEVICE_CPU);
}

uint64_t device_memory_limit(const struct device *device)
{
    double limit = device->high_watermark_ratio * (double)device->memory_total;

    if (device->memory_total == 0 || device->high_watermark_ratio <= 0)
        return UINT64_MAX;
    return limit > (double)device->memory_outside ? (uint64_t)limit - device->memory_outside : 0;
}

bool device_is_over_limit(const struct device *device)
{
    return device->memory_booked > device_memory_limit(device);
}

int device_book(struct device *device, struct device_claim *claim, uint64_t memory)
{
    if (device->claim_count == device->claim_capacity) {
        size_t capacity = device->claim_capacity ? device->claim_capacity * 2 : 4;
        struct device_claim **grown =
            realloc(device->claims, capacity * sizeof(struct device_claim *));

        if (!grown)
            return -ENOMEM;
        device->claims = grown;
        device->claim_capacity = capacity;
    }
    device->claims[device->claim_count++] = claim;
    device->memory_booked += memory;
    device->busy = -1;
    return 0;
}

void device_unbook(struct device *device, struct device_claim *claim, uint64_t memory)
{
    for (size_t i = 0; i < device->claim_count; i++) {
        if (device->claims[i] == claim) {
            device->claims[i] = device->claims[--device->claim_count];
            device->memory_booked -= memory;
            device->busy = -1;
            return;
        }
    }
}
