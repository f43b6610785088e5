/* worker_plan.h: makes the plan of a job, for the setup's open device and for others. */
#pragma once

#include "proto/json.h"
#include "worker/trainee/worker_setup.h"

/* Plans for the setup's device. The caller owns `plan`, also after a failure. */
int worker_plan_make(const struct worker_options *options, struct worker_setup *setup,
                     struct json_object **plan, struct error *error);

/* Adds `devices` to the plan: for each device of --also what the same batches need there, or why it
 * cannot run them ("runs", "cause", "reason"; docs/internals/plan.md). If the plan chose the batch
 * size and a device fits only smaller ones, the plan is made again with these, so that the run can
 * use every device. -EINVAL: --also is not valid; otherwise the errors of worker_plan_make(). */
int worker_plan_devices(const struct worker_options *options, struct worker_setup *setup,
                        struct json_object **plan, struct error *error);
