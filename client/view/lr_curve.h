/* lr_curve.h: what a range test of learning rates has measured, and which rate it suggests. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stddef.h>

/* Puts the rows of a job's metrics "step_loss" and "learning_rate" together: {"points": [{"step",
 * "learning_rate", "loss", "smoothed"}], "diverged", "suggestion"}. The losses are smoothed by an
 * exponential average of 0.98 without its bias, and the curve ends where the smoothed loss is above
 * four times its minimum, or is no number, as in fastai's lr_find (Smith 2017, arXiv:1506.01186,
 * 3.3). The suggestion is where the smoothed loss falls most steeply along the logarithm of the
 * rate, without the first ten points and the last five; null if there are too few. The caller owns
 * the result. */
struct json_object *lr_curve_new(struct json_object *rows);
/* Prints about twenty points as a table, and the suggestion. */
void lr_curve_print(struct json_object *curve, const struct display *display);
