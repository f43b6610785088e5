/* measurements.c: see measurements.h. Each device has a ring of slots; a slot knows which time it
 * is of, so that the ring needs no clearing. */
#include "client/top/measurements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    int64_t number; /* time / MEASUREMENTS_SLOT_SECONDS; 0: empty */
    float sums[MEASURED_VALUES];
    uint16_t counts[MEASURED_VALUES];
};

struct device_measurements {
    char *name; /* owned */
    int64_t newest;
    struct slot slots[MEASUREMENTS_SLOTS];
};

struct measurements {
    struct device_measurements **devices; /* owned, sorted by name */
    size_t count, room;
};

struct measurements *measurements_new(void)
{
    return calloc(1, sizeof(struct measurements));
}

void measurements_free(struct measurements *measurements)
{
    if (!measurements)
        return;
    for (size_t i = 0; i < measurements->count; i++) {
        free(measurements->devices[i]->name);
        free(measurements->devices[i]);
    }
    free(measurements->devices);
    free(measurements);
}

/* Where the device is, or belongs. */
static size_t place_of(const struct measurements *measurements, const char *device)
{
    size_t low = 0, high = measurements->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(measurements->devices[middle]->name, device) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct device_measurements *device_at(const struct measurements *measurements, size_t place,
                                             const char *device)
{
    if (place < measurements->count && strcmp(measurements->devices[place]->name, device) == 0)
        return measurements->devices[place];
    return NULL;
}

/* The device's measurements, made where there is none; NULL: not enough memory. */
static struct device_measurements *device_make(struct measurements *measurements,
                                               const char *device)
{
    size_t place = place_of(measurements, device);
    struct device_measurements *found = device_at(measurements, place, device);

    if (found)
        return found;
    if (measurements->count == measurements->room) {
        size_t room = measurements->room ? 2 * measurements->room : 16;
        struct device_measurements **grown =
            reallocarray(measurements->devices, room, sizeof *grown);

        if (!grown)
            return NULL;
        measurements->devices = grown;
        measurements->room = room;
    }
    found = calloc(1, sizeof *found);
    if (found)
        found->name = strdup(device);
    if (!found || !found->name) {
        free(found);
        return NULL;
    }
    memmove(measurements->devices + place + 1, measurements->devices + place,
            (measurements->count - place) * sizeof *measurements->devices);
    measurements->devices[place] = found;
    measurements->count++;
    return found;
}

static int64_t slot_of(double time)
{
    return (int64_t)floor(time / MEASUREMENTS_SLOT_SECONDS);
}

static void slot_add(struct device_measurements *device, int64_t number,
                     const double values[MEASURED_VALUES])
{
    struct slot *slot = &device->slots[number % MEASUREMENTS_SLOTS];

    if (slot->number > number) /* a newer time has taken its place */
        return;
    if (slot->number < number)
        *slot = (struct slot){.number = number};
    for (size_t i = 0; i < MEASURED_VALUES; i++)
        if (isfinite(values[i]) && slot->counts[i] < UINT16_MAX) {
            slot->sums[i] += (float)values[i];
            slot->counts[i]++;
        }
}

void measurements_put(struct measurements *measurements, const char *device, double from, double to,
                      const double values[MEASURED_VALUES])
{
    struct device_measurements *kept;
    int64_t first, last;

    if (!measurements || !(from > 0 && to >= from && to < 1e12))
        return;
    kept = device_make(measurements, device);
    if (!kept)
        return;
    first = slot_of(from);
    last = slot_of(to);
    if (last > kept->newest)
        kept->newest = last;
    if (first <= kept->newest - MEASUREMENTS_SLOTS)
        first = kept->newest - MEASUREMENTS_SLOTS + 1;
    for (int64_t number = first; number <= last; number++)
        slot_add(kept, number, values);
}

double measurements_get(const struct measurements *measurements, const char *device,
                        enum measured_value value, double now, size_t slots_ago)
{
    const struct device_measurements *kept =
        measurements ? device_at(measurements, place_of(measurements, device), device) : NULL;
    int64_t number = slot_of(now) - (int64_t)slots_ago;
    const struct slot *slot;

    if (!kept || number <= 0 || slots_ago >= MEASUREMENTS_SLOTS)
        return NAN;
    slot = &kept->slots[number % MEASUREMENTS_SLOTS];
    if (slot->number != number || slot->counts[value] == 0)
        return NAN;
    return slot->sums[value] / slot->counts[value];
}
