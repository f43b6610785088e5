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
 *   exponential minimum * (peak / minimum)^(t / (T - 1)): a range test  Smith 2017,
 *               arXiv:1506.01186, 3.3, in the exponential form of fastai's lr_find
 *   plateau     what plateau.c has made of the peak                  torch's ReduceLROnPlateau
 * The warm-up is linear, peak * (t + 1) / w in its w steps: Goyal et al. 2017, arXiv:1706.02677,
 * 2.2. It stands before the schedule as in torch's SequentialLR. */
#include "engine/train/schedule.h"

#include <errno.h>
#include <math.h>

/* The position of a step: `taken` of `steps` steps since the warm-up, and the peak after a
 * plateau's cuts. */
struct place {
    int64_t taken, steps;
    double progress, peak;
};

/* The descriptor of a schedule. */
struct schedule {
    /* NULL: the learning rate is the peak */
    double (*learning_rate)(const struct schedule_config *config, const struct place *place);
    int (*check)(const struct schedule_config *config, struct error *error); /* NULL: no check */
    bool has_end;        /* its shape depends on the last step */
    bool moves_momentum; /* the momentum moves against the learning rate */
    bool follows_metric; /* struct plateau cuts its peak */
    bool is_test;        /* what each step does is of interest */
};

static int check_milestones(const struct schedule_config *config, struct error *error)
{
    for (int i = 0; i < config->milestone_count; i++)
        if (config->milestones[i] <= (i ? config->milestones[i - 1] : 0))
            return error_set(error, -EINVAL, "the schedule's milestones must ascend from 1");
    return 0;
}

static int check_step(const struct schedule_config *config, struct error *error)
{
    if (config->every_steps < 1)
        return error_set(error, -EINVAL, "the step schedule must wait at least one step to cut");
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

static double interpolate(const struct schedule_config *config, double from, double to,
                          double share)
{
    if (config->anneals_linearly)
        return from + (to - from) * share;
    return to + (from - to) / 2 * (1 + cos(M_PI * share));
}

/* The position within a cycle of `steps` after `taken` steps: how much is done of the way up to
 * `peak`, or from there to `end`. */
static double cycle_value(const struct schedule_config *config, int64_t taken, int64_t steps,
                          double start, double peak, double end)
{
    double turn = config->rise * (double)steps - 1, last = (double)(steps - 1);
    double at = taken < steps ? (double)taken : last;

    if (at <= turn)
        return interpolate(config, start, peak, turn > 0 ? at / turn : 1);
    return interpolate(config, peak, end, (at - turn) / (last - turn));
}

static double cosine(const struct schedule_config *config, const struct place *at)
{
    return config->minimum + (at->peak - config->minimum) * (1 + cos(M_PI * at->progress)) / 2;
}

static double step(const struct schedule_config *config, const struct place *at)
{
    return at->peak * pow(config->factor, floor((double)at->taken / (double)config->every_steps));
}

static double multi_step(const struct schedule_config *config, const struct place *at)
{
    int reached = 0;

    while (reached < config->milestone_count && at->taken >= config->milestones[reached])
        reached++;
    return at->peak * pow(config->factor, reached);
}

static double linear(const struct schedule_config *config, const struct place *at)
{
    return at->peak + (config->minimum - at->peak) * at->progress;
}

static double polynomial(const struct schedule_config *config, const struct place *at)
{
    return config->minimum + (at->peak - config->minimum) * pow(1 - at->progress, config->power);
}

static double one_cycle(const struct schedule_config *config, const struct place *at)
{
    double start = at->peak / config->start_divisor;

    return cycle_value(config, at->taken, at->steps, start, at->peak, start / config->end_divisor);
}

static int check_exponential(const struct schedule_config *config, struct error *error)
{
    if (!(config->minimum > 0))
        return error_set(error, -EINVAL,
                         "the exponential schedule grows from train.schedule.min_lr, which must be "
                         "above 0");
    return 0;
}

static double exponential(const struct schedule_config *config, const struct place *at)
{
    double share = at->steps > 1 ? (double)at->taken / (double)(at->steps - 1) : 1;

    return config->minimum * pow(at->peak / config->minimum, fmin(share, 1));
}

static const struct schedule schedules[] = {
    [SCHEDULE_CONSTANT] = {0},
    [SCHEDULE_COSINE] = {cosine, .has_end = true},
    [SCHEDULE_STEP] = {step, check_step},
    [SCHEDULE_MULTI_STEP] = {multi_step, check_milestones},
    [SCHEDULE_LINEAR] = {linear, .has_end = true},
    [SCHEDULE_POLYNOMIAL] = {polynomial, .has_end = true},
    [SCHEDULE_ONE_CYCLE] = {one_cycle, check_one_cycle, .has_end = true, .moves_momentum = true},
    [SCHEDULE_PLATEAU] = {.follows_metric = true},
    [SCHEDULE_EXPONENTIAL] = {exponential, check_exponential, .has_end = true, .is_test = true},
};

#define NAME(upper, lower, ...) [SCHEDULE_##upper] = #lower,
static const char *const schedule_kind_names[] = {SCHEDULE_KINDS(NAME)};
#undef NAME
_Static_assert(sizeof schedules / sizeof *schedules ==
                   sizeof schedule_kind_names / sizeof *schedule_kind_names,
               "a row for each schedule");
DEFINE_STRING_TABLE(schedule_kind, enum schedule_kind, schedule_kind_names)

bool schedule_moves_momentum(enum schedule_kind kind)
{
    return schedules[kind].moves_momentum;
}

bool schedule_is_test(enum schedule_kind kind)
{
    return schedules[kind].is_test;
}

int schedule_check(const struct schedule_config *config, struct error *error)
{
    const struct schedule *schedule = &schedules[config->kind];

    if (!(config->learning_rate > 0) || !isfinite(config->learning_rate))
        return error_set(error, -EINVAL, "the learning rate must be above 0, not %g",
                         config->learning_rate);
    if (config->warmup_steps < 0)
        return error_set(error, -EINVAL, "the schedule's warm-up must not be negative");
    if (schedule->has_end && config->total_steps <= config->warmup_steps)
        return error_set(error, -EINVAL,
                         "the schedule's warm-up of %lld steps leaves nothing of the run's %lld: "
                         "shorten it or train longer",
                         (long long)config->warmup_steps, (long long)config->total_steps);
    if (schedule->has_end && !(config->minimum >= 0 && config->minimum <= config->learning_rate))
        return error_set(error, -EINVAL,
                         "the schedule's last learning rate must lie between 0 and %g, not %g",
                         config->learning_rate, config->minimum);
    return schedule->check ? schedule->check(config, error) : 0;
}

double schedule_learning_rate(const struct schedule_config *config, const struct plateau *plateau,
                              int64_t step)
{
    const struct schedule *schedule = &schedules[config->kind];
    struct place at = {.taken = step - 1 - config->warmup_steps,
                       .steps = config->total_steps - config->warmup_steps,
                       .peak = plateau && schedule->follows_metric ? plateau->learning_rate
                                                                   : config->learning_rate};

    if (at.taken < 0)
        return at.peak * (double)step / (double)config->warmup_steps;
    at.progress = at.taken < at.steps ? (double)at.taken / (double)at.steps : 1;
    return schedule->learning_rate ? schedule->learning_rate(config, &at) : at.peak;
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

/* The sum of i^2 is n (n + 1) (2 n + 1) / 6. */
double schedule_share(const struct schedule_config *config, int64_t step)
{
    double warmup = (double)config->warmup_steps, rising = fmin((double)step, warmup);
    double behind = (double)step - rising, squares;

    if (config->warmup_steps <= 0)
        return 1 / (double)step;
    squares = rising * (rising + 1) * (2 * rising + 1) / (6 * warmup * warmup);
    return (behind > 0 ? 1 : rising * rising / (warmup * warmup)) / (squares + behind);
}
