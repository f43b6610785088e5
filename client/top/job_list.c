/* job_list.c: see job_list.h. */
#include "client/top/job_list.h"

#include "base/clock.h"
#include "client/view/job.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *job_order_name(enum job_order order)
{
    static const char *const names[ORDER_COUNT] = {
        [ORDER_STATE] = "state", [ORDER_NUMBER] = "number", [ORDER_NAME] = "name",
        [ORDER_USER] = "user",   [ORDER_DEVICE] = "device", [ORDER_PRIORITY] = "priority",
        [ORDER_TIME] = "time",
    };

    return names[order];
}

/* ---- order --------------------------------------------------------------------------------- */

/* Which of the three parts of the list a state belongs to. */
static int part_of(const char *state)
{
    return job_state_is_final(state) ? 2 : strcmp(state, "queued") == 0 ? 1 : 0;
}

static int compare_numbers(double one, double other)
{
    return (one > other) - (one < other);
}

static double number_of(struct json_object *job)
{
    return (double)json_get_int(job, "id", 0);
}

/* Those that run and those that wait, the oldest first; ended ones, the latest first. */
static int compare_states(struct json_object *one, struct json_object *other)
{
    int part = part_of(json_get_string(one, "state", ""));
    int order = part - part_of(json_get_string(other, "state", ""));

    if (order == 0 && part == 1) /* without a place in the queue: behind those with one */
        order = compare_numbers(json_get_double(one, "queue_position", INFINITY),
                                json_get_double(other, "queue_position", INFINITY));
    if (order == 0 && part == 2)
        order =
            compare_numbers(json_get_double(other, "ended", 0), json_get_double(one, "ended", 0));
    return order;
}

static int compare_texts(struct json_object *one, struct json_object *other, const char *key)
{
    return strcmp(json_get_string(one, key, ""), json_get_string(other, key, ""));
}

static int compare_times(struct json_object *one, struct json_object *other, double now)
{
    double first = job_run_seconds(one, now), second = job_run_seconds(other, now);

    return compare_numbers(isnan(second) ? -1 : second, isnan(first) ? -1 : first);
}

static int jobs_compare(const void *first, const void *second, void *context)
{
    const struct job_list *list = context;
    struct json_object *one = *(struct json_object *const *)first;
    struct json_object *other = *(struct json_object *const *)second;
    int order = 0;

    switch (list->order) {
    case ORDER_STATE:
        order = compare_states(one, other);
        break;
    case ORDER_NAME:
        order = compare_texts(one, other, "name");
        break;
    case ORDER_USER:
        order = compare_texts(one, other, "user");
        break;
    case ORDER_DEVICE:
        order = compare_texts(one, other, "device");
        break;
    case ORDER_PRIORITY: /* the highest first */
        order = compare_numbers(json_get_double(other, "priority", 0),
                                json_get_double(one, "priority", 0));
        break;
    case ORDER_TIME: /* the longest first */
        order = compare_times(one, other, list->now);
        break;
    default:
        break;
    }
    if (order == 0)
        order = compare_numbers(number_of(one), number_of(other));
    return list->reversed ? -order : order;
}

/* ---- the list ------------------------------------------------------------------------------ */

static bool job_matches(struct json_object *job, const char *filter)
{
    static const char *const keys[] = {"name", "state", "device", "user", "group"};
    char number[32];

    if (!*filter)
        return true;
    snprintf(number, sizeof number, "%" PRId64, json_get_int(job, "id", 0));
    if (strcmp(number, filter) == 0)
        return true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcasestr(json_get_string(job, keys[i], ""), filter))
            return true;
    return false;
}

static void jobs_drop(struct job_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        json_object_put(list->jobs[i]);
    list->count = 0;
}

static void jobs_collect(struct job_list *list)
{
    size_t count = list->all ? json_object_array_length(list->all) : 0;

    jobs_drop(list);
    if (count > list->room) {
        struct json_object **grown = reallocarray(list->jobs, count, sizeof *grown);

        if (!grown)
            return; /* nothing is listed until there is memory again */
        list->jobs = grown;
        list->room = count;
    }
    for (size_t i = 0; i < count; i++) {
        struct json_object *job = json_object_array_get_idx(list->all, i);

        if (job_matches(job, list->filter))
            list->jobs[list->count++] = json_object_get(job);
    }
}

/* Puts the offset where it shows the selected job, and no empty lines that need not be. */
static void offset_fit(struct job_list *list)
{
    size_t shown = list->shown ? list->shown : 1;

    if (list->index < list->offset)
        list->offset = list->index;
    if (list->index >= list->offset + shown)
        list->offset = list->index - shown + 1;
    if (list->offset + shown > list->count)
        list->offset = list->count > shown ? list->count - shown : 0;
}

static void index_select(struct job_list *list, size_t index)
{
    list->index = index < list->count ? index : list->count ? list->count - 1 : 0;
    list->selected = list->count ? json_get_int(list->jobs[list->index], "id", 0) : 0;
    offset_fit(list);
}

void job_list_arrange(struct job_list *list)
{
    size_t index = list->index;

    jobs_collect(list);
    list->now = clock_now(); /* one moment for all comparisons */
    if (list->count)
        qsort_r(list->jobs, list->count, sizeof *list->jobs, jobs_compare, list);
    for (size_t i = 0; i < list->count; i++)
        if (json_get_int(list->jobs[i], "id", 0) == list->selected)
            index = i;
    index_select(list, index);
}

void job_list_set(struct job_list *list, struct json_object *all)
{
    json_object_put(list->all);
    list->all = all;
    job_list_arrange(list);
}

void job_list_release(struct job_list *list)
{
    jobs_drop(list);
    free(list->jobs);
    json_object_put(list->all);
    *list = (struct job_list){0};
}

void job_list_step(struct job_list *list, long lines)
{
    long index = (long)list->index + lines;

    index_select(list, index < 0 ? 0 : (size_t)index);
}

bool job_list_select_line(struct job_list *list, size_t line)
{
    if (line >= list->shown || list->offset + line >= list->count)
        return false;
    index_select(list, list->offset + line);
    return true;
}

void job_list_scroll(struct job_list *list, long lines)
{
    size_t shown = list->shown ? list->shown : 1;
    size_t most = list->count > shown ? list->count - shown : 0;
    long offset = (long)list->offset + lines;

    list->offset = offset < 0 ? 0 : (size_t)offset > most ? most : (size_t)offset;
    if (list->index < list->offset)
        index_select(list, list->offset);
    else if (list->index >= list->offset + shown)
        index_select(list, list->offset + shown - 1);
}

struct json_object *job_list_selected(const struct job_list *list)
{
    return list->count && list->selected ? list->jobs[list->index] : NULL;
}
