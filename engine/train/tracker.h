/* tracker.h: watches one metric over the measurements of a run: keeps the best value and decides
 * when to stop early. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TRACKER_NAME_MAX = 48 };

struct tracker {
    char metric[TRACKER_NAME_MAX]; /* "": none is watched */
    int64_t patience;      /* stop after this many measurements without improvement; 0: never */
    double minimum_change; /* a smaller improvement counts as none */

    /* state, part of a checkpoint */
    double best; /* NaN before the first value */
    int64_t best_step;
    double best_epoch;
    int64_t measurements_without_improvement;
};

/* Whether the metric of that name improves when it falls. */
bool tracker_improves_downwards(const char *metric);

/* Initialises the tracker, before any measurement. `metric` may be NULL. */
void tracker_init(struct tracker *tracker, const char *metric, int64_t patience,
                  double minimum_change);

/* Takes the metric's value after a measurement; true if it is the best so far. NaN never is. */
bool tracker_update(struct tracker *tracker, double value, int64_t step, double epoch);

/* Whether at least `patience` measurements in a row brought no improvement. */
bool tracker_should_stop(const struct tracker *tracker);
