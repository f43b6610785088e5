/* plateau.h: a schedule that lowers the learning rate when a metric stops improving
 * (torch.optim.lr_scheduler.ReduceLROnPlateau). */
#pragma once

#include "engine/train/tracker.h"

#include <stdbool.h>
#include <stdint.h>

struct plateau_config {
    const char *metric; /* metrics that end with "loss" improve downwards, all others upwards */
    double factor;      /* multiplies the learning rate at a cut */
    int64_t patience;   /* after this many measurements without improvement, the next one cuts */
    double threshold;   /* a smaller improvement counts as none */
    bool relative;      /* `threshold` is relative to the best value */
    int64_t cooldown;   /* this many measurements after a cut do not count as bad */
    double minimum;     /* lower limit of the learning rate */
};

/* The schedule's state, part of a checkpoint. */
struct plateau {
    char metric[TRACKER_NAME_MAX];
    double learning_rate;
    double best; /* NaN before the first value */
    int64_t bad, cooldown;
};

/* Initialises the state, before any measurement. */
void plateau_init(struct plateau *plateau, const struct plateau_config *config,
                  double learning_rate);

/* Updates the state with the metric's value after a measurement; NaN is never an improvement. */
void plateau_update(struct plateau *plateau, const struct plateau_config *config, double value);
