/* worker_spec_train.h: the keys of `train`. Internal to worker_spec.c. */
#pragma once

#include "worker/trainee/worker_spec.h"

/* Fills spec->training from train. -ENOMEM. */
int worker_spec_read_train(struct worker_spec *spec, struct error *error);
