/* policy_candidates.c: says for one job of a decision why it got each device, or did not. */
#include "scheduler/policy_internal.h"

#include <math.h>

static const char *const policy_candidate_verdict_names[] = {
    [POLICY_CANDIDATE_CHOSEN] = "chosen",
    [POLICY_CANDIDATE_EQUAL] = "equal",
    [POLICY_CANDIDATE_SLOWER] = "slower",
    [POLICY_CANDIDATE_NOT_PREFERRED] = "not_preferred",
    [POLICY_CANDIDATE_RESTART] = "restart",
    [POLICY_CANDIDATE_BUSY] = "busy",
    [POLICY_CANDIDATE_FEW] = "few",
    [POLICY_CANDIDATE_MEMORY] = "memory",
    [POLICY_CANDIDATE_TOO_LARGE] = "too_large",
    [POLICY_CANDIDATE_DRAINING] = "draining",
    [POLICY_CANDIDATE_LOST] = "lost",
    [POLICY_CANDIDATE_RESERVED] = "reserved",
    [POLICY_CANDIDATE_USER_LIMIT] = "user_limit",
    [POLICY_CANDIDATE_NOT_ALLOWED] = "not_allowed",
    [POLICY_CANDIDATE_CANNOT_RUN] = "cannot_run",
};

DEFINE_STRING_TABLE(policy_candidate_verdict, enum policy_candidate_verdict,
                    policy_candidate_verdict_names)

/* One job and one device of a decision. */
struct view {
    const struct policy_snapshot *snapshot;
    const struct policy_job *job;
    const struct policy_placement *placement;
    const struct policy_device *device;
    const struct policy_estimate *estimate;
    struct policy_load load;            /* without the job itself */
    uint64_t held;                      /* bytes that running jobs need not give up for it */
    const struct policy_device *ledger; /* in whose memory its jobs are */
    uint64_t beside;                    /* bytes of other jobs on other devices of that ledger */
    int index;                          /* of the device */
    bool here, chosen;                  /* it ran there before; the decision places it there */
};

/* Seconds to the job's end on `type` as the policy values them, with a restart if it needs one. */
static double believed_seconds(const struct view *view, int type, bool stays)
{
    const struct policy_job *job = view->job;
    bool restarts = !stays && (job->on || job->resumes);

    return value_seconds(&view->snapshot->settings, &job->estimates[type]) +
           (restarts ? job->restart_seconds : 0);
}

/* Why the job's place suits it at least as well as this device; CHOSEN: it does not, or the job has
 * no place. */
static enum policy_candidate_verdict compare_with_chosen(const struct view *view)
{
    const struct policy_placement *placement = view->placement;
    bool stays = placement->verdict == POLICY_STAY;
    double there, here;

    if (!placement->devices)
        return POLICY_CANDIDATE_CHOSEN;
    if (job_prefers(view->job, placement->devices[0]) && !job_prefers(view->job, view->index))
        return POLICY_CANDIDATE_NOT_PREFERRED;
    there = believed_seconds(view, placement->type, stays);
    here = believed_seconds(view, view->device->type, view->here);
    if (here > there)
        return stays && value_seconds(&view->snapshot->settings, view->estimate) <=
                            value_seconds(&view->snapshot->settings,
                                          &view->job->estimates[placement->type])
                   ? POLICY_CANDIDATE_RESTART
                   : POLICY_CANDIDATE_SLOWER;
    return POLICY_CANDIDATE_CHOSEN;
}

/* Judges a device that has room for the job and is not slower, but that it did not get. */
static enum policy_candidate_verdict judge_free(const struct view *view, int64_t *other)
{
    const struct policy_placement *placement = view->placement;

    if (view->load.reserved_for) {
        *other = view->load.reserved_for;
        return POLICY_CANDIDATE_RESERVED;
    }
    if (placement->verdict == POLICY_WAIT_USER_LIMIT)
        return POLICY_CANDIDATE_USER_LIMIT;
    if (view->load.jobs > 0) {
        *other = view->load.job;
        return POLICY_CANDIDATE_BUSY;
    }
    if (!placement->devices)
        return view->job->devices > 1 ? POLICY_CANDIDATE_FEW : POLICY_CANDIDATE_BUSY;
    if (placement->verdict == POLICY_STAY && !view->here)
        return placement->type == view->device->type ? POLICY_CANDIDATE_EQUAL
                                                     : POLICY_CANDIDATE_RESTART;
    return view->job->devices > 1 && placement->type != view->device->type ? POLICY_CANDIDATE_FEW
                                                                           : POLICY_CANDIDATE_EQUAL;
}

/* Whether the job may share the device with the jobs that are on it, if memory allows. */
static bool may_join(const struct view *view)
{
    const struct policy_load *load = &view->load;

    return load->shared && view->job->shares && view->job->devices == 1 &&
           (view->device->jobs_max <= 0 || load->jobs < view->device->jobs_max) &&
           utilisation_allows(view->snapshot, view->device,
                              load->utilisation + job_utilisation(view->estimate), view->here);
}

/* Whether the ledger has memory for the job beside `booked` bytes on the device. */
static bool ledger_takes(const struct view *view, uint64_t booked)
{
    uint64_t limit = device_limit(view->ledger, true), all = memory_sum(booked, view->beside);

    return view->estimate->memory <= limit && all <= limit - view->estimate->memory &&
           (view->here || !device_above_watermark(view->ledger, all));
}

/* Whether the device has too little memory for the job and the jobs that it would join, or is above
 * its watermark. */
static bool is_too_full(const struct view *view, int64_t *other)
{
    uint64_t limit = device_limit(view->device, true);
    uint64_t joined = may_join(view) ? view->load.memory : 0, booked = joined;

    if (view->held > booked)
        booked = view->held;
    if (view->estimate->memory <= limit && booked <= limit - view->estimate->memory &&
        (view->here || !device_above_watermark(view->device, booked)) && ledger_takes(view, joined))
        return false;
    *other = booked > 0 ? view->load.job : 0;
    return true;
}

/* Permanent reasons come before temporary ones. So LOST and DRAINING mean that the device could
 * take the job if it were back. */
static enum policy_candidate_verdict judge(const struct view *view, int64_t *other)
{
    const struct policy_device *device = view->device;
    enum policy_candidate_verdict verdict;

    if (view->chosen)
        return POLICY_CANDIDATE_CHOSEN;
    if (!job_allows(view->job, view->index))
        return POLICY_CANDIDATE_NOT_ALLOWED;
    if (!isfinite(view->estimate->seconds))
        return POLICY_CANDIDATE_CANNOT_RUN;
    if (view->estimate->memory > device_limit(device, false) ||
        view->estimate->memory > device_limit(view->ledger, false))
        return POLICY_CANDIDATE_TOO_LARGE;
    if (device->lost)
        return POLICY_CANDIDATE_LOST;
    if (device->draining && !view->here)
        return POLICY_CANDIDATE_DRAINING;
    if (is_too_full(view, other))
        return POLICY_CANDIDATE_MEMORY;
    verdict = compare_with_chosen(view);
    if (verdict != POLICY_CANDIDATE_CHOSEN)
        return verdict;
    if (view->load.jobs > 0 && !may_join(view)) {
        *other = view->load.job;
        return POLICY_CANDIDATE_BUSY;
    }
    return judge_free(view, other);
}

static uint64_t left_of(const struct policy_device *device, uint64_t taken)
{
    uint64_t limit = device_limit(device, true);

    return limit == UINT64_MAX ? limit : taken < limit ? limit - taken : 0;
}

static uint64_t memory_left(const struct view *view)
{
    uint64_t taken = view->load.memory > view->held ? view->load.memory : view->held;

    return memory_least(left_of(view->device, taken),
                        left_of(view->ledger, memory_sum(view->load.memory, view->beside)));
}

/* Bytes of jobs on the other devices of the ledger, without those of the job itself. */
static uint64_t memory_beside(const struct policy_snapshot *snapshot,
                              const struct policy_decision *decision, size_t index, int device)
{
    const struct policy_placement *placement = &decision->placements[index];
    uint64_t memory = 0;

    for (int d = 0; snapshot->ledgers && d < (int)snapshot->device_count; d++)
        if (d != device && ledger_of(snapshot, d) == ledger_of(snapshot, device))
            memory = memory_sum(memory,
                                decision->loads[d].memory -
                                    (job_holds(placement->devices, snapshot->jobs[index].devices, d)
                                         ? snapshot->jobs[index].estimates[placement->type].memory
                                         : 0));
    return memory;
}

size_t policy_candidates(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision, size_t index,
                         struct policy_candidate *candidates, size_t limit)
{
    const struct policy_job *job = &snapshot->jobs[index];
    const struct policy_placement *placement = &decision->placements[index];
    size_t count = limit < snapshot->device_count ? limit : snapshot->device_count;
    uint64_t held[POLICY_DEVICES_MAX];
    bool yields = job->yields && !placement->starving;

    if (yields)
        memory_of_running(snapshot, held);
    for (size_t d = 0; d < count; d++) {
        const struct policy_device *device = &snapshot->devices[d];
        struct view view = {.snapshot = snapshot,
                            .job = job,
                            .placement = placement,
                            .device = device,
                            .estimate = &job->estimates[device->type],
                            .load = decision->loads[d],
                            .held = yields ? held[d] : 0,
                            .ledger = &snapshot->devices[ledger_of(snapshot, (int)d)],
                            .beside = memory_beside(snapshot, decision, index, (int)d),
                            .index = (int)d,
                            .here = job_holds(job->on, job->devices, (int)d),
                            .chosen = job_holds(placement->devices, job->devices, (int)d)};
        bool stays = view.here && (!view.chosen || placement->verdict == POLICY_STAY);

        if (view.chosen) {
            view.load.memory -= view.estimate->memory;
            view.load.jobs--;
        }
        candidates[d] = (struct policy_candidate){
            .device = (int)d,
            .seconds = view.estimate->seconds +
                       (!stays && (job->on || job->resumes) ? job->restart_seconds : 0),
            .deviation = view.estimate->deviation,
            .memory = view.estimate->memory,
            .memory_free = memory_left(&view)};
        candidates[d].verdict = judge(&view, &candidates[d].other);
    }
    return count;
}
