/* plateau.c: see plateau.h. Decisions have PyTorch's order. */
#include "engine/train/plateau.h"

#include <math.h>
#include <stdio.h>

/* A smaller change of the learning rate is not made, as in PyTorch. */
static const double smallest_cut = 1e-8;

void plateau_init(struct plateau *plateau, const struct plateau_config *config,
                  double learning_rate)
{
    *plateau = (struct plateau){.learning_rate = learning_rate, .best = NAN};
    snprintf(plateau->metric, sizeof plateau->metric, "%s", config->metric ? config->metric : "");
}

static bool is_better(const struct plateau *plateau, const struct plateau_config *config,
                      double value)
{
    bool downwards = tracker_improves_downwards(plateau->metric);
    double change = downwards ? -config->threshold : config->threshold;
    double limit = config->relative ? plateau->best * (1 + change) : plateau->best + change;

    if (isnan(value) || isnan(plateau->best))
        return !isnan(value);
    return downwards ? value < limit : value > limit;
}

void plateau_update(struct plateau *plateau, const struct plateau_config *config, double value)
{
    double cut;

    if (is_better(plateau, config, value)) {
        plateau->best = value;
        plateau->bad = 0;
    } else {
        plateau->bad++;
    }
    if (plateau->cooldown > 0) {
        plateau->cooldown--;
        plateau->bad = 0;
    }
    if (plateau->bad <= config->patience)
        return;
    cut = fmax(plateau->learning_rate * config->factor, config->minimum);
    if (plateau->learning_rate - cut > smallest_cut)
        plateau->learning_rate = cut;
    plateau->cooldown = config->cooldown;
    plateau->bad = 0;
}
