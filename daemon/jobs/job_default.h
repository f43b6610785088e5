/* job_default.h: where a command goes whose specification names no device (DefaultDevice). What a
 * program does with a GPU nobody knows before it ran there: on a machine with GPUs it gets one, so
 * that those written for it work, and what its runs held of it decides from then on. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/work/job_table.h"

struct jobs;

/* Whether the default lets the job use the device; true for all that say where they go. */
bool job_default_allows(const struct jobs *jobs, const struct job *job,
                        const struct device *device);

/* What is assumed of the job, and how to say otherwise, as a sentence; "": nothing is, or the
 * machine leaves no choice. Returns `text`. */
char *job_default_explain(const struct jobs *jobs, const struct job *job, char *text, size_t size);
