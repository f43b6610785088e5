/* device_faults.h: handles GPU errors that trainees report. A trainee's record is only its user's
 * word, so the daemon probes the device and believes the probe. */
#pragma once

#include "daemon/attempts/attempt.h"
#include "daemon/work/job_rules.h"

/* Probes the device of an attempt that reported a device error. `done` runs on the loop once the
 * probe has answered, or has not answered in time. False, and no call of `done`: the attempt
 * reported no error, or its device has been probed for it already. */
bool device_fault_look(struct attempt *attempt, void (*done)(struct attempt *attempt));

/* Whether the probe found the device at fault (quarantined) or did not find it at all (lost). */
bool device_fault_is_confirmed(const struct attempt *attempt);

/* Counts the end of an attempt on the device as evidence. The device is quarantined after
 * FAULTS_TO_QUARANTINE errors that the probe does not confirm. Each of them must come from another
 * user and other work than the one before, with no good run in between. Errors of root and of the
 * daemon's own user need only come from other work. */
void device_fault_take(struct daemon *daemon, struct device *device, const struct attempt *attempt,
                       const struct attempt_end *end);
