/* series_forecast.c: the naive forecasts of a time series that a model has to beat: the last value,
 * and the value one season before. */
#include "engine/data/dataset.h"

#include <math.h>

const float *series_past(const struct dataset *dataset, int64_t index, int64_t back)
{
    const struct dataset_series *series = &dataset->series;
    int64_t row = series->past + index * series->stride + series->input - back;

    return dataset->targets && row >= 0 && row < series->past + series->rows
               ? dataset->targets + row * series->values
               : NULL;
}

/* The mean errors of a forecast that takes row h from `back(h)` rows before the first. NAN: the set
 * lacks one. */
static void measure_forecast(const struct dataset_view *view, int64_t season, double *mse,
                             double *mae)
{
    const struct dataset *dataset = view->dataset;
    const struct dataset_series *series = &dataset->series;
    double squares = 0, absolutes = 0;

    *mse = *mae = NAN;
    for (int64_t i = 0; i < view->count; i++) {
        int64_t index = dataset_view_index(view, i);
        const float *values = dataset_targets(dataset, index);

        for (int64_t h = 0; h < series->horizon; h++, values += series->values) {
            const float *past = series_past(dataset, index, season ? season - h % season : 1);

            if (!past)
                return;
            for (int32_t c = 0; c < series->values; c++) {
                double difference = (double)values[c] - (double)past[c];

                squares += difference * difference;
                absolutes += fabs(difference);
            }
        }
    }
    double count = (double)view->count * (double)dataset->target_width;
    *mse = squares / count;
    *mae = absolutes / count;
}

struct series_baselines series_baselines(const struct dataset_view *view, int64_t season)
{
    struct series_baselines baselines = {NAN, NAN, NAN, NAN};

    if (view->count == 0 || view->dataset->format != DATASET_TIME_SERIES ||
        view->dataset->target != DATASET_TARGET_VALUE)
        return baselines;
    measure_forecast(view, 0, &baselines.last_mse, &baselines.last_mae);
    if (season > 0)
        measure_forecast(view, season, &baselines.season_mse, &baselines.season_mae);
    return baselines;
}
