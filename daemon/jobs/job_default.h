/* job_default.h: decides where a command runs whose specification names no device (DefaultDevice).
 * Before its first run it is unknown whether the program uses a GPU. On a machine with GPUs it gets
 * one, so that programs that need a GPU work. If its last run there held no GPU memory, later runs
 * go to the CPU. */
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
