/* sharing.h: which jobs share their GPU by NVIDIA's MPS (attempts/mps_services.h). */
#pragma once

#include "proto/json.h"

#include <limits.h>
#include <stdbool.h>

struct attempt;
struct device;
struct job;
struct jobs;

/* Whether the job would share that GPU with others of its user by MPS. */
bool sharing_is_possible(const struct jobs *jobs, const struct job *job,
                         const struct device *device);
/* Before the launch of a native job on a GPU: true where it will, by the service of that folder. */
bool sharing_join(struct attempt *attempt, struct json_object *spec, char folder[PATH_MAX]);
/* Its processes are gone. */
void sharing_leave(struct attempt *attempt);
