/* loss_scale.h: the loss scale of a run; the rule that it follows is
 * engine/graph/loss_scale.h's. */
#pragma once

#include "base/error.h"
#include "engine/graph/loss_scale.h"

#include <stdbool.h>
#include <stdint.h>

/* Begins to scale, or with `wanted` false stops; what was left out before stays counted. Goes on
 * with a scale that there is. */
void loss_scale_begin(struct loss_scale *loss_scale, bool wanted);

/* After an update: halves the scale when it was left out, doubles it after 2000 in a row that were
 * not. -ERROR_NONFINITE_LOSS with a sentence when the scale cannot become smaller. Does nothing
 * without a scale. */
int loss_scale_update(struct loss_scale *loss_scale, bool skipped, struct error *error);
/* -ERROR_NONFINITE_LOSS with the same sentence: a device that scales by itself came to such a
 * scale. */
int loss_scale_check(const struct loss_scale *loss_scale, struct error *error);
