/* loss_scale.h: dynamic loss scaling, which keeps gradients within float16's range: the loss is
 * multiplied by a scale before it is differentiated, the update divides by it again and is left out
 * when a gradient overflowed (Micikevicius et al. 2018, arXiv:1710.03740). The rule by which the
 * scale follows the overflows, and its constants, are those of torch.amp.GradScaler. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* State of a run, part of a checkpoint. */
struct loss_scale {
    double scale;       /* of the next update; 0: the run does not scale */
    int64_t good_steps; /* updates in a row that were not left out, since the scale last changed */
    int64_t skipped;    /* updates left out since the run began */
};

/* Begins to scale, or with `wanted` false stops; what was left out before stays counted. Goes on
 * with a scale that there is. */
void loss_scale_begin(struct loss_scale *loss_scale, bool wanted);

/* After an update: halves the scale when it was left out, doubles it after 2000 in a row that were
 * not. -EDOM with a sentence when the scale cannot become smaller. Does nothing without a scale. */
int loss_scale_update(struct loss_scale *loss_scale, bool skipped, struct error *error);
