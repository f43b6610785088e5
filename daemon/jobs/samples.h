/* samples.h: samples the use of each device and the length of the queue in a fixed period (Period
 * of [History]), and stores them once a minute: store/sample_rows.h. A daemon that is killed loses
 * the samples of the last minute. */
#pragma once

#include "daemon/context/context.h"

struct jobs;

/* Begins to sample, unless the configuration says never. */
void samples_start(struct jobs *jobs);
/* Takes no further sample, and hands those in that are not stored yet. */
void samples_stop(struct jobs *jobs);
void samples_free(struct jobs *jobs);

/* Seconds from one sample to the next; 0: none is taken. */
double samples_period(const struct daemon *daemon);

/* Calls `done` once all samples so far are stored, or cannot be; at once if they are, or could not
 * be a moment ago. */
void samples_flush(struct daemon *daemon, void (*done)(void *data), void *data);
