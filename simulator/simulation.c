/* simulation.c: see simulation.h. */
#include "base/clock.h"
#include "base/philox.h"
#include "simulator/simulation_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The least predicted rest of a job that is overdue, or whose length is unknown. Seconds. */
#define LEAST_SECONDS 60.0
#define UNKNOWN_LEAST_SECONDS 600.0

/* ---- predictions ----------------------------------------------------------------------------- */

/* A normally distributed number that depends only on the arguments (Box and Muller). */
static double normal(uint64_t seed, uint32_t what, uint64_t index)
{
    struct philox draw = philox_draw(seed, philox_stream(PHILOX_SAMPLING, what), index);
    double u = ((double)draw.word[0] + 0.5) * 0x1p-32, v = (double)draw.word[1] * 0x1p-32;

    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* FNV-1a of the model and the number of devices: the plan's hash. */
static uint64_t class_hash(const struct workload_job *work)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);

    for (const char *c = work->model; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001B3);
    return (hash ^ (uint64_t)work->devices) * UINT64_C(0x100000001B3);
}

double job_seconds_left(const struct simulation *simulation, const struct running_job *job,
                        int type)
{
    double declared = simulation->options->hide_lengths ? 0 : job->declared;
    double least = 0;

    if (!isfinite(job->speeds[type]->seconds))
        return INFINITY;
    if (simulation->options->left_noise > 0 && !simulation->options->hide_lengths)
        return (job->work->steps - job->done) * job->left_factor * job->speeds[type]->seconds +
               job->restart_left;
    if (simulation->options->hide_lengths)
        least = UNKNOWN_LEAST_SECONDS / job->speeds[type]->seconds;
    else if (simulation->options->length_noise > 0)
        least = LEAST_SECONDS / job->speeds[type]->seconds;
    return steps_left(declared, simulation->options->length_noise, job->done, least) *
               job->speeds[type]->seconds +
           job->restart_left;
}

/* The standard deviation of the job's rest, relative to it. */
static double job_left_deviation(const struct simulation *simulation, const struct running_job *job)
{
    double noise = simulation->options->length_noise;

    if (!simulation->options->hide_lengths && simulation->options->left_noise > 0)
        return simulation->options->left_noise;
    if (simulation->options->hide_lengths || noise == 0)
        return 0;
    return steps_left_deviation(job->declared, noise, job->done) /
           steps_left(job->declared, noise, job->done, 1);
}

static void set_beliefs(struct simulation *simulation, size_t index)
{
    const struct simulation_options *options = simulation->options;
    struct running_job *job = &simulation->jobs[index];
    uint64_t hash = class_hash(job->work);

    job->declared = job->work->steps;
    if (options->length_noise > 0)
        job->declared *= exp(options->length_noise * normal(options->seed, 1, index));
    if (options->left_noise > 0)
        job->left_factor = exp(options->left_noise * normal(options->seed, 1, index));
    for (int type = 0; type < simulation->cluster->type_count; type++) {
        struct predictor_row *row = predictor_find(&simulation->predictor, hash, type, true);
        double speed = job->work->steps_per_second[type];

        job->speeds[type] = &row->time;
        job->measured[type] = &simulation->class_steps[row - simulation->predictor.rows];
        if (row->time.seconds > 0)
            continue;
        row->time.seconds = speed > 0 ? 1 / speed : INFINITY;
        row->time.deviation = options->speed_noise;
        if (options->speed_noise > 0)
            row->time.seconds *=
                exp(options->speed_noise * normal(options->seed, 2 + (uint32_t)type, hash));
    }
}

/* ---- state ----------------------------------------------------------------------------------- */

static void simulation_free(struct simulation *simulation)
{
    for (size_t i = 0; simulation->jobs && i < simulation->count; i++)
        free(simulation->jobs[i].devices);
    free(simulation->jobs);
    free(simulation->active);
    free(simulation->device_types);
    free(simulation->devices);
    free(simulation->policy_jobs);
    free(simulation->estimates);
    free(simulation->workspace);
    free(simulation->predictor.rows);
    free(simulation->class_steps);
    free(simulation->decision_seconds);
}

static int simulation_allocate(struct simulation *simulation, const struct workload *workload)
{
    size_t count = workload->count, types = (size_t)simulation->cluster->type_count;

    simulation->predictor.capacity = 64;
    while (simulation->predictor.capacity < 2 * count * types)
        simulation->predictor.capacity *= 2;
    simulation->jobs = calloc(count, sizeof *simulation->jobs);
    simulation->active = calloc(count, sizeof *simulation->active);
    simulation->device_types = calloc((size_t)simulation->device_count, sizeof(int));
    simulation->devices = calloc((size_t)simulation->device_count, sizeof *simulation->devices);
    simulation->policy_jobs = calloc(count, sizeof *simulation->policy_jobs);
    simulation->estimates = calloc(count * types, sizeof *simulation->estimates);
    simulation->predictor.rows =
        calloc(simulation->predictor.capacity, sizeof *simulation->predictor.rows);
    simulation->class_steps = calloc(simulation->predictor.capacity, sizeof(double));
    if (!simulation->jobs || !simulation->active || !simulation->device_types ||
        !simulation->devices || !simulation->policy_jobs || !simulation->estimates ||
        !simulation->predictor.rows || !simulation->class_steps)
        return -ENOMEM;
    simulation->count = count;
    for (size_t i = 0; i < count; i++) {
        struct running_job *job = &simulation->jobs[i];

        job->work = &workload->jobs[i];
        job->type = POLICY_NONE;
        job->devices = calloc((size_t)job->work->devices, sizeof(int));
        if (!job->devices)
            return -ENOMEM;
        set_beliefs(simulation, i);
    }
    return 0;
}

static int simulation_begin(struct simulation *simulation, const struct workload *workload)
{
    const struct cluster *cluster = simulation->cluster;
    int device = 0, result;

    for (int type = 0; type < cluster->type_count; type++)
        simulation->device_count += cluster->counts[type];
    result = simulation_allocate(simulation, workload);
    for (int type = 0; result == 0 && type < cluster->type_count; type++)
        for (int i = 0; i < cluster->counts[type]; i++, device++) {
            simulation->device_types[device] = type;
            simulation->devices[device] =
                (struct policy_device){.name = cluster->names[type], .type = type};
        }
    simulation->now = workload->count ? workload->jobs[0].arrival : 0;
    return result;
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void fill_snapshot(struct simulation *simulation, struct policy_snapshot *snapshot)
{
    int types = simulation->cluster->type_count;

    for (size_t i = 0; i < simulation->active_count; i++) {
        struct running_job *job = &simulation->jobs[simulation->active[i]];
        struct policy_estimate *estimates = &simulation->estimates[i * (size_t)types];
        double ran = job->attained / job->work->devices;

        for (int type = 0; type < types; type++)
            estimates[type] =
                (struct policy_estimate){.seconds = job_seconds_left(simulation, job, type),
                                         .deviation = job->speeds[type]->deviation};
        simulation->policy_jobs[i] =
            (struct policy_job){.id = (int64_t)simulation->active[i] + 1,
                                .user = POLICY_NONE,
                                .devices = job->work->devices,
                                .waited = fmax(simulation->now - job->work->arrival - ran, 0),
                                .restart_seconds = simulation->options->restart_seconds,
                                .starved = job->starved,
                                .resumes = job->started,
                                .length_known = !simulation->options->hide_lengths,
                                .movable = true,
                                .left_deviation = job_left_deviation(simulation, job),
                                .estimates = estimates,
                                .on = job->type == POLICY_NONE ? NULL : job->devices};
    }
    *snapshot =
        (struct policy_snapshot){.type_count = types,
                                 .type_names = (const char *const *)simulation->cluster->names,
                                 .devices = simulation->devices,
                                 .device_count = (size_t)simulation->device_count,
                                 .jobs = simulation->policy_jobs,
                                 .job_count = simulation->active_count,
                                 .settings = simulation->options->settings};
}

int choose_by_value(struct simulation *simulation, struct policy_decision *decision,
                    struct error *error)
{
    struct policy_snapshot snapshot;
    size_t size;
    int result;

    fill_snapshot(simulation, &snapshot);
    size = policy_workspace_size(&snapshot);
    if (size > simulation->workspace_size) {
        free(simulation->workspace);
        simulation->workspace = malloc(size);
        simulation->workspace_size = simulation->workspace ? size : 0;
        if (!simulation->workspace)
            return error_set(error, -ENOMEM, "out of memory");
    }
    result = policy_decide(&snapshot, simulation->workspace, simulation->workspace_size, decision);
    if (result < 0)
        return error_set_errno(error, result, "no decision for %zu jobs", snapshot.job_count);
    simulation->inexact += !decision->exact;
    simulation->next_review = simulation->now + decision->next_seconds;
    if (simulation->options->hide_lengths) /* the predictions of their lengths change as they run */
        simulation->next_review =
            fmin(simulation->next_review, simulation->now + simulation->options->round_seconds);
    return 0;
}

static void job_place(struct simulation *simulation, struct running_job *job, int type,
                      const int *devices)
{
    bool same = type == job->type;

    for (int d = 0; same && type != POLICY_NONE && d < job->work->devices; d++)
        same = devices[d] == job->devices[d];
    if (same)
        return;
    job->preemptions += job->type != POLICY_NONE;
    job->type = type;
    if (type == POLICY_NONE)
        return;
    memcpy(job->devices, devices, (size_t)job->work->devices * sizeof(int));
    job->restart_left = job->started ? simulation->options->restart_seconds : 0;
    job->started = true;
}

/* Gives each job free devices of the type that the rule chose. */
static void place_by_types(struct simulation *simulation, const int *types)
{
    bool taken[POLICY_DEVICES_MAX] = {false};
    int devices[POLICY_DEVICES_MAX];

    for (size_t i = 0; i < simulation->active_count; i++) {
        struct running_job *job = &simulation->jobs[simulation->active[i]];

        if (types[i] != job->type)
            job_place(simulation, job, POLICY_NONE, NULL);
        for (int d = 0; job->type != POLICY_NONE && d < job->work->devices; d++)
            taken[job->devices[d]] = true;
    }
    for (size_t i = 0; i < simulation->active_count; i++) {
        struct running_job *job = &simulation->jobs[simulation->active[i]];
        int count = 0;

        if (types[i] == job->type)
            continue;
        for (int d = 0; d < simulation->device_count && count < job->work->devices; d++)
            if (simulation->device_types[d] == types[i] && !taken[d]) {
                taken[d] = true;
                devices[count++] = d;
            }
        job_place(simulation, job, types[i], devices);
    }
}

static int decision_time_add(struct simulation *simulation, double seconds)
{
    if (simulation->decision_count == simulation->decision_capacity) {
        size_t capacity = simulation->decision_capacity ? 2 * simulation->decision_capacity : 1024;
        double *grown = realloc(simulation->decision_seconds, capacity * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        simulation->decision_seconds = grown;
        simulation->decision_capacity = capacity;
    }
    simulation->decision_seconds[simulation->decision_count++] = seconds;
    return 0;
}

static int decide(struct simulation *simulation, struct error *error)
{
    double begin = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    struct policy_decision decision;
    int *types = NULL, result = 0;

    if (simulation->options->policy == SIMULATE_VALUE) {
        result = choose_by_value(simulation, &decision, error);
    } else {
        types = malloc((simulation->active_count + 1) * sizeof *types);
        if (!types)
            return error_set(error, -ENOMEM, "out of memory");
        choose_by_rule(simulation, types);
    }
    if (result == 0 &&
        decision_time_add(simulation, clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin) < 0)
        result = error_set(error, -ENOMEM, "out of memory");
    if (result == 0 && types)
        place_by_types(simulation, types);
    for (size_t i = 0; result == 0 && !types && i < simulation->active_count; i++) {
        const struct policy_placement *placement = &decision.placements[i];
        struct running_job *job = &simulation->jobs[simulation->active[i]];

        job_place(simulation, job, placement->type, placement->devices);
        job->starved = placement->starving && placement->devices;
    }
    free(types);
    return result;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Steps until the speed of the job's class on its type is known; INFINITY: it is known. */
static double steps_to_measurement(const struct simulation *simulation,
                                   const struct running_job *job)
{
    double measured = *job->measured[job->type];

    if (simulation->options->speed_noise == 0 || simulation->options->no_learning ||
        measured >= simulation->options->measure_steps)
        return INFINITY;
    return simulation->options->measure_steps - measured;
}

static double next_event(const struct simulation *simulation)
{
    double next =
        simulation->next_review > simulation->now + 1e-6 ? simulation->next_review : INFINITY;

    if (simulation->arrived < simulation->count)
        next = fmin(next, simulation->jobs[simulation->arrived].work->arrival);
    for (size_t i = 0; i < simulation->active_count; i++) {
        const struct running_job *job = &simulation->jobs[simulation->active[i]];
        double steps;

        if (job->type == POLICY_NONE)
            continue;
        steps = fmin(job->work->steps - job->done, steps_to_measurement(simulation, job));
        next = fmin(next, simulation->now + job->restart_left +
                              steps / job->work->steps_per_second[job->type]);
    }
    return next;
}

static void job_advance(struct simulation *simulation, struct running_job *job, double seconds)
{
    double speed = job->work->steps_per_second[job->type];
    double lost = fmin(job->restart_left, seconds), steps = (seconds - lost) * speed;
    double wanted = steps_to_measurement(simulation, job);

    job->attained += seconds * job->work->devices;
    simulation->busy += seconds * job->work->devices;
    job->restart_left -= lost;
    job->done += steps;
    *job->measured[job->type] += steps;
    if (isfinite(wanted) && wanted - steps <= 1e-6 * speed) {
        step_time_observe(job->speeds[job->type], 1 / speed, simulation->options->measure_steps);
        *job->measured[job->type] =
            fmax(*job->measured[job->type], simulation->options->measure_steps);
    }
}

static void advance(struct simulation *simulation, double to)
{
    size_t kept = 0;

    for (size_t i = 0; i < simulation->active_count; i++) {
        struct running_job *job = &simulation->jobs[simulation->active[i]];

        if (job->type != POLICY_NONE) {
            double speed = job->work->steps_per_second[job->type];

            job_advance(simulation, job, to - simulation->now);
            if (job->work->steps - job->done <= 1e-6 * speed + 1e-9 && job->restart_left <= 1e-9) {
                job->finished = to;
                job->type = POLICY_NONE;
                continue;
            }
        }
        simulation->active[kept++] = simulation->active[i];
    }
    simulation->active_count = kept;
    simulation->now = to;
}

static int run(struct simulation *simulation, struct error *error)
{
    size_t ended = 0;

    while (ended < simulation->count) {
        double next;
        size_t before;

        while (simulation->arrived < simulation->count &&
               simulation->jobs[simulation->arrived].work->arrival <= simulation->now + 1e-9)
            simulation->active[simulation->active_count++] = simulation->arrived++;
        if (decide(simulation, error) < 0)
            return error->code;
        next = next_event(simulation);
        if (next > SCHEDULE_SECONDS_MAX && isfinite(next))
            return error_set(error, -EINVAL,
                             "the schedule takes longer than %.0f seconds: the jobs' steps, their "
                             "speeds or an option are too large or too small",
                             SCHEDULE_SECONDS_MAX);
        if (!isfinite(next))
            return error_set(error, -EINVAL, "%zu jobs wait for ever", simulation->active_count);
        before = simulation->active_count;
        advance(simulation, fmax(next, simulation->now));
        ended += before - simulation->active_count;
    }
    return 0;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* A percentile of sorted values, interpolated between neighbours. */
static double percentile(const double *values, size_t count, double percent)
{
    double at = (double)(count - 1) * percent / 100;
    size_t below = (size_t)at;

    if (count == 0)
        return 0;
    if (below + 1 >= count)
        return values[count - 1];
    return values[below] + (values[below + 1] - values[below]) * (at - (double)below);
}

static double average(const double *values, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

static void summarise(struct simulation *simulation, double *times, double *completions,
                      struct simulation_result *result)
{
    size_t count = simulation->count;
    double last = 0, first = simulation->jobs[0].work->arrival;

    for (size_t i = 0; i < count; i++) {
        const struct running_job *job = &simulation->jobs[i];

        times[i] = job->finished - job->work->arrival;
        if (completions)
            completions[i] = times[i];
        last = fmax(last, job->finished);
        result->preemptions += job->preemptions;
        result->longest_wait =
            fmax(result->longest_wait, times[i] - job->attained / job->work->devices);
    }
    qsort(times, count, sizeof *times, compare_doubles);
    result->average_completion = average(times, count);
    result->median_completion = percentile(times, count, 50);
    result->p95_completion = percentile(times, count, 95);
    result->p99_completion = percentile(times, count, 99);
    result->worst_completion = times[count - 1];
    result->makespan = last - first;
    result->utilisation = simulation->busy / (result->makespan * simulation->device_count);
    for (size_t i = 0; i < count; i++) {
        const struct running_job *job = &simulation->jobs[i];
        double best = 0;

        for (int type = 0; type < simulation->cluster->type_count; type++)
            best = fmax(best, job->work->steps_per_second[type]);
        times[i] = (job->finished - job->work->arrival) / (job->work->steps / best);
    }
    qsort(times, count, sizeof *times, compare_doubles);
    result->average_slowdown = average(times, count);
    result->p99_slowdown = percentile(times, count, 99);
    qsort(simulation->decision_seconds, simulation->decision_count, sizeof(double),
          compare_doubles);
    result->decision_median =
        percentile(simulation->decision_seconds, simulation->decision_count, 50);
    result->decision_p99 = percentile(simulation->decision_seconds, simulation->decision_count, 99);
    result->decision_worst = simulation->decision_seconds[simulation->decision_count - 1];
}

int simulate(const struct workload *workload, const struct cluster *cluster,
             const struct simulation_options *options, double *completions,
             struct simulation_result *result, struct error *error)
{
    struct simulation simulation = {
        .cluster = cluster, .options = options, .next_review = INFINITY};
    double *times = malloc(workload->count * sizeof *times);
    int status = times ? simulation_begin(&simulation, workload) : -ENOMEM;

    *result = (struct simulation_result){.jobs = workload->count, .left_out = workload->left_out};
    if (status < 0)
        error_set(error, status, "out of memory");
    else
        status = run(&simulation, error);
    result->decisions = simulation.decision_count;
    result->inexact = simulation.inexact;
    if (status == 0)
        summarise(&simulation, times, completions, result);
    simulation_free(&simulation);
    free(times);
    return status;
}
