/* device.c: see device.h. */
#include "daemon/devices/device.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/devices/driver.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What drivers and displays hold of a GPU that is alone with a job: 0.6 of an H200's 141 GB, and
 * some hundred megabytes of one with 8 GB. */
static const double little_outside_ratio = 1.0 / 16;
/* After so many seconds a device counts as measured, whether or not the driver and the attempts of
 * an earlier daemon answer. */
static const double adoption_seconds = 10;

static void describe_type(const struct device *device, char *text, size_t size)
{
    if (device->driver->describe_type)
        device->driver->describe_type(device, text, size);
    else
        snprintf(text, size, "%s", device->model);
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
    device->slots = -1;
    if (device->driver->configure)
        device->driver->configure(device, config);
    if (device->config && device->config->slots >= 0)
        device->slots = (int)device->config->slots;
}

void devices_configure(struct devices *devices, struct device *device, const struct config *config)
{
    struct error error;
    int type;

    configure(device, config);
    type = find_type(devices, device, &error);
    if (type >= 0) /* if there are too many types, it keeps its old one */
        device->type = type;
}

struct device *devices_add(struct devices *devices, const struct config *config, const char *name,
                           const struct device_driver *driver, const char *model,
                           struct error *error)
{
    struct device *device;

    if (devices->count == DEVICES_MAX) {
        error_set(error, -ENOSPC, "device %s: this machine has more than %d devices", name,
                  DEVICES_MAX);
        return NULL;
    }
    device = memory_zero(sizeof *device);
    snprintf(device->name, sizeof device->name, "%s", name);
    snprintf(device->model, sizeof device->model, "%s", model);
    device->driver = driver;
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

bool device_section_makes_device(const struct device_config *section)
{
    return section->kind->naming == DEVICE_NAMED_BY_SECTION && section->enabled;
}

struct device *devices_add_section(struct devices *devices, const struct config *config,
                                   const struct device_config *section, struct error *error)
{
    const struct device_driver *const *driver = devices->drivers;
    struct device *device;

    while (*driver && &(*driver)->kind != section->kind)
        driver++;
    if (!*driver) {
        error_set(error, -EINVAL, "there is no driver for devices of the kind %s",
                  section->kind->name);
        return NULL;
    }
    device = devices_add(devices, config, section->name, *driver, section->kind->name, error);
    if (!device)
        return NULL;
    snprintf(device->id, sizeof device->id, "%s-%s", section->kind->name, section->name);
    device->trains = true;
    if (section->unified_memory && devices_find(devices, DEVICE_HOST))
        device_share_ledger(device, devices_find(devices, DEVICE_HOST), false);
    return device;
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

    snprintf(text, size, DEVICE_HOST);
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
           strcmp(device->driver->kind.name, pattern) == 0 || strcmp(pattern, DEVICES_ANY) == 0 ||
           (strcmp(pattern, DEVICES_GPU) == 0 && !device->driver->kind.is_host);
}

bool device_matches_any(const struct device *device, const char *const *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (device_matches(device, patterns[i]))
            return true;
    return false;
}

uint64_t device_memory_limit(const struct device *device)
{
    double limit = device->high_watermark_ratio * (double)device->memory_total;

    if (device->memory_total == 0 || device->high_watermark_ratio <= 0)
        return UINT64_MAX;
    return limit > (double)device->memory_outside ? (uint64_t)limit - device->memory_outside : 0;
}

double device_memory_most(const struct device *device)
{
    const struct device *ledger = device_ledger(device);
    double own = device->high_watermark_ratio * (double)device->memory_total;
    double all = ledger->high_watermark_ratio * (double)ledger->memory_total;

    return own > 0 && all > 0 ? fmin(own, all) : fmax(own, all);
}

uint64_t device_memory_alone(const struct device *device)
{
    double most = device_memory_most(device);
    double outside =
        fmax((double)device->memory_outside, (double)device_ledger(device)->memory_outside);

    return most > 0 ? (uint64_t)(most - fmin(outside, most * little_outside_ratio)) : UINT64_MAX;
}

static bool has_adopted(const struct device *device)
{
    for (size_t i = 0; i < device->claim_count; i++)
        if (device->claims[i]->adopted > clock_now() - adoption_seconds)
            return true;
    return false;
}

bool device_is_unmeasured(const struct device *device)
{
    const struct device *ledger = device_ledger(device);
    bool unmeasured = has_adopted(device) || has_adopted(ledger);

    for (const struct device *sharer = ledger->sharers; sharer; sharer = sharer->next_sharer)
        unmeasured = unmeasured || has_adopted(sharer);
    return unmeasured;
}

static void settle_claims(struct device *device, bool by_process)
{
    for (size_t i = 0; i < device->claim_count; i++)
        if (!by_process || device->claims[i]->pid > 0)
            device->claims[i]->adopted = 0;
}

bool device_claims_measured(struct device *device, bool by_process)
{
    bool before = device_is_unmeasured(device);

    settle_claims(device, by_process);
    for (struct device *sharer = device->sharers; sharer; sharer = sharer->next_sharer)
        settle_claims(sharer, by_process);
    return before && !device_is_unmeasured(device);
}

bool device_is_over_limit(const struct device *device)
{
    uint64_t booked = device->ledger ? device->memory_booked : device_ledger_booked(device);

    return booked > device_memory_limit(device) && !device_is_unmeasured(device);
}

/* ---- ledgers that devices share -------------------------------------------------------------- */

void device_share_ledger(struct device *device, struct device *ledger, bool same_hardware)
{
    if (device->ledger || device->sharers || ledger->ledger || device == ledger)
        return;
    device->ledger = ledger;
    device->same_hardware = same_hardware;
    device->next_sharer = ledger->sharers;
    ledger->sharers = device;
}

struct device *device_ledger(const struct device *device)
{
    return device->ledger ? device->ledger : (struct device *)device;
}

bool device_uses_host_memory(const struct device *device)
{
    return device->ledger && device->ledger->driver->kind.is_host;
}

enum device_health device_health_of_hardware(const struct device *device)
{
    return device->same_hardware && device->ledger->health > device->health ? device->ledger->health
                                                                            : device->health;
}

bool device_is_in_use_otherwise(const struct device *device)
{
    const struct device *first = device->same_hardware ? device->ledger : device;
    bool used = device != first && first->claim_count > 0;

    for (const struct device *way = first->sharers; way; way = way->next_sharer)
        used = used || (way != device && way->same_hardware && way->claim_count > 0);
    return used;
}

bool device_is_in_use(const struct device *device)
{
    return device->claim_count > 0 || device_is_in_use_otherwise(device);
}

uint64_t device_ledger_booked(const struct device *device)
{
    const struct device *ledger = device_ledger(device);
    uint64_t booked = ledger->memory_booked;

    for (const struct device *sharer = ledger->sharers; sharer; sharer = sharer->next_sharer)
        booked += sharer->memory_booked;
    return booked;
}

bool device_or_ledger_is_over_limit(const struct device *device)
{
    return device_is_over_limit(device) || device_is_over_limit(device_ledger(device));
}

static uint64_t left_of(uint64_t limit, uint64_t booked)
{
    return limit == UINT64_MAX ? limit : limit > booked ? limit - booked : 0;
}

uint64_t device_memory_free(const struct device *device)
{
    uint64_t own = left_of(device_memory_limit(device), device->memory_booked);
    uint64_t all =
        left_of(device_memory_limit(device_ledger(device)), device_ledger_booked(device));

    return own < all ? own : all;
}

uint64_t device_claim_need(const struct device_claim *claim)
{
    uint64_t held = claim->device_memory_held;

    return claim->device_count == 1 && held > 0 ? held : claim->memory_booked;
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

void device_raise_booking(struct device *device, struct device_claim *claim, uint64_t held)
{
    uint64_t most = device_memory_alone(device), booked = claim->memory_booked;

    if (held > booked)
        booked = held;
    if (booked > most)
        booked = most > claim->memory_granted ? most : claim->memory_granted;
    device->memory_booked += booked - claim->memory_booked;
    claim->memory_booked = booked;
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
