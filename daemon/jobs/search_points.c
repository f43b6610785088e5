/* search_points.c: see search_points.h. */
#include "daemon/jobs/search_points.h"

#include "base/memory.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"
#include "daemon/work/parzen.h"

#include <stdlib.h>

enum {
    RANDOM_TRIALS = 10, /* before a sampler learns, as in Optuna's TPESampler */
    OTHERS_MAX = 1000   /* of those that are not good the newest: a choice is made on the loop */
};

/* One trial waits in the queue, so that no device idles while the next one is chosen. */
size_t search_points_wanted(const struct jobs *jobs, const struct search_run *run, size_t most)
{
    size_t made = 0, waiting = 0;

    if (!sweep_points_learn(run->sweep->values))
        return most;
    if (run->busy || run->must_load)
        return 0;
    for (size_t i = 0; i < run->table.trial_count && run->table.trials[i].exists; i++) {
        const struct job *job =
            run->table.trials[i].ended
                ? NULL
                : job_table_find(jobs->table, run->sweep->first_job + (int64_t)i);

        made++;
        waiting += job && !job->ended && job->attempt_number == 0;
    }
    if (made < RANDOM_TRIALS)
        return most < RANDOM_TRIALS - made ? most : RANDOM_TRIALS - made;
    return waiting == 0 && most > 0 ? 1 : 0;
}

struct json_object *search_trial_values(const struct search_run *run, uint32_t trial)
{
    return run->chosen[trial] ? json_object_get(run->chosen[trial])
                              : sweep_point_values(run->sweep->values, trial);
}

/* Removes the trials that run from `order`: what they have measured so far says less than where
 * they will end or pause. */
static size_t leave_out_running(const struct jobs *jobs, const struct search_run *run,
                                uint32_t *order, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        const struct job *job = run->table.trials[order[i]].ended
                                    ? NULL
                                    : job_table_find(jobs->table, run->sweep->first_job + order[i]);

        if (!job || job->ended || job->state == JOB_PAUSED)
            order[kept++] = order[i];
    }
    return kept;
}

static int compare_trials(const void *first, const void *second)
{
    uint32_t a = *(const uint32_t *)first, b = *(const uint32_t *)second;

    return (a > b) - (a < b);
}

struct json_object *search_point_choose(const struct jobs *jobs, struct search_run *run,
                                        int64_t index)
{
    size_t points = run->table.trial_count, count, good, skipped;
    uint32_t *order;
    struct json_object **values, *chosen = NULL;

    if (!sweep_points_learn(run->sweep->values) || index < RANDOM_TRIALS)
        return NULL;
    order = memory_zero(points * sizeof *order);
    count = leave_out_running(jobs, run, order, search_rank(&run->table, order));
    if (count >= RANDOM_TRIALS) {
        good = parzen_good_count(count);
        qsort(order, good, sizeof *order, compare_trials); /* in the order of their making */
        qsort(order + good, count - good, sizeof *order, compare_trials);
        skipped = count - good > OTHERS_MAX ? count - good - OTHERS_MAX : 0;
        count -= skipped;
        values = memory_zero(count * sizeof(struct json_object *));
        for (size_t i = 0; i < count; i++)
            values[i] = search_trial_values(run, order[i < good ? i : i + skipped]);
        chosen =
            sweep_point_learn(run->sweep->values, index, values, good, values + good, count - good);
        for (size_t i = 0; i < count; i++)
            json_object_put(values[i]);
        free(values);
    }
    free(order);
    if (!chosen)
        return NULL;
    json_object_put(run->chosen[index]);
    json_object_deep_copy(chosen, &run->chosen[index],
                          NULL); /* another thread uses the other one */
    return chosen;
}
