/* headroom.h: watches the devices' memory while jobs run, so that no job pushes another program's
 * data out of it. */
#pragma once

#include <stdint.h>

struct device;
struct jobs;

void jobs_headroom_start(struct jobs *jobs);
void jobs_headroom_stop(struct jobs *jobs);
/* An attempt is on a device: watches the memory from now on, for as long as any attempt is on a
 * device. */
void jobs_headroom_watch(struct jobs *jobs);
/* Makes a decision due if a device is above its high watermark and one of its jobs can leave. */
void jobs_headroom_check(struct jobs *jobs);
/* Bytes of the device that are kept free for jobs that have just started and whose need is
 * unknown. */
uint64_t headroom_ramp_up_reserve(const struct device *device, double now);
