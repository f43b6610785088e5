/* warm_pool.h: workers that have opened their device and wait for native jobs ([Nvidia] WarmWorkers
 * of the configuration). Each has a shim of its own (worker/shim/shim_warm.c); a job gets that shim
 * instead of one from the fork server. Until then the ledger counts a worker's device memory as
 * held by other programs. Everything here runs on the loop, except the start of a process, which
 * the thread pool does.
 *
 * The workers end when the daemon ends, even if it is killed, because their connection closes. */
#pragma once

#include "daemon/context/context.h"
#include "proto/json.h"

struct device;

/* Starts missing workers, and ends those whose device takes no jobs any more. */
void warm_pool_tend(struct daemon *daemon);

/* Takes a shim with a ready worker for a native job with this specification on the device. Returns
 * the connection to which the caller sends the job's request; the caller closes it. -1: no worker
 * is ready, or the job sets environment variables that a program reads only at its start. */
int warm_pool_take(struct daemon *daemon, const struct device *device, struct json_object *spec);

/* Ends all waiting workers when the daemon ends. */
void warm_pool_stop(struct daemon *daemon);
