/* device_faults.h: what an error of a GPU that a trainee tells of means for the device. */
#pragma once

#include "daemon/job_rules.h"
#include "daemon/supervisor.h"

/* The attempt on the device has ended. What the device alone is to blame for quarantines it; of
 * other errors FAULTS_TO_QUARANTINE of different work, with no good end in between. */
void device_take_fault(struct daemon *daemon, struct device *device, const struct attempt *attempt,
                       const struct attempt_end *end);
