/* schedule.c: learning-rate schedules in closed form.
 *
 * With p = (t - w) / (T - w), t the steps already taken, w the warm-up and T all steps:
 *   constant  peak
 *   cosine    minimum + (peak - minimum) * (1 + cos(pi p)) / 2       Loshchilov and Hutter 2017,
 *             arXiv:1608.03983, equation 5 without restarts; torch's CosineAnnealingLR
 *   step      peak * factor^floor((t - w) / every)                   torch's StepLR
 *   linear    peak + (minimum - peak) * p                            torch's LinearLR
 * The warm-up is linear, peak * (t + 1) / w for t < w: Goyal et al. 2017, arXiv:1706.02677, 2.2. */
#include "engine/train/schedule.h"

#include <errno.h>
#include <math.h>

static const char *const schedule_kind_names[] = {[SCHEDULE_CONSTANT] = "constant",
                                                  [SCHEDULE_COSINE] = "cosine",
                                                  [SCHEDULE_STEP] = "step",
                                                  [SCHEDULE_LINEAR] = "linear"};
DEFINE_STRING_TABLE(schedule_kind, enum schedule_kind, schedule_kind_names)

int schedule_check(const struct schedule_config *config, struct error *error)
{
    if (!(config->learning_rate > 0) || !isfinite(config->learning_rate))
        return error_set(error, -EINVAL, "the learning rate must be above 0, not %g",
                         config->learning_rate);
    if (config->warmup_steps < 0)
        return error_set(error, -EINVAL, "the schedule's warm-up must not be negative");
    if (config->kind == SCHEDULE_STEP && config->every_steps < 1)
        return error_set(error, -EINVAL, "the step schedule must wait at least one step to cut");
    if ((config->kind == SCHEDULE_COSINE || config->kind == SCHEDULE_LINEAR) &&
        config->total_steps <= config->warmup_steps)
        return error_set(error, -EINVAL,
                         "the schedule's warm-up of %lld steps leaves nothing of the run's %lld: "
                         "shorten it or train longer",
                         (long long)config->warmup_steps, (long long)config->total_steps);
    if ((config->kind == SCHEDULE_COSINE || config->kind == SCHEDULE_LINEAR) &&
        !(config->minimum >= 0 && config->minimum <= config->learning_rate))
        return error_set(error, -EINVAL,
                         "the schedule's last learning rate must lie between 0 and %g, not %g",
                         config->learning_rate, config->minimum);
    return 0;
}

double schedule_learning_rate(const struct schedule_config *config, int64_t step)
{
    double peak = config->learning_rate, progress;
    int64_t taken = step - 1;

    if (taken < config->warmup_steps)
        return peak * (double)(taken + 1) / (double)config->warmup_steps;
    taken -= config->warmup_steps;
    progress = (double)taken / (double)(config->total_steps - config->warmup_steps);
    if (progress > 1)
        progress = 1;
    switch (config->kind) {
    case SCHEDULE_COSINE:
        return config->minimum + (peak - config->minimum) * (1 + cos(M_PI * progress)) / 2;
    case SCHEDULE_STEP:
        return peak * pow(config->factor, floor((double)taken / (double)config->every_steps));
    case SCHEDULE_LINEAR:
        return peak + (config->minimum - peak) * progress;
    case SCHEDULE_CONSTANT:
        break;
    }
    return peak;
}
