/* value.c: see value.h. */
#include "scheduler/value.h"

#include "scheduler/rank.h"

#include <math.h>
#include <string.h>

/* Seconds. Below this, differences in length do not matter: a job that is almost done has no
 * infinite value. */
#define SHORTEST_SECONDS 1.0
/* Seconds. A wait counts in multiples of the run time, or of this if the run time is shorter. */
#define SHORTEST_AGED_SECONDS 60.0
/* Device-seconds that are added to each user's measured usage. They prevent a division by zero, and
 * keep a user's first minutes from counting too much. */
#define USAGE_OFFSET 3600.0
#define FACTOR_MAX 16.0
/* How much more a job is worth than the best of those that it was put before. */
#define FIRST_FACTOR 1.01
/* The largest value that the factors may give together. */
#define BASE_MAX 1e100
/* For unknown lengths: the odds that one job is longer than another are the ratio of their run
 * times so far, to the power 1 / LENGTH_SOFTNESS. */
#define LENGTH_SOFTNESS 2.0
/* For the makespan. A running job keeps running until another job's share is larger by this much.
 * Otherwise jobs of equal shares would take turns all the time. */
#define STAYING_SHARE 0.1
/* A device outside all shares goes to a job that it helps. That is worth less than a share. */
#define SPARE_SHARE 0.02
/* A job may be longer than expected by this many standard deviations. The risk is one of the job,
 * not of each of its devices. It weighs less if there is more other work for all devices. */
#define RISK_DEVIATIONS 3.0

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
        double factor =
            pow(share * usage / (user->usage + USAGE_OFFSET), snapshot->settings.share_exponent);

        factors[i] = fmin(fmax(factor, 1 / FACTOR_MAX), FACTOR_MAX);
    }
}

struct job_value value_of_job(const struct policy_snapshot *snapshot, const struct policy_job *job,
                              const struct type_fit *fits, const double *user_factors)
{
    const struct policy_settings *settings = &snapshot->settings;
    struct job_value value = {.best_seconds = INFINITY,
                              .preferred_seconds = INFINITY,
                              .best_type = POLICY_NONE,
                              .restart = settings->hysteresis * job->restart_seconds};

    for (int type = 0; type < snapshot->type_count; type++) {
        double seconds =
            fits[type].fits ? value_seconds(settings, &job->estimates[type]) : INFINITY;

        if (seconds < value.best_seconds) {
            value.best_seconds = seconds;
            value.best_type = type;
        }
        if (fits[type].preferred && seconds < value.preferred_seconds)
            value.preferred_seconds = seconds;
    }
    if (!isfinite(value.best_seconds))
        return value;
    value.work = fmax(value.best_seconds * job->devices, SHORTEST_SECONDS);
    value.base = 1;
    if (settings->makespan)
        value.base = job->devices;
    else if (settings->congestion <= 0)
        value.base = job->devices * pow(value.work, -settings->length_exponent);
    if (settings->age_exponent != 0 && job->waited > 0)
        value.base *= pow(1 + job->waited / fmax(value.best_seconds, SHORTEST_AGED_SECONDS),
                          settings->age_exponent);
    if (job->user != POLICY_NONE)
        value.base *= user_factors[job->user];
    if (job->bonus > 0)
        value.base *= job->bonus;
    value.base = fmin(fmax(value.base, 1 / BASE_MAX), BASE_MAX);
    return value;
}

/* ---- congestion ------------------------------------------------------------------------------ */

/* Work in bins of a quarter of an octave, from a second to 500 years. */
enum { BINS = 136, BINS_PER_OCTAVE = 4 };

static int bin_of(double work)
{
    double bin = log2(work) * BINS_PER_OCTAVE;

    return bin < 0 ? 0 : bin >= BINS ? BINS - 1 : (int)bin;
}

/* Fills in how many other jobs are expected to have more work left than a job of unknown length in
 * a bin, for each bin that has jobs. */
static void expect_longer(const double counts[BINS], double expected[BINS])
{
    int used[BINS], used_count = 0;

    for (int bin = 0; bin < BINS; bin++)
        if (counts[bin] > 0)
            used[used_count++] = bin;
    for (int i = 0; i < used_count; i++) {
        int bin = used[i];

        for (int j = 0; j < used_count; j++)
            expected[bin] += (counts[used[j]] - (used[j] == bin)) /
                             (1 + exp2((bin - used[j]) / (BINS_PER_OCTAVE * LENGTH_SOFTNESS)));
    }
}

/* Memory for all jobs in the order of their work, and for sorting them. */
struct order {
    struct ranked *jobs, *other;
};

static struct order take_order(struct workspace *workspace, size_t job_count)
{
    struct order order;

    order.jobs = workspace_take(workspace, job_count, sizeof *order.jobs);
    order.other = workspace_take(workspace, job_count, sizeof *order.other);
    return order;
}

size_t value_congestion_size(const struct policy_snapshot *snapshot)
{
    struct workspace counted = {0};

    take_order(&counted, snapshot->job_count);
    return counted.taken;
}

static double job_count_of(const struct policy_job *job)
{
    return 1 + (double)job->alike;
}

/* Multiplies the congestion factor into the values of the jobs with equal work: ranks `from` to
 * `to`. `longer` jobs have more work. */
static void add_congestion(const struct policy_snapshot *snapshot, struct job_value *values,
                           const struct ranked *from, const struct ranked *to, double longer,
                           const double *expected)
{
    double scale = snapshot->settings.congestion / (double)snapshot->device_count, equal = -1;

    for (const struct ranked *work = from; work < to; work++)
        equal += job_count_of(&snapshot->jobs[work->index]);
    for (const struct ranked *work = from; work < to; work++) {
        const struct policy_job *job = &snapshot->jobs[work->index];
        double later =
            job->length_known ? longer + equal / 2 : expected[bin_of(values[work->index].work)];

        values[work->index].base *= 1 + scale * job->devices * later;
    }
}

void value_add_congestion(const struct policy_snapshot *snapshot, struct job_value *values,
                          struct workspace workspace)
{
    size_t count = 0;
    struct order all_jobs = take_order(&workspace, snapshot->job_count);
    struct ranked *order = all_jobs.jobs;
    double expected[BINS] = {0}, counts[BINS] = {0}, all = 0;
    bool unknown = false;

    for (size_t i = 0; i < snapshot->job_count; i++) {
        if (!isfinite(values[i].best_seconds))
            continue;
        order[count].index = i; /* the bits of positive doubles are ordered as the numbers */
        memcpy(&order[count++].key, &values[i].work, sizeof values[i].work);
        all += job_count_of(&snapshot->jobs[i]);
        unknown |= !snapshot->jobs[i].length_known;
    }
    for (size_t i = 0; unknown && i < count; i++)
        counts[bin_of(values[order[i].index].work)] +=
            job_count_of(&snapshot->jobs[order[i].index]);
    if (unknown)
        expect_longer(counts, expected);
    rank_sort(order, all_jobs.other, count);
    for (size_t rank = 0, next; rank < count; rank = next) {
        for (next = rank; next < count && order[next].key == order[rank].key; next++)
            all -= job_count_of(&snapshot->jobs[order[next].index]);
        add_congestion(snapshot, values, order + rank, order + next, all, expected);
    }
}

/* ---- jobs that were put first ---------------------------------------------------------------- */

/* Whether the job waits and some device can take it; only such jobs have an order. */
static bool has_order(const struct policy_job *job, const struct job_value *value)
{
    return !job->on && isfinite(value->best_seconds);
}

/* Lists the jobs by user and priority, and within these by when they were put first. */
static size_t order_by_user(const struct policy_snapshot *snapshot, const struct job_value *values,
                            const struct order *order)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->job_count; i++) {
        if (!has_order(&snapshot->jobs[i], &values[i]))
            continue;
        order->jobs[count].index = i; /* the bits of positive doubles are ordered as the numbers */
        memcpy(&order->jobs[count++].key, &snapshot->jobs[i].put_first, sizeof(double));
    }
    rank_sort(order->jobs, order->other, count);
    for (size_t i = 0; i < count; i++) {
        const struct policy_job *job = &snapshot->jobs[order->jobs[i].index];

        order->jobs[i].key = (uint64_t)(uint32_t)job->user << 32 | (uint32_t)job->priority;
    }
    rank_sort(order->jobs, order->other, count);
    return count;
}

size_t value_first_count(const struct policy_snapshot *snapshot)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->job_count; i++)
        count += snapshot->jobs[i].put_first > 0;
    return count;
}

/* Gives a job that was put first its floors. Its own value is raised to the largest of them, so
 * that no type is worth more than that. */
static void floors_set(const struct policy_snapshot *snapshot, const struct policy_job *job,
                       const double *best, double *floors, struct job_value *value)
{
    for (int type = 0; type < snapshot->type_count; type++) {
        floors[type] = isfinite(job->estimates[type].seconds)
                           ? fmin(FIRST_FACTOR * job->devices * best[type], BASE_MAX)
                           : 0;
        value->base = fmax(value->base, floors[type]);
    }
    value->floors = floors;
}

void value_put_first(const struct policy_snapshot *snapshot, struct job_value *values,
                     double *floors, struct workspace workspace)
{
    struct order order = take_order(&workspace, snapshot->job_count);
    /* on each type: the largest value for a device among the jobs that were put first earlier than
     * `level`, and with those of this level */
    double best[POLICY_TYPES_MAX] = {0}, reached[POLICY_TYPES_MAX] = {0}, level = 0;
    size_t count = value_first_count(snapshot) ? order_by_user(snapshot, values, &order) : 0;

    for (size_t i = 0; i < count; i++) {
        size_t index = order.jobs[i].index;
        const struct policy_job *job = &snapshot->jobs[index];

        if (i > 0 && order.jobs[i].key != order.jobs[i - 1].key) {
            memset(reached, 0, sizeof reached);
            level = 0;
        }
        if (job->put_first > level) {
            level = job->put_first;
            memcpy(best, reached, sizeof best);
        }
        if (job->put_first > 0) {
            floors_set(snapshot, job, best, floors, &values[index]);
            floors += snapshot->type_count;
        }
        for (int type = 0; type < snapshot->type_count; type++)
            reached[type] = fmax(reached[type],
                                 value_on_type(snapshot, job, &values[index], type, false, false) /
                                     job->devices);
    }
}

/* The value for the makespan. */
static double value_of_share(const struct policy_snapshot *snapshot, const struct policy_job *job,
                             const struct job_value *value, int type, bool stays)
{
    double seconds = fmax(value_seconds(&snapshot->settings, &job->estimates[type]), 1e-9);
    double suit = fmax(value->best_seconds, 1e-9) / seconds;
    double risk = RISK_DEVIATIONS * job->left_deviation * value->room / job->devices;
    double worth = value->shares[type] +
                   snapshot->settings.optimism * job->estimates[type].deviation +
                   (SPARE_SHARE + risk) * value->part * suit;

    worth = fmax(worth, 0);
    if (stays)
        return value->base * (worth + STAYING_SHARE);
    if (job->resumes || job->on)
        worth *= seconds / (seconds + value->restart);
    return value->base * worth;
}

/* The value without regard to what was put first. */
static double own_value(const struct policy_snapshot *snapshot, const struct policy_job *job,
                        const struct job_value *value, int type, bool preferred, bool stays)
{
    double seconds = value_seconds(&snapshot->settings, &job->estimates[type]), restart = 0;

    if (!isfinite(seconds) || !isfinite(value->best_seconds))
        return 0;
    if (value->shares && !isfinite(value->preferred_seconds))
        return value_of_share(snapshot, job, value, type, stays);
    if (!stays && (job->resumes || job->on))
        restart = value->restart;
    if (isfinite(value->preferred_seconds)) {
        double alone = fmax(seconds, 1e-9);
        double suit = preferred ? 1 + fmax(value->preferred_seconds, 1e-9) / alone
                                : fmax(value->best_seconds, 1e-9) / alone;

        return value->base * suit / 2 * alone / fmax(seconds + restart, 1e-9);
    }
    return value->base * fmax(value->best_seconds, 1e-9) / fmax(seconds + restart, 1e-9);
}

double value_on_type(const struct policy_snapshot *snapshot, const struct policy_job *job,
                     const struct job_value *value, int type, bool preferred, bool stays)
{
    double own = own_value(snapshot, job, value, type, preferred, stays);

    return value->floors && own > 0 ? fmax(own, value->floors[type]) : own;
}
