/* worker_precision.h: the precision of a setup's run: what its specification wants, what a plan or
 * a checkpoint has chosen, or, for auto, what is faster with this model on this device, measured
 * once and kept in the user's cache. */
#pragma once

#include "worker/trainee/worker_options.h"
#include "worker/trainee/worker_setup.h"

/* Of a setup whose device is open. `evaluates`: nothing is measured,
 * worker_precision_adopt() follows. */
int worker_precision_choose(const struct worker_options *options, bool evaluates,
                            struct worker_setup *setup, struct error *error);

/* With auto: what the checkpoint was trained in, so that a run goes on as it was and an evaluation
 * calculates as the training did. A run on another model of device keeps its own choice. */
void worker_precision_adopt(const struct checkpoint_state *checkpoint, bool evaluates,
                            struct worker_setup *setup);
