/* plan_devices.h: which devices beside the CPU a job's plan must cover: one GPU of each type that
 * can train and that the specification allows. */
#pragma once

#include "proto/json.h"

#include <stdbool.h>

struct job;
struct jobs;

/* Whether the plan covers all of them. `plan` NULL: the plan that the job has. */
bool plan_devices_are_covered(const struct jobs *jobs, const struct job *job,
                              struct json_object *plan);

/* Describes them for a planning run (traind-worker plan --also): of each type the device with the
 * most memory left. NULL: there are none. The caller frees the text. */
char *plan_devices_describe(const struct jobs *jobs, const struct job *job);
