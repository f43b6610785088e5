/* predictor.c: see predictor.h. */
#include "scheduler/predictor.h"

#include <math.h>

/* The deviation of log(step time) measured over n steps: sqrt(RUN^2 + STEP^2 / n). */
#define RUN_DEVIATION 0.02
#define STEP_DEVIATION 0.2

void step_time_observe(struct step_time *time, double seconds, double steps)
{
    double variance = RUN_DEVIATION * RUN_DEVIATION + STEP_DEVIATION * STEP_DEVIATION / steps;
    double known = time->deviation * time->deviation;
    double weight;

    if (!(seconds > 0) || !(steps > 0) || !isfinite(seconds))
        return;
    if (!isfinite(time->seconds) || time->seconds <= 0 || time->deviation <= 0) {
        time->seconds = seconds;
        time->deviation = sqrt(variance);
    } else {
        weight = known / (known + variance);
        time->seconds = exp(log(time->seconds) * (1 - weight) + log(seconds) * weight);
        time->deviation = fmax(sqrt(known * variance / (known + variance)), RUN_DEVIATION);
    }
    time->steps += steps;
}

/* The k-th moment of a length that is known to exceed `done`: a lognormal distribution of mean
 * `total`, truncated at `done`. The median is at least `done` less this many deviations: further
 * out the integrals lose all their digits. What is left then grows in proportion to `done`. */
#define FURTHEST_DEVIATIONS 6.0
static double length_moment(double total, double deviation, double done, int k)
{
    double median =
        fmax(total * exp(-deviation * deviation / 2), done * exp(-FURTHEST_DEVIATIONS * deviation));
    double least = done > 0 ? log(done / median) / deviation : -INFINITY;

    return pow(median, k) * exp(k * k * deviation * deviation / 2) *
           erfc((least - k * deviation) * M_SQRT1_2) / erfc(least * M_SQRT1_2);
}

double steps_left(double total, double deviation, double done, double least)
{
    double left = done;

    if (total > 0)
        left = (deviation > 0 ? length_moment(total, deviation, done, 1) : total) - done;
    return fmax(left, least);
}

double steps_left_deviation(double total, double deviation, double done)
{
    double mean;

    if (!(total > 0) || !(deviation > 0))
        return 0;
    mean = length_moment(total, deviation, done, 1);
    return sqrt(fmax(length_moment(total, deviation, done, 2) - mean * mean, 0));
}

struct predictor_row *predictor_find(struct predictor *predictor, uint64_t plan, int type,
                                     bool create)
{
    uint64_t hash =
        (plan ^ (uint64_t)type * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);

    for (size_t i = 0; i < predictor->capacity; i++) {
        struct predictor_row *row =
            &predictor->rows[((hash >> 32) + i) & (predictor->capacity - 1)];

        if (row->used && row->plan == plan && row->type == type)
            return row;
        if (row->used)
            continue;
        if (!create)
            return NULL;
        *row = (struct predictor_row){.plan = plan, .type = type, .used = 1};
        return row;
    }
    return NULL;
}
