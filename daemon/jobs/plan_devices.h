/* plan_devices.h: which devices beside the CPU a job's plan has to tell of: the GPUs that train and
 * that its specification allows, one of each type. */
#pragma once

#include "proto/json.h"

#include <stdbool.h>

struct job;
struct jobs;

/* Whether the plan, or with NULL the job's own, knows all of them. */
bool plan_devices_are_covered(const struct jobs *jobs, const struct job *job,
                              struct json_object *plan);

/* What a planning run is told of them (traind-worker plan --also): of each type the device with the
 * most memory left. NULL: none. The caller frees it. */
char *plan_devices_describe(const struct jobs *jobs, const struct job *job);
