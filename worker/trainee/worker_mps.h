/* worker_mps.h: shares a GPU through NVIDIA's Multi-Process Service (MPS,
 * https://docs.nvidia.com/deploy/mps/). Kernels of its clients run concurrently; those of other
 * processes take turns. A service belongs to one user and one GPU. `traind-worker mps` runs its
 * control daemon in a folder of that user, which clients get in CUDA_MPS_PIPE_DIRECTORY. Besides
 * MPS's own files, that folder contains:
 *     clients   each client holds a shared lock (flock(2)) on it while it lives
 *     opening   a client holds an exclusive lock on it while it opens its device
 *     ready     exists while clients may connect
 *     refused   one sentence that says why none may connect */
#pragma once

#include "base/error.h"
#include "worker/trainee/worker_options.h"

#include <stdbool.h>

enum {
    MPS_READY_SECONDS = 10, /* time for a service to begin */
    MPS_TURN_SECONDS = 10,  /* the longest wait for others that open their devices */
    MPS_OPEN_SECONDS = 30   /* time for a client to open its device */
};

/* Makes this process a client of the service in that folder until the process ends. Waits until the
 * service, which may have only just been started, is ready. -ECONNREFUSED, -ETIMEDOUT with a
 * sentence. */
int worker_mps_join(const char *folder, struct error *error);

/* Waits until no other client opens its device. The driver makes one context at a time, and of
 * several that are made together all are ready late: of twelve on an H200 each took 1.1 s, of one
 * alone 0.1 s. So a client that has its turn trains while the others open theirs. Returns a
 * descriptor, which the caller closes once the device is open. -1: it waited for too long, or the
 * service ended, and goes on without a turn. */
int worker_mps_take_turn(const char *folder);

/* Whether further clients may connect. If not, a client that waits for the service need not wait
 * any longer. */
bool worker_mps_is_ready(const char *folder);

/* Executes this program again in this process with the same arguments, but with the reason
 * (--mps-refused) in place of --mps. Returns only if that fails. */
int worker_mps_leave(const char *reason, struct error *error);
