/* calibrator.h: measures the devices of this machine once, so that the time of a plan can be
 * predicted: as the daemon's own user, in a process of its own, one device at a time, and only
 * while nothing of ours runs there. Who wants the device meanwhile gets it, and it is measured
 * later. What jobs say of a device counts for nothing here. Everything runs on the loop. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct jobs;
struct calibrator;

/* Nothing is measured where the configuration says so (Calibrate). */
void calibrator_start(struct jobs *jobs);
void calibrator_stop(struct jobs *jobs);
void calibrator_free(struct jobs *jobs);

/* Something has begun or ended on a device, or planning has: what is measured there is given up, or
 * begun soon. */
void calibrator_tend(struct jobs *jobs);

/* Plans are made for the CPU with so many threads: it is measured with them, too. */
void calibrator_want_threads(struct jobs *jobs, int threads);

/* The process that measures now; 0: none does. */
pid_t calibrator_pid(const struct jobs *jobs);
