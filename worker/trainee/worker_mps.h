/* worker_mps.h: sharing a GPU by NVIDIA's Multi-Process Service (MPS,
 * https://docs.nvidia.com/deploy/mps/): the kernels of its clients run side by side, where those of
 * other processes take turns. A service is of one user and one GPU: `traind-worker mps` runs its
 * control daemon in a folder of that user's, which CUDA_MPS_PIPE_DIRECTORY names to the clients.
 *
 * In that folder lie, beside what MPS puts there:
 *     clients   locked (flock(2)) by each client as long as it lives, shared
 *     ready     from when clients may come until they may no more
 *     refused   why none may come: a sentence */
#pragma once

#include "base/error.h"
#include "worker/trainee/worker_options.h"

#include <stdbool.h>

enum {
    MPS_READY_SECONDS = 10, /* that a service has to begin */
    MPS_OPEN_SECONDS = 30   /* that a client has to open its device */
};

/* Becomes a client of the service of that folder, which may have only just been started: waits
 * until it is ready, and is counted as a client until the process ends. -ECONNREFUSED, -ETIMEDOUT
 * with a sentence. */
int worker_mps_join(const char *folder, struct error *error);

/* Whether further clients may come: one that waits for an answer of the service need not wait on
 * where none may. */
bool worker_mps_is_ready(const char *folder);

/* Starts this program again in this process, with the same arguments but for --mps, in whose place
 * it is told the reason. Returns only if that fails. */
int worker_mps_leave(const char *reason, struct error *error);
