/* calibrator.h: measures the speed of this machine's devices once, so that the duration of a plan
 * can be predicted. A process of the daemon's own user measures one device at a time, and only
 * while no job runs there. A job that comes meanwhile gets the device, and the measurement is
 * repeated later. Nothing that a job reports enters a calibration. Everything here runs on the
 * loop. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct jobs;
struct calibrator;

/* Does nothing if the configuration switches calibration off (Calibrate). */
void calibrator_start(struct jobs *jobs);
void calibrator_stop(struct jobs *jobs);
void calibrator_free(struct jobs *jobs);

/* Call this when a job or a planning run has begun or ended. A measurement that is in its way is
 * abandoned; a device that has become idle is measured soon. */
void calibrator_tend(struct jobs *jobs);

/* Plans are made for the CPU with `threads` threads, so the CPU is measured with as many, too. */
void calibrator_want_threads(struct jobs *jobs, int threads);

/* The process that is measuring now; 0: there is none. */
pid_t calibrator_pid(const struct jobs *jobs);
