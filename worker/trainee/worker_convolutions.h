/* worker_convolutions.h: which convolutions of a model are done directly: by times measured on this
 * device, which are kept beside its calibration (worker_kept.h). Only a plan measures: its
 * attempts take its choice over (--choices), runs that go on take their checkpoint's, and a run by
 * hand without either does what the device thinks best. */
#pragma once

#include "worker/trainee/worker_setup.h"

/* Writes training.direct_convolutions of the specification. What cannot be measured is left to the
 * device. */
int worker_convolutions_choose(struct worker_setup *setup, struct error *error);
