/* worker_spec_train.h: reads the keys of `train`. Only worker_spec.c uses it. */
#pragma once

#include "worker/trainee/worker_spec.h"

/* Fills spec->training from train. -ENOMEM. */
int worker_spec_read_train(struct worker_spec *spec, struct error *error);
