/* policy_numbers.c: repairs numbers such as NaN, infinity or 1e300. Numbers come from measurements
 * and from jobs' own reports; one wrong number must not prevent the decision for all jobs. */
#include "scheduler/policy_internal.h"

#include <math.h>
#include <string.h>

/* 30,000 years: longer times are cut to this, so that sums and ratios stay finite. */
#define SECONDS_MAX 1e12
/* A larger deviation would make no practical difference: e^100 times as fast is fast enough. */
#define DEVIATION_MAX 100.0
/* The limit of settings: exponents, factors, counts of restarts. */
#define SETTING_MAX 1e6

struct numbers numbers_take(struct workspace *workspace, const struct policy_snapshot *snapshot)
{
    struct numbers numbers;

    numbers.snapshot = workspace_take(workspace, 1, sizeof *numbers.snapshot);
    numbers.jobs = workspace_take(workspace, snapshot->job_count, sizeof *numbers.jobs);
    numbers.estimates = workspace_take(
        workspace, snapshot->job_count * (size_t)snapshot->type_count, sizeof *numbers.estimates);
    return numbers;
}

/* `number` limited to `least` … `most`; `otherwise` if it is NaN. */
static double within(double number, double least, double most, double otherwise)
{
    return isnan(number) ? otherwise : fmin(fmax(number, least), most);
}

static double mend_seconds(double seconds, double otherwise)
{
    return isinf(seconds) && seconds > 0 ? seconds : within(seconds, 0, SECONDS_MAX, otherwise);
}

static struct policy_estimate mend_estimate(const struct policy_estimate *estimate, bool runs_there)
{
    struct policy_estimate mended = *estimate;

    mended.seconds = mend_seconds(estimate->seconds, runs_there ? SECONDS_MAX : INFINITY);
    mended.deviation = within(estimate->deviation, 0, DEVIATION_MAX, 0);
    mended.utilisation = within(estimate->utilisation, 0, 1, 0);
    return mended;
}

static struct policy_job mend_job(const struct policy_job *job)
{
    struct policy_job mended = *job;

    mended.waited = within(job->waited, 0, SECONDS_MAX, 0);
    mended.restart_seconds = within(job->restart_seconds, 0, SECONDS_MAX, 0);
    mended.left_deviation = within(job->left_deviation, 0, DEVIATION_MAX, 0);
    mended.bonus = within(job->bonus, 0, SETTING_MAX, 0);
    mended.put_first = within(job->put_first, 0, SECONDS_MAX, 0);
    return mended;
}

static struct policy_settings mend_settings(const struct policy_settings *settings)
{
    struct policy_settings mended = *settings, usual = policy_settings_default();

#define MEND(member, least) \
    mended.member = within(settings->member, least, SETTING_MAX, usual.member)
    MEND(congestion, 0);
    MEND(length_exponent, -SETTING_MAX);
    MEND(age_exponent, -SETTING_MAX);
    MEND(share_exponent, -SETTING_MAX);
    MEND(hysteresis, 0);
    MEND(optimism, -SETTING_MAX);
    MEND(starvation_factor, 0);
    MEND(utilisation_limit, 0);
#undef MEND
    mended.starvation_seconds =
        mend_seconds(settings->starvation_seconds, usual.starvation_seconds);
    return mended;
}

static bool runs_on_type(const struct policy_snapshot *snapshot, const struct policy_job *job,
                         int type)
{
    return job->on && snapshot->devices[job->on[0]].type == type;
}

/* ---- checks, as repairs are rare ------------------------------------------------------------- */

static bool is_within(double number, double least, double most)
{
    return number >= least && number <= most;
}

bool numbers_are_usable(const struct policy_job *job, int type_count)
{
    bool usable =
        is_within(job->waited, 0, SECONDS_MAX) && is_within(job->restart_seconds, 0, SECONDS_MAX) &&
        is_within(job->left_deviation, 0, DEVIATION_MAX) && is_within(job->bonus, 0, SETTING_MAX) &&
        is_within(job->put_first, 0, SECONDS_MAX);

    for (int type = 0; type < type_count; type++) {
        const struct policy_estimate *estimate = &job->estimates[type];

        usable &= (is_within(estimate->seconds, 0, SECONDS_MAX) || estimate->seconds == INFINITY) &&
                  is_within(estimate->deviation, 0, DEVIATION_MAX) &&
                  is_within(estimate->utilisation, 0, INFINITY);
    }
    return usable;
}

static void mend_jobs(const struct numbers *numbers, const struct policy_snapshot *snapshot)
{
    int types = snapshot->type_count;

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        struct policy_estimate *estimates = numbers->estimates + i * (size_t)types;

        for (int type = 0; type < types; type++)
            estimates[type] =
                mend_estimate(&job->estimates[type], runs_on_type(snapshot, job, type));
        numbers->jobs[i] = mend_job(job);
        numbers->jobs[i].estimates = estimates;
    }
}

const struct policy_snapshot *numbers_mend(struct numbers numbers,
                                           const struct policy_snapshot *snapshot, bool usable)
{
    *numbers.snapshot = *snapshot;
    numbers.snapshot->settings = mend_settings(&snapshot->settings);
    if (!usable) {
        mend_jobs(&numbers, snapshot);
        numbers.snapshot->jobs = numbers.jobs;
    }
    return numbers.snapshot;
}
