/* rules.c: the common policies that traind's policy is compared with. */
#include "simulator/simulation_internal.h"

#include <math.h>
#include <stdlib.h>

struct candidate {
    size_t at; /* in active */
    double key;
    int running;
};

/* Of equal keys a running job comes first (only for least attained service), then the earlier
 * arrival. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;

    if (left->key != right->key)
        return left->key > right->key ? 1 : -1;
    if (left->running != right->running)
        return right->running - left->running;
    return (left->at > right->at) - (left->at < right->at);
}

static double best_seconds(const struct simulation *simulation, const struct running_job *job)
{
    double best = INFINITY;

    for (int type = 0; type < simulation->cluster->type_count; type++)
        best = fmin(best, job_seconds_left(simulation, job, type));
    return best;
}

static double rank(const struct simulation *simulation, const struct running_job *job, size_t at)
{
    double restart =
        job->started && job->type == POLICY_NONE ? simulation->options->restart_seconds : 0;

    switch (simulation->options->policy) {
    case SIMULATE_SHORTEST:
        return best_seconds(simulation, job);
    case SIMULATE_REMAINING:
        return best_seconds(simulation, job) + restart;
    case SIMULATE_ATTAINED:
        return floor(job->attained / simulation->options->round_seconds);
    case SIMULATE_FIFO:
    case SIMULATE_VALUE:
        break;
    }
    return (double)at;
}

/* The fastest type with enough free devices. For a running job, the time of a restart counts
 * against a move. */
static int fastest_free(const struct simulation *simulation, const struct running_job *job,
                        const int *free_devices)
{
    int best = POLICY_NONE;
    double best_time = INFINITY;

    for (int type = 0; type < simulation->cluster->type_count; type++) {
        double seconds = job_seconds_left(simulation, job, type);

        if (simulation->options->policy == SIMULATE_REMAINING && job->started && job->type != type)
            seconds += simulation->options->restart_seconds;
        if (free_devices[type] >= job->work->devices && seconds < best_time) {
            best_time = seconds;
            best = type;
        }
    }
    return best;
}

void choose_by_rule(struct simulation *simulation, int *types)
{
    enum simulation_policy policy = simulation->options->policy;
    bool preemptive = policy == SIMULATE_REMAINING || policy == SIMULATE_ATTAINED;
    struct candidate *candidates = malloc((simulation->active_count + 1) * sizeof *candidates);
    int free_devices[POLICY_TYPES_MAX];
    size_t count = 0;

    if (!candidates)
        abort();
    for (int type = 0; type < simulation->cluster->type_count; type++)
        free_devices[type] = simulation->cluster->counts[type];
    for (size_t i = 0; i < simulation->active_count; i++) {
        const struct running_job *job = &simulation->jobs[simulation->active[i]];

        types[i] = preemptive ? POLICY_NONE : job->type;
        if (types[i] != POLICY_NONE)
            free_devices[types[i]] -= job->work->devices;
        else
            candidates[count++] =
                (struct candidate){i, rank(simulation, job, i),
                                   policy == SIMULATE_ATTAINED && job->type != POLICY_NONE};
    }
    qsort(candidates, count, sizeof *candidates, compare_candidates);
    for (size_t i = 0; i < count; i++) {
        const struct running_job *job = &simulation->jobs[simulation->active[candidates[i].at]];
        int type = fastest_free(simulation, job, free_devices);

        if (type == POLICY_NONE && policy == SIMULATE_FIFO)
            break;
        if (type == POLICY_NONE)
            continue;
        types[candidates[i].at] = type;
        free_devices[type] -= job->work->devices;
    }
    simulation->next_review = policy == SIMULATE_ATTAINED
                                  ? simulation->now + simulation->options->round_seconds
                                  : INFINITY;
    free(candidates);
}
