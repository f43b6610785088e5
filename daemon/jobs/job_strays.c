/* job_strays.c: see job_strays.h. */
#include "daemon/jobs/job_strays.h"

#include "base/clock.h"
#include "base/text.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/job_warning.h"
#include "daemon/jobs/parts.h"

#include <stdio.h>

/* A program has loaded its libraries and opened the device after some seconds. The pauses double,
 * since a reading costs milliseconds of each device. One that sleeps is not read: no process has it
 * open. */
static const double first_look_seconds = 2, longest_pause_seconds = 120;

void job_strays_take(struct daemon *daemon, struct device *device, struct device_claim *claim,
                     uint64_t held)
{
    char given[128], bytes[32], sentence[JOB_REASON_MAX];

    if (claim->strays_on != device) { /* the reading may be older than a move: the next one tells */
        claim->strays_on = device;
        claim->next_look = clock_now();
        return;
    }
    if (held > claim->device_memory_peak)
        claim->device_memory_peak = held;
    if (claim->strayed || !claim->attempt->job)
        return;
    claim->strayed = true;
    devices_name((const struct device *const *)claim->devices, claim->device_count, given,
                 sizeof given);
    snprintf(sentence, sizeof sentence,
             "its processes hold %s of %s, but it was given %s, so others do not make room for "
             "that. Submit it with --device %s, and leave CUDA_VISIBLE_DEVICES as traind sets it",
             text_format_bytes(held, bytes, sizeof bytes), device->name, given,
             device->driver->kind.name);
    job_warn(daemon, claim->job, claim->number, sentence);
}

static void on_read(void *data)
{
    (void)data; /* the reading has called job_strays_take() */
}

/* Whether it is time to look where the claim's command is. */
static bool is_due(struct device_claim *claim, double now)
{
    double age = now - claim->attempt->started;
    double pause = age < longest_pause_seconds ? age : longest_pause_seconds;

    if (claim->is_one_process || claim->suspended || claim->pid <= 0 ||
        claim->attempt->started <= 0 || age < first_look_seconds || now < claim->next_look)
        return false;
    claim->next_look = now + pause;
    return true;
}

void job_strays_look(struct jobs *jobs)
{
    const struct devices *devices = jobs->daemon->devices;
    double now = clock_now();
    bool due = false;

    for (size_t d = 0; d < devices->count; d++) {
        const struct device *device = devices->list[d];

        for (size_t i = 0; device->driver->kind.is_host && i < device->claim_count; i++)
            due |= is_due(device->claims[i], now);
    }
    if (due)
        devices_refresh(jobs->daemon, DEVICE_READING_AWAKE, on_read, NULL);
}
