/* jobs_devices.c: what a change of a device means for the jobs on it. */
#include "daemon/devices_nvidia.h"
#include "daemon/jobs_store.h"

#include <stdio.h>

/* The processes of a job on a device that is lost may hang: they are stopped, and killed when they
 * do not end. The job goes on from its last checkpoint. */
static void leave_lost(struct daemon *daemon, struct device *device)
{
    char reason[2 * DEVICE_REASON_MAX];

    snprintf(reason, sizeof reason, "%s was lost: %s", device->name, device->health_reason);
    jobs_leave_device(daemon, device, PREEMPTION_DEVICE_LOST, reason);
}

void jobs_device_changed(struct daemon *daemon, struct device *device)
{
    if (device->health == DEVICE_LOST)
        leave_lost(daemon, device);
    jobs_dispatch(daemon->jobs);
}
