/* strays.c: see strays.h. */
#include "daemon/devices/strays.h"

#include "daemon/context/context.h"

static bool is_given(const struct device_claim *claim, const struct device *device)
{
    for (int i = 0; i < claim->device_count; i++)
        if (claim->devices[i] == device ||
            (claim->devices[i]->ledger == device && claim->devices[i]->same_hardware))
            return true;
    return false;
}

static uint64_t held_by(const struct device_claim *claim, const struct process_use *processes,
                        size_t count)
{
    uint64_t held = 0;

    for (size_t i = 0; i < count; i++)
        if (process_is_of(&processes[i], &claim->pid, 1))
            held += processes[i].memory;
    return held;
}

void strays_find(struct daemon *daemon, struct device *device, const struct process_use *processes,
                 size_t count)
{
    for (size_t d = 0; count > 0 && d < daemon->devices->count; d++) {
        const struct device *other = daemon->devices->list[d];

        for (size_t i = 0; i < other->claim_count; i++) {
            struct device_claim *claim = other->claims[i];
            uint64_t held;

            /* a reading may be older than the suspension; a frozen process keeps some megabytes */
            if (claim->suspended)
                claim->strays_on = NULL;
            /* traind-worker opens no other device; a claim on several is told once */
            if (claim->suspended || claim->is_one_process || claim->pid <= 0 ||
                claim->devices[0] != other || is_given(claim, device))
                continue;
            held = held_by(claim, processes, count);
            if (held > 0)
                daemon->devices->listener->strayed(daemon, device, claim, held);
        }
    }
}
