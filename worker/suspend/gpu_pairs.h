/* gpu_pairs.h: which GPU takes the place of which when processes come back to other GPUs.
 *
 * cuCheckpointProcessRestore() asks that the pairs "contain every checkpointed GPU". The driver
 * counts all GPUs of the machine among those, also when CUDA_VISIBLE_DEVICES shows the process
 * fewer (seen on two H200 with driver 580: one pair for the one GPU of a process is refused). */
#pragma once

#include "worker/suspend/cuda_driver.h"

enum { GPU_PAIRS_MAX = 64 };

/* Reads "OLD_UUID=NEW_UUID[,...]", or "-" for none, and changes the text. Returns how many there
 * are, or -EINVAL. */
int gpu_pairs_parse(char *text, struct cuda_gpu_pair pairs[GPU_PAIRS_MAX]);

/* Adds the machine's other GPUs, so that each is once the old one and once the new one. A GPU that
 * is neither stays itself. Returns how many pairs there are then: as many as before if the driver
 * does not list its GPUs, or if these pairs cannot be part of such a list. */
int gpu_pairs_complete(const struct cuda_driver *driver, struct cuda_gpu_pair pairs[GPU_PAIRS_MAX],
                       int count);
