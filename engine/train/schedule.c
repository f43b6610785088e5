/* schedule.c: learning-rate schedules in closed form.
 *
 * With t the steps taken since the warm-up ended, T the steps from there to the end, p = t / T:
 *   constant    peak
 *   cosine      minimum + (peak - minimum) * (1 + cos(pi p)) / 2     Loshchilov and Hutter 2017,
 *               arXiv:1608.03983, equation 5 without restarts; torch's CosineAnnealingLR
 *   step        peak * factor^floor(t / every)                       torch's StepLR
 *   multi_step  peak * factor^(milestones that t has reached)        torch's MultiStepLR
 *   linear      peak + (minimum - peak) * p                          torch's LinearLR
 *   polynomial  minimum + (peak - minimum) * (1 - p)^power           torch's PolynomialLR
 *   one_cycle   up from peak / start_divisor to the peak, down to peak / start_divisor /
 *               end_divisor: Smith and Topin 2019, arXiv:1708.07120; torch's OneCycleLR
 *   plateau     what plateau.c has made of the peak                  torch's ReduceLROnPlateau
 * The warm-up is linear, peak * (t + 1) / w in its w steps: Goyal et al. 2017, arXiv:1706.02677,
 * 2.2. It stands before the schedule as in torch's SequentialLR. */
#include "engine/train/schedule.h"

#include <errno.h>
#include <math.h>

static const char *const schedule_kind_names[] = {
    [SCHEDULE_CONSTANT] = "constant",   [SCHEDULE_COSINE] = "cosine",
    [SCHEDULE_STEP] = "step",           [SCHEDULE_MULTI_STEP] = "multi_step",
    [SCHEDULE_LINEAR] = "linear",       [SCHEDULE_POLYNOMIAL] = "polynomial",
    [SCHEDULE_ONE_CYCLE] = "one_cycle", [SCHEDULE_PLATEAU] = "plateau",
};
DEFINE_STRING_TABLE(schedule_kind, enum schedule_kind, schedule_kind_names)

/* Whether the schedule is stretched over the whole run. */
static bool has_end(enum schedule_kind kind)
{
    return kind == SCHEDULE_COSINE || kind == SCHEDULE_LINEAR || kind == SCHEDULE_POLYNOMIAL ||
           kind == SCHEDULE_ONE_CYCLE;
}

static int check_milestones(const struct schedule_config *config, struct error *error)
{
    for (int i = 0; i < config->milestone_count; i++)
        if (config->milestones[i] <= (i ? config->milestones[i - 1] : 0))
            return error_set(error, -EINVAL, "the schedule's milestones must ascend from 1");
    return 0;
}

static int check_one_cycle(const struct schedule_config *config, struct error *error)
{
    if (!(config->rise >= 0 && config->rise <= 1))
        return error_set(error, -EINVAL, "the schedule rises over a share from 0 to 1, not %g",
                         config->rise);
    if (!(config->start_divisor > 0 && config->end_divisor > 0))
        return error_set(error, -EINVAL, "the schedule's divisors must be above 0");
    return 0;
}

int schedule_check(const struct schedule_config *config, struct error *error)
{
    if (!(config->learning_rate > 0) || !isfinite(config->learning_rate))
        return error_set(error, -EINVAL, "the learning rate must be above 0, not %g",
                         config->learning_rate);
    if (config->warmup_steps < 0)
        return error_set(error, -EINVAL, "the schedule's warm-up must not be negative");
    if (config->kind == SCHEDULE_STEP && config->every_steps < 1)
        return error_set(error, -EINVAL, "the step schedule must wait at least one step to cut");
    if (has_end(config->kind) && config->total_steps <= config->warmup_steps)
        return error_set(error, -EINVAL,
                         "the schedule's warm-up of %lld steps leaves nothing of the run's %lld: "
                         "shorten it or train longer",
                         (long long)config->warmup_steps, (long long)config->total_steps);
    if (has_end(config->kind) &&
        !(config->minimum >= 0 && config->minimum <= config->learning_rate))
        return error_set(error, -EINVAL,
                         "the schedule's last learning rate must lie between 0 and %g, not %g",
                         config->learning_rate, config->minimum);
    if (config->kind == SCHEDULE_ONE_CYCLE)
        return check_one_cycle(config, error);
    return check_milestones(config, error);
}

static double interpolate(const struct schedule_config *config, double from, double to,
                          double share)
{
    if (config->anneals_linearly)
        return from + (to - from) * share;
    return to + (from - to) / 2 * (1 + cos(M_PI * share));
}

/* Where a cycle of `steps` stands after `taken` steps: the share that is done of its way to `peak`,
 * or from there to `end`. */
static double cycle_value(const struct schedule_config *config, int64_t taken, int64_t steps,
                          double start, double peak, double end)
{
    double turn = config->rise * (double)steps - 1, last = (double)(steps - 1);
    double at = taken < steps ? (double)taken : last;

    if (at <= turn)
        return interpolate(config, start, peak, turn > 0 ? at / turn : 1);
    return interpolate(config, peak, end, (at - turn) / (last - turn));
}

static double multi_step(const struct schedule_config *config, int64_t taken)
{
    int reached = 0;

    while (reached < config->milestone_count && taken >= config->milestones[reached])
        reached++;
    return config->learning_rate * pow(config->factor, reached);
}

double schedule_learning_rate(const struct schedule_config *config, const struct plateau *plateau,
                              int64_t step)
{
    double peak = plateau && config->kind == SCHEDULE_PLATEAU ? plateau->learning_rate
                                                              : config->learning_rate;
    int64_t taken = step - 1 - config->warmup_steps;
    int64_t steps = config->total_steps - config->warmup_steps;
    double progress = taken < steps ? (double)taken / (double)steps : 1;

    if (taken < 0)
        return peak * (double)step / (double)config->warmup_steps;
    switch (config->kind) {
    case SCHEDULE_COSINE:
        return config->minimum + (peak - config->minimum) * (1 + cos(M_PI * progress)) / 2;
    case SCHEDULE_STEP:
        return peak * pow(config->factor, floor((double)taken / (double)config->every_steps));
    case SCHEDULE_MULTI_STEP:
        return multi_step(config, taken);
    case SCHEDULE_LINEAR:
        return peak + (config->minimum - peak) * progress;
    case SCHEDULE_POLYNOMIAL:
        return config->minimum + (peak - config->minimum) * pow(1 - progress, config->power);
    case SCHEDULE_ONE_CYCLE:
        return cycle_value(config, taken, steps, peak / config->start_divisor, peak,
                           peak / config->start_divisor / config->end_divisor);
    case SCHEDULE_CONSTANT:
    case SCHEDULE_PLATEAU:
        break;
    }
    return peak;
}

double schedule_momentum(const struct schedule_config *config, int64_t step)
{
    int64_t taken = step - 1 - config->warmup_steps;

    if (taken < 0)
        return config->highest_momentum;
    return cycle_value(config, taken, config->total_steps - config->warmup_steps,
                       config->highest_momentum, config->lowest_momentum, config->highest_momentum);
}

double schedule_average_decay(double decay, bool warmup, int64_t step)
{
    if (step <= 1)
        return 0;
    return warmup ? fmin(decay, 1 - pow((double)step, -2.0 / 3)) : decay;
}
