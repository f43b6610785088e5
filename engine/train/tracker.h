/* tracker.h: watches one metric over the epochs: the best value so far, and when to stop early. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TRACKER_NAME_MAX = 32 };

struct tracker {
    char metric[TRACKER_NAME_MAX]; /* "" watches nothing; "…loss" improves downwards, all others up
                                    */
    int64_t patience;              /* epochs without improvement before stopping; 0: never stops */
    double minimum_change;         /* a smaller improvement counts as none */

    /* state, part of a checkpoint */
    double best; /* NaN before the first value */
    int64_t best_step;
    double best_epoch;
    int64_t epochs_without_improvement;
};

/* Starts with nothing seen. `metric` may be NULL. */
void tracker_init(struct tracker *tracker, const char *metric, int64_t patience,
                  double minimum_change);

/* Takes the metric's value after an epoch; true when it is the best so far. NaN never is. */
bool tracker_update(struct tracker *tracker, double value, int64_t step, double epoch);

/* Whether more than `patience` - 1 epochs in a row brought no improvement. */
bool tracker_should_stop(const struct tracker *tracker);
