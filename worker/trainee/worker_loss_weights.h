/* worker_loss_weights.h: what classes and samples count in the loss, by the specification. */
#pragma once

#include "worker/trainee/worker_setup.h"

/* Makes setup->loss_weights of train.class_weights and the data's weights of samples, if there are
 * any, and sets the augmentation's. After the data were split. -EINVAL names a label that the data
 * lack. */
int worker_loss_weights_make(struct worker_setup *setup, struct error *error);
