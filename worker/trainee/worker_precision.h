/* worker_precision.h: chooses the precision of a setup's run: the specification's, or that of a
 * plan or a checkpoint. For auto it measures once which is faster for this model on this device,
 * and keeps the result in the user's cache. */
#pragma once

#include "worker/trainee/worker_options.h"
#include "worker/trainee/worker_setup.h"

/* Chooses for a setup whose device is open. `evaluates`: does not measure, because
 * worker_precision_adopt() follows. */
int worker_precision_choose(const struct worker_options *options, bool evaluates,
                            struct worker_setup *setup, struct error *error);

/* With auto, adopts the precision that the checkpoint was trained in, for resumed runs and
 * evaluations. A run on another model of device keeps its own choice. */
void worker_precision_adopt(const struct checkpoint_state *checkpoint, bool evaluates,
                            struct worker_setup *setup);
