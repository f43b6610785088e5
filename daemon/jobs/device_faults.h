/* device_faults.h: what an error of a GPU that a trainee tells of means for the device. A record is
 * its user's word: it has the probe look, and what the probe says counts. */
#pragma once

#include "daemon/attempts/supervisor.h"
#include "daemon/work/job_rules.h"

/* An attempt that blames its device has the probe look at it first: `done` runs on the loop once it
 * has answered, or does not answer in time. False: there is nothing to look at, or it has been. */
bool device_fault_look(struct attempt *attempt, void (*done)(struct attempt *attempt));

/* Whether the probe finds the device at fault, or cannot find it any more. */
bool device_fault_is_confirmed(const struct attempt *attempt);

/* The attempt on the device has ended. Of errors that the probe knows nothing about, those
 * of FAULTS_TO_QUARANTINE users quarantine the device, of different work, one after the
 * other and with no good end in between. Whom the service belongs to (root, its own user)
 * needs nobody beside him. */
void device_fault_take(struct daemon *daemon, struct device *device, const struct attempt *attempt,
                       const struct attempt_end *end);
