/* headroom.h: the devices' memory while jobs run: nobody's jobs push others out of it. */
#pragma once

#include <stdint.h>

struct device;
struct jobs;

void jobs_headroom_start(struct jobs *jobs);
void jobs_headroom_stop(struct jobs *jobs);
/* An attempt is on a device: looks after its memory from now on, while there is one. */
void jobs_headroom_watch(struct jobs *jobs);
/* A decision, if somebody has to leave a device that is beyond its high watermark and can. */
void jobs_headroom_check(struct jobs *jobs);
/* Bytes kept free for jobs that have only just started and whose need nobody knows. */
uint64_t headroom_ramp_up_reserve(const struct device *device, double now);
