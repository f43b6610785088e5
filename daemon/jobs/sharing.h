/* sharing.h: decides which jobs share their GPU through NVIDIA's MPS (attempts/mps_services.h). */
#pragma once

#include "proto/json.h"

#include <limits.h>
#include <stdbool.h>

struct attempt;
struct device;
struct job;
struct jobs;

/* Whether the job would share that GPU with other jobs of its user through MPS. */
bool sharing_is_possible(const struct jobs *jobs, const struct job *job,
                         const struct device *device);
/* Call this before the launch of a native job on a GPU. True: the job uses MPS, and `folder` is the
 * folder of its service. */
bool sharing_join(struct attempt *attempt, struct json_object *spec, char folder[PATH_MAX]);
/* The processes of the attempt are gone: it leaves its MPS service, if it used one. */
void sharing_leave(struct attempt *attempt);
