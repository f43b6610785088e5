/* history.c: see history.h. Each device has a ring of slots; a slot knows which time it is of, so
 * that the ring needs no clearing. */
#include "client/top/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    int64_t number; /* time / HISTORY_SLOT_SECONDS; 0: empty */
    float sums[HISTORY_VALUES];
    uint16_t counts[HISTORY_VALUES];
};

struct device_history {
    char *name; /* owned */
    int64_t newest;
    struct slot slots[HISTORY_SLOTS];
};

struct history {
    struct device_history **devices; /* owned, sorted by name */
    size_t count, room;
};

struct history *history_new(void)
{
    return calloc(1, sizeof(struct history));
}

void history_free(struct history *history)
{
    if (!history)
        return;
    for (size_t i = 0; i < history->count; i++) {
        free(history->devices[i]->name);
        free(history->devices[i]);
    }
    free(history->devices);
    free(history);
}

/* Where the device is, or belongs. */
static size_t place_of(const struct history *history, const char *device)
{
    size_t low = 0, high = history->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(history->devices[middle]->name, device) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct device_history *device_at(const struct history *history, size_t place,
                                        const char *device)
{
    if (place < history->count && strcmp(history->devices[place]->name, device) == 0)
        return history->devices[place];
    return NULL;
}

/* The device's history, made where there is none; NULL: not enough memory. */
static struct device_history *device_make(struct history *history, const char *device)
{
    size_t place = place_of(history, device);
    struct device_history *found = device_at(history, place, device);

    if (found)
        return found;
    if (history->count == history->room) {
        size_t room = history->room ? 2 * history->room : 16;
        struct device_history **grown = reallocarray(history->devices, room, sizeof *grown);

        if (!grown)
            return NULL;
        history->devices = grown;
        history->room = room;
    }
    found = calloc(1, sizeof *found);
    if (found)
        found->name = strdup(device);
    if (!found || !found->name) {
        free(found);
        return NULL;
    }
    memmove(history->devices + place + 1, history->devices + place,
            (history->count - place) * sizeof *history->devices);
    history->devices[place] = found;
    history->count++;
    return found;
}

static int64_t slot_of(double time)
{
    return (int64_t)floor(time / HISTORY_SLOT_SECONDS);
}

static void slot_add(struct device_history *device, int64_t number,
                     const double values[HISTORY_VALUES])
{
    struct slot *slot = &device->slots[number % HISTORY_SLOTS];

    if (slot->number > number) /* a newer time has taken its place */
        return;
    if (slot->number < number)
        *slot = (struct slot){.number = number};
    for (size_t i = 0; i < HISTORY_VALUES; i++)
        if (isfinite(values[i]) && slot->counts[i] < UINT16_MAX) {
            slot->sums[i] += (float)values[i];
            slot->counts[i]++;
        }
}

void history_put(struct history *history, const char *device, double from, double to,
                 const double values[HISTORY_VALUES])
{
    struct device_history *kept;
    int64_t first, last;

    if (!history || !(from > 0 && to >= from && to < 1e12))
        return;
    kept = device_make(history, device);
    if (!kept)
        return;
    first = slot_of(from);
    last = slot_of(to);
    if (last > kept->newest)
        kept->newest = last;
    if (first <= kept->newest - HISTORY_SLOTS)
        first = kept->newest - HISTORY_SLOTS + 1;
    for (int64_t number = first; number <= last; number++)
        slot_add(kept, number, values);
}

double history_get(const struct history *history, const char *device, enum history_value value,
                   double now, size_t slots_ago)
{
    const struct device_history *kept =
        history ? device_at(history, place_of(history, device), device) : NULL;
    int64_t number = slot_of(now) - (int64_t)slots_ago;
    const struct slot *slot;

    if (!kept || number <= 0 || slots_ago >= HISTORY_SLOTS)
        return NAN;
    slot = &kept->slots[number % HISTORY_SLOTS];
    if (slot->number != number || slot->counts[value] == 0)
        return NAN;
    return slot->sums[value] / slot->counts[value];
}
