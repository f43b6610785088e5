/* job_exclusion.h: why a job may not go to a device, in a sentence that names what to change. */
#pragma once

#include "daemon/jobs/job_needs.h"

/* Explains why job_needs_allow() refuses the device. Returns `text`. */
char *job_exclusion_explain(const struct job_needs *needs, enum job_kind kind,
                            const struct device *device, char *text, size_t size);
