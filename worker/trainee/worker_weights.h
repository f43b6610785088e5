/* worker_weights.h: the weights that a training begins with (`weights` of the specification): which
 * tensors of the file the model takes, and what does not fit. */
#pragma once

#include "engine/train/session.h"
#include "worker/trainee/worker_setup.h"

/* Compares the file with the model and fails with one sentence that lists all parameters and
 * statistics that it lacks or has in another shape; prints the whole list to standard error if the
 * sentence has no room for it. Adds a warning to setup->data_warnings about what the model does not
 * take. Does nothing without `weights`. */
int worker_weights_check(struct worker_setup *setup, struct error *error);

/* Writes the weights into an allocated session. What is drawn anew stays as it is. */
int worker_weights_load(const struct worker_setup *setup, struct session *session,
                        struct error *error);
