/* job_warning.h: warnings of the daemon about a job, which Show lists. */
#pragma once

#include "daemon/context/context.h"

#include <stdint.h>

/* Stores the sentence as an event of the attempt, and tells those who follow the job. */
void job_warn(struct daemon *daemon, int64_t job, int64_t attempt, const char *sentence);
