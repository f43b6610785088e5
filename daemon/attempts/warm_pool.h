/* warm_pool.h: workers that wait for native jobs with their device open ([Nvidia] WarmWorkers of
 * the configuration): each beside a shim of its own (worker/shim/shim_warm.c), which a job is
 * handed in place of one that the fork server forks. What they hold of a device is what others hold
 * of it in its ledger, as measured, until they are a job's. Everything here runs on the loop, but
 * for the start of a process, which the thread pool does.
 *
 * They end when the daemon does, however it ends: their connection does. */
#pragma once

#include "daemon/context/context.h"
#include "proto/json.h"

struct device;

/* Starts what is missing, and ends what waits for a device that takes no jobs any more. */
void warm_pool_tend(struct daemon *daemon);

/* A shim whose worker is ready, for a native job with this specification on the device: the
 * connection that takes the job's request, which the caller closes. -1: there is none, or the job
 * wants an environment that programs read when they start. */
int warm_pool_take(struct daemon *daemon, const struct device *device, struct json_object *spec);

/* At the end; those that wait are let go. */
void warm_pool_stop(struct daemon *daemon);
