/* placement.c: see placement.h. */
#include "scheduler/placement.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static bool names_device(const char *name, const struct placement_device *device)
{
    return strcmp(name, device->name) == 0 || strcmp(name, device->kind) == 0;
}

bool placement_allows(const struct placement_need *need, const struct placement_device *device)
{
    if (need->allowed_count == 0)
        return true;
    for (size_t i = 0; i < need->allowed_count; i++)
        if (names_device(need->allowed[i], device))
            return true;
    return false;
}

/* Bytes that the device may hold in all; UINT64_MAX without a limit. */
static uint64_t device_limit(const struct placement_device *device)
{
    if (device->high_watermark_ratio <= 0)
        return UINT64_MAX;
    return (uint64_t)(device->high_watermark_ratio * (double)device->memory_capacity);
}

static uint64_t device_free(const struct placement_device *device)
{
    uint64_t limit = device_limit(device);
    uint64_t held = device->memory_booked + device->memory_outside;

    return held < limit ? limit - held : 0;
}

static enum placement_verdict device_judge(const struct placement_need *need,
                                           const struct placement_device *device)
{
    if (device->lost || need->memory > device_limit(device))
        return PLACEMENT_IMPOSSIBLE;
    if (device->draining)
        return PLACEMENT_WAIT_DRAINING;
    if (device->slots_used >= device->slots)
        return PLACEMENT_WAIT_SLOT;
    if (need->memory > device_free(device))
        return PLACEMENT_WAIT_MEMORY;
    return PLACEMENT_START;
}

/* Lower is better: START first, then what ends soonest by itself. */
static int verdict_rank(enum placement_verdict verdict)
{
    static const int ranks[] = {[PLACEMENT_START] = 0,
                                [PLACEMENT_WAIT_SLOT] = 1,
                                [PLACEMENT_WAIT_MEMORY] = 2,
                                [PLACEMENT_WAIT_DRAINING] = 3,
                                [PLACEMENT_IMPOSSIBLE] = 4};

    return ranks[verdict];
}

static void explain_start(struct placement *placement, const struct placement_need *need,
                          const struct placement_device *device, size_t candidates)
{
    char wanted[32], available[32];
    const char *why = candidates == 1 ? "the only device allowed"
                      : need->preferred && names_device(need->preferred, device)
                          ? "the preferred device"
                          : "the most free memory of the devices allowed";

    text_format_bytes(need->memory, wanted, sizeof wanted);
    text_format_bytes(device_free(device), available, sizeof available);
    if (device_limit(device) == UINT64_MAX)
        snprintf(placement->reason, sizeof placement->reason, "%s: %s; no memory limit is set",
                 device->name, why);
    else if (need->memory)
        snprintf(placement->reason, sizeof placement->reason, "%s: %s; %s of %s free needed",
                 device->name, why, wanted, available);
    else
        snprintf(placement->reason, sizeof placement->reason, "%s: %s; %s free, its need unknown",
                 device->name, why, available);
}

static void explain_wait(struct placement *placement, const struct placement_need *need,
                         const struct placement_device *device)
{
    char wanted[32], available[32], limit[32], outside[32];

    text_format_bytes(need->memory, wanted, sizeof wanted);
    text_format_bytes(device_free(device), available, sizeof available);
    text_format_bytes(device_limit(device), limit, sizeof limit);
    text_format_bytes(device->memory_outside, outside, sizeof outside);
    switch (placement->verdict) {
    case PLACEMENT_WAIT_SLOT:
        snprintf(placement->reason, sizeof placement->reason, "waits for %s: %s taken",
                 device->name, device->slots == 1 ? "its one slot is" : "all of its slots are");
        break;
    case PLACEMENT_WAIT_MEMORY:
        snprintf(placement->reason, sizeof placement->reason,
                 "waits for memory on %s: %s needed, %s free below its limit of %s, %s held by "
                 "other programs",
                 device->name, wanted, available, limit, outside);
        break;
    case PLACEMENT_WAIT_DRAINING:
        snprintf(placement->reason, sizeof placement->reason,
                 "waits: %s is draining and takes no new jobs", device->name);
        break;
    case PLACEMENT_IMPOSSIBLE:
        if (device->lost)
            snprintf(placement->reason, sizeof placement->reason, "%s is lost", device->name);
        else
            snprintf(placement->reason, sizeof placement->reason,
                     "needs %s, and %s may hold %s at most (high_watermark_ratio %.2f)", wanted,
                     device->name, limit, device->high_watermark_ratio);
        break;
    case PLACEMENT_START:
        break;
    }
}

static void explain_not_allowed(struct placement *placement, const struct placement_need *need,
                                const struct placement_device *devices, size_t count)
{
    char allowed[96] = "", present[96] = "";
    size_t used = 0;

    for (size_t i = 0; i < need->allowed_count && used < sizeof allowed; i++)
        used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "",
                                 need->allowed[i]);
    used = 0;
    for (size_t i = 0; i < count && used < sizeof present; i++)
        used += (size_t)snprintf(present + used, sizeof present - used, "%s%s", i ? ", " : "",
                                 devices[i].name);
    snprintf(placement->reason, sizeof placement->reason,
             "no device that the job allows is here: it allows %.80s, this machine has "
             "%.80s",
             allowed, count ? present : "none");
}

struct placement placement_decide(const struct placement_need *need,
                                  const struct placement_device *devices, size_t count)
{
    struct placement placement = {.verdict = PLACEMENT_IMPOSSIBLE};
    size_t best = SIZE_MAX, candidates = 0;

    for (size_t i = 0; i < count; i++) {
        enum placement_verdict verdict;
        bool better;

        if (!placement_allows(need, &devices[i]))
            continue;
        candidates++;
        verdict = device_judge(need, &devices[i]);
        if (best == SIZE_MAX || verdict_rank(verdict) < verdict_rank(placement.verdict)) {
            better = true;
        } else if (verdict != placement.verdict) {
            better = false;
        } else {
            bool this_preferred = need->preferred && names_device(need->preferred, &devices[i]);
            bool best_preferred = need->preferred && names_device(need->preferred, &devices[best]);

            better = this_preferred != best_preferred
                         ? this_preferred
                         : device_free(&devices[i]) > device_free(&devices[best]);
        }
        if (better) {
            best = i;
            placement.verdict = verdict;
        }
    }
    if (best == SIZE_MAX) {
        explain_not_allowed(&placement, need, devices, count);
        return placement;
    }
    placement.device = best;
    if (placement.verdict == PLACEMENT_START)
        explain_start(&placement, need, &devices[best], candidates);
    else
        explain_wait(&placement, need, &devices[best]);
    return placement;
}
