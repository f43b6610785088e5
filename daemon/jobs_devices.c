/* jobs_devices.c: what a change of a device means for the jobs on it. */
#include "daemon/devices_nvidia.h"
#include "daemon/jobs_store.h"

#include <stdio.h>

/* The processes of a job on a device that is lost may hang: they are stopped, and killed when they
 * do not end. The job goes on from its last checkpoint. */
static void stop_on_lost(const struct device *device)
{
    for (size_t i = 0; i < device->attempt_count; i++) {
        struct attempt *attempt = device->attempts[i];

        if (attempt->intent != ENDING_NONE || attempt->gone)
            continue;
        snprintf(attempt->stop_reason, sizeof attempt->stop_reason, "%s was lost: %s", device->name,
                 device->health_reason);
        attempt_stop(attempt, ENDING_LOST);
    }
}

void jobs_device_changed(struct daemon *daemon, struct device *device)
{
    if (device->health == DEVICE_LOST)
        stop_on_lost(device);
    jobs_dispatch(daemon->jobs);
}
