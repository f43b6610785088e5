/* job_default.h: decides where a command runs whose specification names no device. On a machine
 * with GPUs the first of these that is known decides:
 *
 * - whether earlier runs of the command held memory of a GPU;
 * - the specification's guess, which the client makes of what the command is;
 * - DefaultDevice of the configuration. By default it is a GPU, so that programs that need one
 *   work. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/work/job_table.h"

struct jobs;

/* Whether the default lets the job use the device. True if the job's specification or its pin says
 * where it runs. */
bool job_default_allows(const struct jobs *jobs, const struct job *job,
                        const struct device *device);

/* Says in a sentence which default applies to the job and how to choose otherwise. "": none
 * applies, or the machine has no GPU to choose. Returns `text`. */
char *job_default_explain(const struct jobs *jobs, const struct job *job, char *text, size_t size);
