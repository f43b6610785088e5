/* loss_scale.h: the loss scale of a run, which follows the rule of engine/graph/loss_scale.h. */
#pragma once

#include "base/error.h"
#include "engine/graph/loss_scale.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts to scale the loss, or continues with the present scale; with `wanted` false stops. The
 * count of skipped updates is kept. */
void loss_scale_begin(struct loss_scale *loss_scale, bool wanted);

/* Call after each update: loss_scale_follow(). -ERROR_NONFINITE_LOSS with a sentence if the scale
 * cannot become smaller. Does nothing without a scale. */
int loss_scale_update(struct loss_scale *loss_scale, bool skipped, struct error *error);
/* The same check for a device that scales the loss itself. */
int loss_scale_check(const struct loss_scale *loss_scale, struct error *error);
