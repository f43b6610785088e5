/* sharing.h: decides which jobs share their device through the service of its kind
 * (attempts/sharing_services.h). */
#pragma once

#include "proto/json.h"

#include <stdbool.h>

struct attempt;
struct device;
struct job;
struct jobs;

/* Whether the job would share that device with other jobs of its user through a service. */
bool sharing_is_possible(const struct jobs *jobs, const struct job *job,
                         const struct device *device);
/* Call this before the launch of a native job on one device. True: the job uses the service, and
 * `*folder` is the folder of its service, which the caller frees. */
bool sharing_join(struct attempt *attempt, struct json_object *spec, char **folder);
/* The processes of the attempt are gone: it leaves its service, if it used one. */
void sharing_leave(struct attempt *attempt);
