/* worker_ranges.h: calibration of static quantization: the ranges of what convolutions read, over
 * samples of the training part, and those that quantization-aware training has learnt. */
#pragma once

#include "worker/trainee/worker_setup.h"

enum { RANGES_SAMPLES = 1024 }; /* at most, spread over the training part */

/* Whether the checkpoint has ranges that its training learnt. */
bool worker_ranges_are_learnt(const struct checkpoint *checkpoint);
/* The text for graph_quantize(), which the caller frees; NULL with a sentence. Ranges that the
 * checkpoint has are taken from there. `samples` receives the number of samples that were looked
 * at. */
char *worker_ranges_observe(struct worker_setup *setup, const struct checkpoint *checkpoint,
                            int64_t batch, int64_t *samples, struct error *error);
