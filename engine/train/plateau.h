/* plateau.h: the learning rate that is cut when a metric stops improving
 * (torch.optim.lr_scheduler.ReduceLROnPlateau). */
#pragma once

#include "engine/train/tracker.h"

#include <stdbool.h>
#include <stdint.h>

struct plateau_config {
    const char *metric; /* "…loss" improves downwards, all others up */
    double factor;      /* of the learning rate at a cut */
    int64_t patience;   /* measurements without improvement that are borne: the next one cuts */
    double threshold;   /* a smaller improvement counts as none */
    bool relative;      /* `threshold` is a share of the best value */
    int64_t cooldown;   /* measurements after a cut in which none counts as bad */
    double minimum;     /* the learning rate is never cut below */
};

/* What a checkpoint keeps. */
struct plateau {
    char metric[TRACKER_NAME_MAX];
    double learning_rate;
    double best; /* NaN before the first value */
    int64_t bad, cooldown;
};

/* Starts with nothing seen. */
void plateau_init(struct plateau *plateau, const struct plateau_config *config,
                  double learning_rate);

/* Takes the metric's value after a measurement; NaN is never better. */
void plateau_update(struct plateau *plateau, const struct plateau_config *config, double value);
