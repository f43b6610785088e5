/* advice.c: see advice.h. */
#include "worker/trainee/advice.h"

#include <math.h>
#include <stdlib.h>

static const char *const bottleneck_names[] = {[ADVICE_DATA] = "data",
                                               [ADVICE_LAUNCH] = "launch",
                                               [ADVICE_MEMORY] = "memory",
                                               [ADVICE_ARITHMETIC] = "arithmetic",
                                               [ADVICE_EVALUATION] = "evaluation",
                                               [ADVICE_CHECKPOINTS] = "checkpoints"};
DEFINE_STRING_TABLE(advice_bottleneck, enum advice_bottleneck, bottleneck_names)

static const char *const kind_names[] = {[ADVICE_BATCH] = "batch",
                                         [ADVICE_ACCUMULATE] = "accumulate",
                                         [ADVICE_PRECISION] = "precision",
                                         [ADVICE_RECOMPUTE] = "recompute",
                                         [ADVICE_DETERMINISTIC] = "deterministic",
                                         [ADVICE_LENGTH_BUCKETS] = "length_buckets",
                                         [ADVICE_LOADER_THREADS] = "loader_threads",
                                         [ADVICE_THREADS] = "threads",
                                         [ADVICE_AUGMENT] = "augment",
                                         [ADVICE_WIDTH] = "width",
                                         [ADVICE_EVALUATE] = "evaluate_every",
                                         [ADVICE_CHECKPOINT] = "checkpoint_every"};
DEFINE_STRING_TABLE(advice_kind, enum advice_kind, kind_names)

/* ---- what time goes into ---- */

void advice_time_add(struct advice_time *time, double seconds, double calls, double kernel_seconds,
                     bool is_arithmetic)
{
    double begun = fmin(seconds, calls * kernel_seconds);

    time->part[ADVICE_LAUNCH] += begun;
    time->part[is_arithmetic ? ADVICE_ARITHMETIC : ADVICE_MEMORY] += seconds - begun;
}

enum advice_bottleneck advice_time_largest(const struct advice_time *time)
{
    int largest = 0;

    for (int i = 1; i < ADVICE_BOTTLENECKS; i++)
        if (time->part[i] > time->part[largest])
            largest = i;
    return (enum advice_bottleneck)largest;
}

/* ---- what a sample costs ---- */

/* Samples of an interval. The last weights of a run are evaluated and written in any case, so it is
 * not longer than the run. */
static double interval_samples(const struct advice_rhythm *rhythm, int64_t steps, int64_t epochs)
{
    double samples =
        steps ? (double)steps * rhythm->step_samples : (double)epochs * rhythm->epoch_samples;

    return rhythm->run_samples > 0 ? fmin(samples, rhythm->run_samples) : samples;
}

double advice_evaluation_samples(const struct advice_rhythm *rhythm)
{
    return interval_samples(rhythm, rhythm->evaluate_steps, rhythm->evaluate_epochs);
}

/* Samples between two checkpoints; INFINITY: they are not written by samples. */
static double checkpoint_samples(const struct advice_rhythm *rhythm)
{
    return rhythm->checkpoint_steps || rhythm->checkpoint_epochs
               ? interval_samples(rhythm, rhythm->checkpoint_steps, rhythm->checkpoint_epochs)
               : INFINITY;
}

double advice_best_share(const struct advice_costs *costs, double evaluations)
{
    double known = costs->best_evaluations;

    if (known <= 0 || evaluations <= known)
        return costs->best_share;
    return fmin(costs->best_share,
                (costs->best_share * known + log(evaluations / known)) / evaluations);
}

struct advice_cost advice_cost_of(const struct advice_costs *costs,
                                  const struct advice_rhythm *rhythm)
{
    double interval = advice_evaluation_samples(rhythm);
    double best = advice_best_share(costs, rhythm->run_samples / interval) / interval;
    struct advice_cost cost = {.evaluation = costs->evaluation / interval};

    /* at the end of an epoch one checkpoint is both: the due one, and that of the best weights */
    if (rhythm->checkpoint_epochs && rhythm->evaluate_epochs)
        best *= 1 - 1 / (double)rhythm->checkpoint_epochs;
    cost.best = costs->checkpoint * best;
    cost.checkpoints = cost.best + costs->checkpoint / checkpoint_samples(rhythm);
    if (rhythm->checkpoint_seconds > 0)
        cost.checkpoints += (costs->step + cost.evaluation + cost.checkpoints) * costs->checkpoint /
                            rhythm->checkpoint_seconds;
    cost.all = costs->step + cost.evaluation + cost.checkpoints;
    return cost;
}

/* ---- intervals ---- */

/* The smallest number of 1, 2, 5, 10, 20, 50 … that is not less. */
static int64_t round_up(double number)
{
    static const int mantissa[] = {1, 2, 5};

    for (int64_t power = 1; power < INT64_MAX / 100; power *= 10)
        for (int i = 0; i < 3; i++)
            if ((double)(mantissa[i] * power) >= number)
                return mantissa[i] * power;
    return INT64_MAX / 100;
}

/* An interval of `samples` samples or more as steps within an epoch, else as epochs; at most the
 * whole run. */
static void set_interval(const struct advice_rhythm *rhythm, double samples, int64_t *steps,
                         int64_t *epochs)
{
    double within = (double)round_up(samples / rhythm->step_samples);

    *steps = *epochs = 0;
    if (within * rhythm->step_samples < rhythm->epoch_samples)
        *steps = (int64_t)fmin(within, ceil(rhythm->run_samples / rhythm->step_samples));
    else
        *epochs = (int64_t)fmin((double)round_up(samples / rhythm->epoch_samples),
                                ceil(rhythm->run_samples / rhythm->epoch_samples));
}

/* The time of steps that one event of `seconds` may follow, in samples. */
static double samples_for(double seconds, double step)
{
    return seconds * (1 - ADVICE_PART) / ADVICE_PART / step;
}

bool advice_evaluate_seldom(const struct advice_base *base, struct advice_rhythm *rhythm)
{
    const struct advice_costs *costs = &base->costs;
    /* what a best checkpoint takes comes and goes with the evaluation before it */
    double seconds = costs->evaluation + costs->best_share * costs->checkpoint;
    double samples = samples_for(seconds, costs->step);

    *rhythm = base->rhythm;
    if (costs->evaluation <= 0 ||
        fmin(samples, rhythm->run_samples) <= advice_evaluation_samples(rhythm))
        return false;
    set_interval(&base->rhythm, samples, &rhythm->evaluate_steps, &rhythm->evaluate_epochs);
    return true;
}

bool advice_checkpoint_seldom(const struct advice_base *base, struct advice_rhythm *rhythm)
{
    const struct advice_costs *costs = &base->costs;
    double samples = samples_for(costs->checkpoint, costs->step);
    double present = base->rhythm.checkpoint_seconds > 0
                         ? base->rhythm.checkpoint_seconds / costs->step
                         : checkpoint_samples(&base->rhythm);

    *rhythm = base->rhythm;
    if (costs->checkpoint <= 0 || fmin(samples, rhythm->run_samples) <= present)
        return false;
    rhythm->checkpoint_seconds = 0;
    set_interval(&base->rhythm, samples, &rhythm->checkpoint_steps, &rhythm->checkpoint_epochs);
    return true;
}

bool advice_both_seldom(const struct advice_base *base, struct advice_rhythm *rhythm,
                        enum advice_kind *kind)
{
    struct advice_cost present = advice_cost_of(&base->costs, &base->rhythm), fewer;
    struct advice_rhythm evaluations, checkpoints;

    if (!base->rhythm.evaluate_epochs || !base->rhythm.checkpoint_epochs ||
        !advice_evaluate_seldom(base, &evaluations) ||
        !advice_checkpoint_seldom(base, &checkpoints))
        return false;
    fewer = advice_cost_of(&base->costs, &checkpoints);
    if (fewer.checkpoints < present.checkpoints / 2)
        return false;
    *rhythm = evaluations;
    rhythm->checkpoint_steps = checkpoints.checkpoint_steps;
    rhythm->checkpoint_epochs = checkpoints.checkpoint_epochs;
    *kind = present.checkpoints > present.evaluation ? ADVICE_CHECKPOINT : ADVICE_EVALUATE;
    return true;
}

/* ---- what pays ---- */

void advice_times_add(struct advice_times *times, double seconds)
{
    if (isnan(seconds))
        return;
    if (times->count == 0 || seconds < times->fastest) {
        times->second = times->fastest;
        times->fastest = seconds;
    } else if (times->count == 1 || seconds < times->second) {
        times->second = seconds;
    }
    times->count++;
}

double advice_times_step(const struct advice_times *times)
{
    return times->count ? times->fastest : NAN;
}

double advice_times_noise(const struct advice_times *times)
{
    return times->count < 2 ? 0 : times->second / times->fastest - 1;
}

bool advice_changes_learning(enum advice_kind kind)
{
    return kind == ADVICE_BATCH || kind == ADVICE_AUGMENT || kind == ADVICE_WIDTH;
}

/* Whether an evaluation gets faster as a step does. */
static bool changes_evaluation(enum advice_kind kind)
{
    return kind == ADVICE_BATCH || kind == ADVICE_ACCUMULATE || kind == ADVICE_PRECISION ||
           kind == ADVICE_THREADS || kind == ADVICE_WIDTH;
}

static double find_gain(const struct advice_base *base, const struct advice_option *option)
{
    struct advice_costs after = base->costs;

    after.step = option->step;
    if (option->kind == ADVICE_LOADER_THREADS || option->kind == ADVICE_AUGMENT)
        after.step = fmax(after.step, base->costs.step * (1 - fmin(base->data_share, 1)));
    if (changes_evaluation(option->kind))
        after.evaluation *= option->step / base->costs.step;
    return advice_cost_of(&base->costs, &base->rhythm).all /
           advice_cost_of(&after, &option->rhythm).all;
}

static int compare_findings(const void *a, const void *b)
{
    const struct advice_finding *x = a, *y = b;

    if (x->worth != y->worth)
        return x->worth < y->worth ? 1 : -1;
    return x->option - y->option;
}

/* The option of the kind that is taken; its `option` is -1 if none was measured. */
static struct advice_finding best_of(const struct advice_base *base,
                                     const struct advice_option *options, int count,
                                     enum advice_kind kind)
{
    const double nearly = 0.85; /* of the gain's logarithm */
    struct advice_finding taken = {.option = -1};
    double most = 0;

    for (int i = 0; i < count; i++)
        if (options[i].kind == kind && options[i].step > 0)
            most = fmax(most, find_gain(base, &options[i]));
    for (int i = 0; i < count && taken.option < 0; i++) {
        double gain;

        if (options[i].kind != kind || !(options[i].step > 0))
            continue;
        gain = find_gain(base, &options[i]);
        if (gain >= most || gain >= pow(most, nearly))
            taken = (struct advice_finding){
                .option = i,
                .gain = gain,
                .saved = 1 - 1 / gain,
                .worth = advice_changes_learning(kind) ? sqrt(gain) : gain,
            };
    }
    return taken;
}

double advice_least_saved(double noise)
{
    return 1 - (1 - ADVICE_GAIN_MIN) / (1 + noise);
}

/* Rarer evaluations and checkpoints leave steps as they are: they pay if they would beside steps
 * that take longer by twice the noise. */
static bool interval_pays(const struct advice_base *base, struct advice_option option)
{
    struct advice_base slow = *base;

    slow.costs.step *= 1 + 2 * base->noise;
    option.step *= 1 + 2 * base->noise;
    return 1 - 1 / find_gain(&slow, &option) >= ADVICE_GAIN_MIN;
}

/* Whether the change saves enough even if the specification as it is were faster by its noise, and
 * the change no faster than its second fastest measurement. */
static bool pays(const struct advice_base *base, struct advice_option option)
{
    struct advice_base fast = *base;

    if (option.kind == ADVICE_EVALUATE || option.kind == ADVICE_CHECKPOINT)
        return interval_pays(base, option);
    fast.costs.step /= 1 + base->noise;
    option.step *= 1 + option.noise;
    return 1 - 1 / find_gain(&fast, &option) >= ADVICE_GAIN_MIN;
}

int advice_find(const struct advice_base *base, const struct advice_option *options, int count,
                struct advice_finding findings[ADVICE_KINDS])
{
    int found = 0;

    for (int kind = 0; kind < ADVICE_KINDS; kind++) {
        struct advice_finding taken = best_of(base, options, count, (enum advice_kind)kind);

        if (taken.option >= 0 && pays(base, options[taken.option]))
            findings[found++] = taken;
    }
    qsort(findings, (size_t)found, sizeof *findings, compare_findings);
    return found;
}

double advice_learning_rate(double learning_rate, double factor, bool is_sgd)
{
    return learning_rate * (is_sgd ? factor : sqrt(factor));
}
