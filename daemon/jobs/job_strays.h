/* job_strays.h: commands that hold memory of a device that they were not given. They are told so,
 * and their next run gets a GPU unless it names a device. */
#pragma once

#include "daemon/devices/device.h"

struct jobs;

/* Takes in that processes of the claim's attempt hold so many bytes of the device. */
void job_strays_take(struct daemon *daemon, struct device *device, struct device_claim *claim,
                     uint64_t held);

/* Called once a second while jobs run: has the devices read now and then, which are not read
 * otherwise while commands run on the CPU alone. */
void job_strays_look(struct jobs *jobs);
