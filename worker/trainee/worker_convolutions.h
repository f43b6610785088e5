/* worker_convolutions.h: chooses which convolutions of a model are computed directly. It uses times
 * measured on this device, which are kept beside its calibration (worker_kept.h). Only plans and
 * advice measure. A plan's attempts take over its choice (--choices), and resumed runs take their
 * checkpoint's. A manual run without either uses the device's default. */
#pragma once

#include "worker/trainee/worker_setup.h"

/* Sets training.direct_convolutions of the specification. `measures`: what was never measured is
 * measured now; else, or if measuring fails, the device decides. */
int worker_convolutions_choose(struct worker_setup *setup, bool measures, struct error *error);
