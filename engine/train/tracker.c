/* tracker.c: see tracker.h. */
#include "engine/train/tracker.h"

#include "engine/train/metric_kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void tracker_init(struct tracker *tracker, const char *metric, int64_t patience,
                  double minimum_change)
{
    *tracker = (struct tracker){
        .patience = patience, .minimum_change = minimum_change, .best = NAN, .best_epoch = NAN};
    snprintf(tracker->metric, sizeof tracker->metric, "%s", metric ? metric : "");
}

bool tracker_improves_downwards(const char *metric)
{
    int kind = metric_of_name(metric);

    return kind < 0 ||
           metric_has((enum metric_kind)kind, METRIC_FALLS); /* any other is the loss of a head */
}

bool tracker_update(struct tracker *tracker, double value, int64_t step, double epoch)
{
    double gain =
        tracker_improves_downwards(tracker->metric) ? tracker->best - value : value - tracker->best;

    if (isnan(value) || (!isnan(tracker->best) && !(gain > tracker->minimum_change))) {
        tracker->measurements_without_improvement++;
        return false;
    }
    tracker->best = value;
    tracker->best_step = step;
    tracker->best_epoch = epoch;
    tracker->measurements_without_improvement = 0;
    return true;
}

bool tracker_should_stop(const struct tracker *tracker)
{
    return tracker->patience > 0 && tracker->measurements_without_improvement >= tracker->patience;
}
