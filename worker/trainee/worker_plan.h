/* worker_plan.h: the plan of a job, for the device that its setup has open and for others. */
#pragma once

#include "proto/json.h"
#include "worker/trainee/worker_setup.h"

/* Plans for the setup's device. The caller owns `plan`, also after a failure. */
int worker_plan_make(const struct worker_options *options, struct worker_setup *setup,
                     struct json_object **plan, struct error *error);

/* Adds `devices` to the plan: for each device of --also what the same batches take there, or why it
 * cannot run them ("runs", "cause", "reason"; docs/internals/plan.md). Where the plan
 * chose the batch size and a device has room for smaller ones alone, the plan is made again with
 * those, so that the run can go to every device. -EINVAL: --also cannot be read; what
 * worker_plan_make() says. */
int worker_plan_devices(const struct worker_options *options, struct worker_setup *setup,
                        struct json_object **plan, struct error *error);
