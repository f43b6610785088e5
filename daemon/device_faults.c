/* device_faults.c: see device_faults.h. A kernel that reads where it must not is a bug of whoever
 * wrote it, most of the time: the same work would fail anywhere. Different work that fails on one
 * device, one after the other, points to the device. */
#include "daemon/device_faults.h"

#include "base/log.h"
#include "daemon/device_states.h"
#include "daemon/job_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FAULTS_TO_QUARANTINE = 2 };

void device_take_fault(struct daemon *daemon, struct device *device, const struct attempt *attempt,
                       const struct attempt_end *end)
{
    const char *digest = attempt->job->workload->digest;
    char reason[DEVICE_REASON_MAX];

    if (end->fault == DEVICE_FAULT_NONE) {
        if (end->exit_status == 0 || attempt->steps_timed > 0)
            device->faults = 0;
        return;
    }
    log_warning("job %" PRId64 " on %s: %s: %s", attempt->job_id, device->name,
                device_fault_to_string(end->fault), end->message ? end->message : "");
    if (device->faults == 0 || strcmp(device->fault_digest, digest) != 0)
        device->faults++;
    snprintf(device->fault_digest, sizeof device->fault_digest, "%s", digest);
    if (device->health == DEVICE_QUARANTINED ||
        (!device_fault_is_its_own(end->fault) && device->faults < FAULTS_TO_QUARANTINE))
        return;
    snprintf(reason, sizeof reason, "job %" PRId64 ": %s: %.100s", attempt->job_id,
             device_fault_to_string(end->fault), end->message ? end->message : "");
    device_state_set(daemon, device, DEVICE_QUARANTINED, reason, 0, NULL, NULL);
    device->faults = 0;
}
