/* value.c: see value.h. */
#include "scheduler/value.h"

#include <math.h>

/* Below it, differences of length decide nothing: a job that is all but done is not worth
 * infinitely much. Seconds. */
#define SHORTEST_SECONDS 1.0
/* A wait counts in multiples of the run time, but of a minute at least. */
#define SHORTEST_AGED_SECONDS 60.0
/* What each user is thought to have used beside the measured: no division by zero, and the first
 * minutes of a user do not count for more than they are. Device-seconds. */
#define USAGE_OFFSET 3600.0
#define FACTOR_MAX 16.0

double value_seconds(const struct policy_settings *settings, const struct policy_estimate *estimate)
{
    if (estimate->deviation <= 0 || settings->optimism == 0)
        return estimate->seconds;
    return estimate->seconds * exp(-settings->optimism * estimate->deviation);
}

void value_user_factors(const struct policy_snapshot *snapshot, double *factors)
{
    double shares = 0, usage = 0;

    for (size_t i = 0; i < snapshot->user_count; i++) {
        shares += snapshot->users[i].share > 0 ? snapshot->users[i].share : 1;
        usage += snapshot->users[i].usage + USAGE_OFFSET;
    }
    for (size_t i = 0; i < snapshot->user_count; i++) {
        const struct policy_user *user = &snapshot->users[i];
        double share = (user->share > 0 ? user->share : 1) / shares;
        double factor = pow(share * usage / (user->usage + USAGE_OFFSET),
                            snapshot->settings.share_exponent);

        factors[i] = fmin(fmax(factor, 1 / FACTOR_MAX), FACTOR_MAX);
    }
}

struct job_value value_of_job(const struct policy_snapshot *snapshot, const struct policy_job *job,
                              const bool *fits, const double *user_factors)
{
    const struct policy_settings *settings = &snapshot->settings;
    struct job_value value = {.best_seconds = INFINITY,
                              .restart = settings->hysteresis * job->restart_seconds};
    double work;

    for (int type = 0; type < snapshot->type_count; type++)
        if (fits[type])
            value.best_seconds = fmin(value.best_seconds,
                                      value_seconds(settings, &job->estimates[type]));
    if (!isfinite(value.best_seconds))
        return value;
    work = fmax(value.best_seconds * job->devices, SHORTEST_SECONDS);
    value.base = job->devices * pow(work, -settings->length_exponent);
    if (settings->age_exponent != 0 && job->waited > 0)
        value.base *= pow(1 + job->waited / fmax(value.best_seconds, SHORTEST_AGED_SECONDS),
                          settings->age_exponent);
    if (job->user != POLICY_NONE)
        value.base *= user_factors[job->user];
    if (job->bonus > 0)
        value.base *= job->bonus;
    return value;
}

double value_on_type(const struct policy_snapshot *snapshot, const struct policy_job *job,
                     const struct job_value *value, int type, bool stays)
{
    double seconds = value_seconds(&snapshot->settings, &job->estimates[type]);

    if (!isfinite(seconds) || !isfinite(value->best_seconds))
        return 0;
    if (!stays && (job->resumes || job->on))
        seconds += value->restart;
    return value->base * fmax(value->best_seconds, 1e-9) / fmax(seconds, 1e-9);
}
