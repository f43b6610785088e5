/* job_dependencies.c: see job_dependencies.h. */
#include "daemon/work/job_dependencies.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { DESCRIBED_MAX = 6 };

static const char *const dependency_condition_names[] = {
    [DEPENDENCY_SUCCESS] = "success", [DEPENDENCY_END] = "end"};
DEFINE_STRING_TABLE(dependency_condition, enum dependency_condition, dependency_condition_names)

void dependencies_release(struct dependencies *dependencies)
{
    free(dependencies->list);
    *dependencies = (struct dependencies){0};
}

static struct dependency *dependency_find(struct dependencies *dependencies, int64_t on_job,
                                          int64_t index)
{
    for (size_t i = 0; i < dependencies->count; i++)
        if (dependencies->list[i].on_job == on_job && dependencies->list[i].index == index)
            return &dependencies->list[i];
    return NULL;
}

int dependencies_read(struct json_object *after, struct dependencies *dependencies)
{
    size_t count = after ? json_object_array_length(after) : 0;

    *dependencies = (struct dependencies){0};
    if (count == 0)
        return 0;
    dependencies->list = calloc(count, sizeof *dependencies->list);
    if (!dependencies->list)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct json_object *element = json_object_array_get_idx(after, i);
        int64_t sweep = json_get_int(element, "sweep", 0),
                on_job = sweep ? dependency_on_sweep(sweep) : json_get_int(element, "job", 0),
                index = json_get_int(element, "index", -1);
        int condition = dependency_condition_from_string(json_get_string(element, "on", ""));
        struct dependency *same = dependency_find(dependencies, on_job, index);

        if (!same) {
            same = &dependencies->list[dependencies->count++];
            *same =
                (struct dependency){.on_job = on_job, .index = index, .condition = DEPENDENCY_END};
        }
        if (condition == DEPENDENCY_SUCCESS) /* the stricter one counts */
            same->condition = DEPENDENCY_SUCCESS;
    }
    return 0;
}

static int indices_check(const struct dependencies *all, size_t count, size_t *culprit,
                         struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t d = 0; d < all[i].count; d++) {
            int64_t index = all[i].list[d].index;

            *culprit = i;
            if (index >= (int64_t)count)
                return error_set(error, -EINVAL,
                                 "there is no specification %lld in this call; it has %zu, counted "
                                 "from 0",
                                 (long long)index, count);
            if (index == (int64_t)i)
                return error_set(error, -EINVAL, "the job would wait for itself");
        }
    }
    return 0;
}

int dependencies_check(const struct dependencies *all, size_t count, size_t *culprit,
                       struct error *error)
{
    AUTO_FREE size_t *waits_for = calloc(count + 1, sizeof *waits_for); /* how many unsettled
                                                                         * ones */
    AUTO_FREE size_t *settled = calloc(count + 1, sizeof *settled);
    AUTO_FREE size_t *first = calloc(count + 2, sizeof *first); /* index of each one's first
                                                                 * dependent */
    AUTO_FREE size_t *dependents = NULL;
    size_t edges = 0, settled_count = 0;
    int result = indices_check(all, count, culprit, error);

    if (result < 0)
        return result;
    for (size_t i = 0; i < count; i++)
        edges += all[i].count;
    dependents = calloc(edges + 1, sizeof *dependents);
    if (!waits_for || !settled || !first || !dependents)
        return error_no_memory(error, "the dependencies of %zu jobs", count);
    for (size_t i = 0; i < count; i++)
        for (size_t d = 0; d < all[i].count; d++)
            if (all[i].list[d].index >= 0)
                first[all[i].list[d].index + 2]++;
    for (size_t i = 2; i < count + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < count; i++)
        for (size_t d = 0; d < all[i].count; d++)
            if (all[i].list[d].index >= 0) {
                dependents[first[all[i].list[d].index + 1]++] = i;
                waits_for[i]++;
            }
    for (size_t i = 0; i < count; i++)
        if (waits_for[i] == 0)
            settled[settled_count++] = i;
    for (size_t next = 0; next < settled_count; next++)
        for (size_t d = first[settled[next]]; d < first[settled[next] + 1]; d++)
            if (--waits_for[dependents[d]] == 0)
                settled[settled_count++] = dependents[d];
    for (size_t i = 0; i < count; i++)
        if (waits_for[i] > 0) {
            *culprit = i;
            return error_set(
                error, -EINVAL,
                "the jobs wait for each other in a circle, so none of them could start");
        }
    return 0;
}

/* ---- judging --------------------------------------------------------------------------------- */

enum dependency_verdict dependency_judge(enum dependency_condition condition, enum job_state state)
{
    if (!job_state_is_final(state))
        return DEPENDENCY_OPEN;
    return condition == DEPENDENCY_END || state == JOB_DONE ? DEPENDENCY_MET
                                                            : DEPENDENCY_IMPOSSIBLE;
}

char *dependencies_describe(const struct dependency *list, size_t count, char *text, size_t size)
{
    size_t named = count > DESCRIBED_MAX ? DESCRIBED_MAX - 1 : count;
    size_t used = (size_t)snprintf(text, size, "waits ");

    for (size_t i = 0; i < named && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%sfor %s %lld to %s",
                                 i == 0                             ? ""
                                 : i + 1 == count && named == count ? " and "
                                                                    : ", ",
                                 list[i].on_job < 0 ? "all jobs of sweep" : "job",
                                 llabs(list[i].on_job),
                                 list[i].condition == DEPENDENCY_END ? "end" : "be done");
    if (named < count && used < size)
        snprintf(text + used, size - used, " and for %zu more", count - named);
    return text;
}
