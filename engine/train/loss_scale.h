/* loss_scale.h: dynamic loss scaling, which keeps gradients within float16's range: the loss is
 * multiplied by a scale before it is differentiated, the update divides by it again and is left out
 * when a gradient overflowed (Micikevicius et al. 2018, arXiv:1710.03740). The rule by which the
 * scale follows the overflows, and its constants, are those of torch.amp.GradScaler. Where it
 * stands (struct loss_scale of backend.h) is a part of checkpoints. */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"

#include <stdbool.h>
#include <stdint.h>

/* Begins to scale, or with `wanted` false stops; what was left out before stays counted. Goes on
 * with a scale that there is. */
void loss_scale_begin(struct loss_scale *loss_scale, bool wanted);

/* After an update: halves the scale when it was left out, doubles it after 2000 in a row that were
 * not. -EDOM with a sentence when the scale cannot become smaller. Does nothing without a scale. */
int loss_scale_update(struct loss_scale *loss_scale, bool skipped, struct error *error);
/* -EDOM with the same sentence: a device that scales by itself came to such a scale. */
int loss_scale_check(const struct loss_scale *loss_scale, struct error *error);
