/* worker_add_norm.h: whether the model's residuals are added and normalised by one operator. */
#pragma once

#include "worker/trainee/worker_setup.h"

/* Decides model.add_norm where the specification leaves it open: apart where the device lacks an
 * operator for both, which becomes a warning of the setup. */
void worker_add_norm_choose(struct worker_setup *setup);
