/* sweep_points.c: see sweep_points.h. */
#include "daemon/work/sweep_points.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "daemon/work/job_entry.h"
#include "daemon/work/parzen.h"
#include "daemon/work/sobol.h"
#include "daemon/work/sweep_axis.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AXES_MAX = 32 };

struct sweep_points {
    struct json_object *sweep; /* owned */
    enum { GRID, LIST, RANDOM, SOBOL } kind;
    struct sweep_axis axes[AXES_MAX];
    size_t axis_count;
    struct json_object *list;
    int64_t count;
    uint64_t seed;
    struct search *search; /* owned; NULL: all points run to their end */
    uint32_t *order;       /* owned; of the grid of a search: which point comes when; or NULL */
};

/* ---- reading --------------------------------------------------------------------------------- */

static int fail_size(int64_t points_max, struct error *error)
{
    return error_set(error, -E2BIG,
                     "the sweep has more than %lld points, the most that this daemon takes at once "
                     "(SweepPointsMax)",
                     (long long)points_max);
}

static int grid_read(struct sweep_points *points, struct json_object *grid, int64_t points_max,
                     struct job_spec_fault *fault, struct error *error)
{
    if (!json_object_is_type(grid, json_type_object) || json_object_object_length(grid) == 0)
        return sweep_fail(fault, error, "",
                          "a grid is an object of a key's path to an array of values");
    points->kind = GRID;
    points->count = 1;
    json_object_object_foreach (grid, path, values) {
        size_t length =
            json_object_is_type(values, json_type_array) ? json_object_array_length(values) : 0;

        if (length == 0)
            return sweep_fail(fault, error, path, "it must be an array of one value or more");
        if (points->axis_count == AXES_MAX)
            return sweep_fail(fault, error, path, "a sweep has at most 32 keys");
        if ((int64_t)length > points_max / points->count)
            return fail_size(points_max, error);
        points->count *= (int64_t)length;
        points->axes[points->axis_count++] =
            (struct sweep_axis){.path = path, .values = values, .distribution = SWEEP_CHOICE};
    }
    return 0;
}

static int list_read(struct sweep_points *points, struct json_object *list, int64_t points_max,
                     struct job_spec_fault *fault, struct error *error)
{
    points->kind = LIST;
    points->list = list;
    if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) == 0)
        return sweep_fail(fault, error, "list", "it must be an array of objects of path and value");
    points->count = (int64_t)json_object_array_length(list);
    if (points->count > points_max)
        return fail_size(points_max, error);
    for (int64_t i = 0; i < points->count; i++) {
        char path[32];

        snprintf(path, sizeof path, "list[%lld]", (long long)i);
        if (!json_object_is_type(json_object_array_get_idx(list, (size_t)i), json_type_object))
            return sweep_fail(fault, error, path, "it must be an object of path and value");
    }
    return 0;
}

static int axes_read(struct sweep_points *points, struct json_object *axes,
                     struct job_spec_fault *fault, struct error *error)
{
    int r = 0;

    json_object_object_foreach (axes, path, description) {
        struct sweep_axis *axis = &points->axes[points->axis_count];

        if (r < 0)
            break;
        if (points->axis_count == AXES_MAX)
            return sweep_fail(fault, error, path, "a sweep has at most 32 keys");
        axis->path = path;
        r = sweep_axis_read(axis, description, fault, error);
        points->axis_count++;
    }
    return r;
}

static int random_read(struct sweep_points *points, struct json_object *sweep, int64_t points_max,
                       struct job_spec_fault *fault, struct error *error)
{
    struct json_object *axes = json_get(sweep, "random");

    points->kind = RANDOM;
    points->count = json_get_int(sweep, "count", 0);
    points->seed = (uint64_t)json_get_int(sweep, "seed", 0);
    if (!json_object_is_type(axes, json_type_object) || json_object_object_length(axes) == 0)
        return sweep_fail(fault, error, "random",
                          "it must be an object of a path to a distribution");
    if (points->count < 1)
        return sweep_fail(fault, error, "count", "how many points to draw, 1 or more");
    if (points->count > points_max)
        return fail_size(points_max, error);
    return axes_read(points, axes, fault, error);
}

/* Shuffles the grid of a search (Fisher and Yates), so that a rung's first trials are not all from
 * one corner. */
static void order_shuffle(struct sweep_points *points)
{
    points->order = memory_zero((size_t)points->count * sizeof *points->order);
    for (uint32_t i = 0; i < points->count; i++) {
        struct philox bits = philox_draw(points->seed, philox_stream(PHILOX_SEARCH, UINT32_MAX), i);
        uint32_t other = (uint32_t)((uint64_t)bits.word[0] * (i + 1) >> 32);

        points->order[i] = points->order[other];
        points->order[other] = i;
    }
}

/* Takes over the axes of a grid whose keys all have lists of values. */
static int space_is_grid(struct sweep_points *points, struct job_spec_fault *fault,
                         struct error *error)
{
    points->kind = GRID;
    points->count = 1;
    for (size_t i = 0; i < points->axis_count; i++) {
        const struct sweep_axis *axis = &points->axes[i];
        int64_t length;

        if (axis->distribution != SWEEP_CHOICE)
            return sweep_fail(fault, error, axis->path,
                              "the sampler grid takes lists of values alone");
        length = (int64_t)json_object_array_length(axis->values);
        if (length > SEARCH_TRIALS_MAX / points->count)
            return sweep_fail(fault, error, "search.space", "a search has at most 10000 trials");
        points->count *= length;
    }
    order_shuffle(points);
    return 0;
}

static int search_points_read(struct sweep_points *points, struct json_object *object,
                              int64_t points_max, struct job_spec_fault *fault, struct error *error)
{
    struct json_object *space;
    int r;

    points->search = memory_zero(sizeof *points->search);
    r = search_read(object, points->search, fault, error);
    if (r < 0)
        return r;
    space = json_get(object, "space");
    if (!json_object_is_type(space, json_type_object) || json_object_object_length(space) == 0)
        return sweep_fail(fault, error, "search.space",
                          "it must be an object of a key's path to a distribution or a list of "
                          "values, at least one");
    points->kind = points->search->sampler == SAMPLER_SOBOL ? SOBOL : RANDOM;
    points->count = points->search->trials;
    points->seed = points->search->seed;
    r = axes_read(points, space, fault, error);
    if (r == 0 && points->search->sampler == SAMPLER_GRID)
        r = space_is_grid(points, fault, error);
    points->search->trials = points->count;
    return r < 0 ? r : points->count > points_max ? fail_size(points_max, error) : 0;
}

/* Refuses keys that do not belong to the sweep's kind. */
static int keys_check(struct json_object *sweep, const char *kind, struct job_spec_fault *fault,
                      struct error *error)
{
    bool random = strcmp(kind, "random") == 0;

    json_object_object_foreach (sweep, key, value) {
        (void)value;
        if (strcmp(key, kind) != 0 &&
            !(random && (strcmp(key, "count") == 0 || strcmp(key, "seed") == 0)))
            return sweep_fail(fault, error, key,
                              "a sweep has grid, list, search, or random with count and seed, and "
                              "nothing else");
    }
    return 0;
}

int sweep_points_read(struct json_object *sweep, int64_t points_max, struct sweep_points **points,
                      struct job_spec_fault *fault, struct error *error)
{
    static const char *const kinds[] = {"grid", "list", "random", "search"};
    struct sweep_points *made = memory_zero(sizeof *made);
    const char *kind = NULL;
    int r = 0;

    made->sweep = json_object_get(sweep);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !kind; i++)
        if (json_get(sweep, kinds[i]))
            kind = kinds[i];
    if (kind)
        r = keys_check(sweep, kind, fault, error);
    if (r < 0)
        ;
    else if (!kind || strcmp(kind, "grid") == 0)
        r = grid_read(made, kind ? json_get(sweep, kind) : sweep, points_max, fault, error);
    else if (strcmp(kind, "list") == 0)
        r = list_read(made, json_get(sweep, kind), points_max, fault, error);
    else if (strcmp(kind, "random") == 0)
        r = random_read(made, sweep, points_max, fault, error);
    else
        r = search_points_read(made, json_get(sweep, kind), points_max, fault, error);
    if (r < 0)
        sweep_points_free(made);
    else
        *points = made;
    return r;
}

void sweep_points_free(struct sweep_points *points)
{
    if (!points)
        return;
    json_object_put(points->sweep);
    free(points->search);
    free(points->order);
    free(points);
}

const char *sweep_points_text(const struct sweep_points *points)
{
    return json_text(points->sweep, NULL);
}

int64_t sweep_points_count(const struct sweep_points *points)
{
    return points->count;
}

/* ---- values ---------------------------------------------------------------------------------- */

static struct json_object *list_values(const struct sweep_points *points, int64_t index)
{
    struct json_object *copy = NULL; /* values are shared between threads, and json-c counts
                                      * references without a lock */

    json_object_deep_copy(json_object_array_get_idx(points->list, (size_t)index), &copy, NULL);
    return copy;
}

/* The place of a drawn point on an axis. */
static uint64_t draw_word(const struct sweep_points *points, size_t axis, int64_t index)
{
    struct philox bits;

    if (points->kind == SOBOL)
        return (uint64_t)(sobol_coordinate((uint32_t)index, (unsigned)axis,
                                           points->search->scramble, points->seed) *
                          0x1p32)
               << 32;
    bits = philox_draw(points->seed, philox_stream(PHILOX_SWEEP, (uint32_t)axis), (uint64_t)index);
    return (uint64_t)bits.word[0] << 32 | bits.word[1];
}

struct json_object *sweep_point_values(const struct sweep_points *points, int64_t index)
{
    struct json_object *values;
    int64_t stride = points->count;

    if (points->kind == LIST)
        return list_values(points, index);
    values = json_object_new_object();
    if (points->order)
        index = points->order[index];
    for (size_t i = 0; i < points->axis_count; i++) {
        const struct sweep_axis *axis = &points->axes[i];
        struct json_object *value;

        if (points->kind == GRID) {
            int64_t length = (int64_t)json_object_array_length(axis->values);

            stride /= length;
            value = sweep_axis_choice(axis, (size_t)(index / stride % length));
        } else {
            value = sweep_axis_value(axis, draw_word(points, i, index));
        }
        json_object_object_add(values, axis->path, value);
    }
    return values;
}

const struct search *sweep_points_search(const struct sweep_points *points)
{
    return points->search;
}

bool sweep_points_learn(const struct sweep_points *points)
{
    return points->search && points->search->sampler == SAMPLER_TPE;
}

int sweep_points_complete(struct sweep_points *points, struct json_object *spec,
                          struct job_spec_fault *fault, struct error *error)
{
    struct json_object *object = json_get(points->sweep, "search");
    int r = object ? search_complete(object, spec, points->count, fault, error) : 0;

    if (r < 0 || !object)
        return r;
    r = search_read(object, points->search, fault, error);
    points->search->trials = points->count;
    return r;
}

/* ---- values that are learnt ------------------------------------------------------------------ */

/* The numbers of the key in the values of some trials; the caller frees them. */
static double *numbers_collect(const struct sweep_axis *axis, struct json_object *const *trials,
                               size_t count, size_t *found)
{
    double *numbers = memory_zero((count + 1) * sizeof *numbers);

    *found = 0;
    for (size_t i = 0; i < count; i++) {
        struct json_object *value = NULL;

        json_object_object_get_ex(trials[i], axis->path, &value);
        *found += sweep_axis_number(axis, value, &numbers[*found]);
    }
    return numbers;
}

struct json_object *sweep_point_learn(const struct sweep_points *points, int64_t index,
                                      struct json_object *const *good, size_t good_count,
                                      struct json_object *const *bad, size_t bad_count)
{
    struct json_object *values = json_object_new_object();

    for (size_t i = 0; i < points->axis_count; i++) {
        const struct sweep_axis *axis = &points->axes[i];
        struct parzen_axis range = {
            .from = axis->from,
            .to = axis->to,
            .logarithmic = axis->distribution == SWEEP_LOG_UNIFORM,
            .integer = axis->distribution == SWEEP_INTEGER,
            .choices =
                axis->distribution == SWEEP_CHOICE ? json_object_array_length(axis->values) : 0,
        };
        size_t good_found, bad_found;
        AUTO_FREE double *better = numbers_collect(axis, good, good_count, &good_found);
        AUTO_FREE double *worse = numbers_collect(axis, bad, bad_count, &bad_found);

        json_object_object_add(
            values, axis->path,
            sweep_axis_from_number(axis,
                                   parzen_suggest(&range, better, good_found, worse, bad_found,
                                                  points->seed, (uint32_t)i, (uint32_t)index)));
    }
    return values;
}

struct json_object *sweep_point_explore(const struct sweep_points *points,
                                        struct json_object *values, uint32_t trial, uint32_t rung)
{
    struct json_object *explored = json_object_new_object();

    for (size_t i = 0; i < points->axis_count; i++) {
        const struct sweep_axis *axis = &points->axes[i];
        struct philox bits = philox_draw(points->seed, philox_stream(PHILOX_EXPLORE, (uint32_t)i),
                                         (uint64_t)rung << 32 | trial);
        struct json_object *value = NULL;

        json_object_object_get_ex(values, axis->path, &value);
        json_object_object_add(explored, axis->path,
                               philox_uniform(bits.word[0]) < points->search->resampling
                                   ? sweep_axis_value(axis, (uint64_t)bits.word[1] << 32)
                                   : sweep_axis_neighbour(axis, value, bits.word[2] & 1));
    }
    return explored;
}

/* ---- specifications -------------------------------------------------------------------------- */

static int value_set(struct json_object *spec, const char *path, struct json_object *value,
                     struct error *error)
{
    AUTO_FREE char *assignment = NULL;
    int r;

    if (strncmp(path, "after", 5) == 0)
        return error_set(error, -EINVAL, "sweep: what a job waits for (after) cannot vary");
    if (asprintf(&assignment, "%s=%s", path, value ? json_text(value, NULL) : "null") < 0)
        return error_no_memory(error, "a point of the sweep");
    r = job_spec_set(spec, assignment, error);
    return r < 0 ? error_prefix(error, "sweep") : 0;
}

int sweep_values_apply(struct json_object *values, struct json_object *spec,
                       struct json_object **made, struct error *error)
{
    JSON_AUTO struct json_object *copy = spec ? NULL : json_object_new_object();
    int r = 0;

    if (spec && json_object_deep_copy(spec, &copy, NULL) < 0)
        return error_no_memory(error, "a point of the sweep");
    if (values) {
        json_object_object_foreach (values, path, value)
            if (r == 0)
                r = value_set(copy, path, value, error);
    }
    if (r == 0)
        *made = TAKE_POINTER(copy);
    return r;
}

int sweep_point_spec(const struct sweep_points *points, int64_t index, struct json_object *spec,
                     struct json_object **made, struct error *error)
{
    JSON_AUTO struct json_object *values = sweep_point_values(points, index);

    return sweep_values_apply(values, spec, made, error);
}

/* Whether a merge of `changes` sets the key, or replaces what it lies in. */
static bool changes_reach(struct json_object *changes, const char *path)
{
    char key[128];

    while (*path) {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(path, ".["), path);
        if (!json_object_object_get_ex(changes, key, &changes))
            return false;
        if (!json_object_is_type(changes, json_type_object))
            return true;
        path += strcspn(path, ".");
        path += *path == '.';
    }
    return true;
}

const char *sweep_points_changed_key(const struct sweep_points *points, struct json_object *changes)
{
    for (size_t i = 0; i < points->axis_count; i++)
        if (changes_reach(changes, points->axes[i].path))
            return points->axes[i].path;
    return NULL;
}

/* ---- checking -------------------------------------------------------------------------------- */

static int values_check(struct json_object *values, struct json_object *spec, int64_t priority_max,
                        struct job_spec_fault *fault, struct error *error)
{
    JSON_AUTO struct json_object *made = NULL, *normalised = NULL;
    int r = sweep_values_apply(values, spec, &made, error);

    if (r < 0) {
        if (fault)
            *fault = (struct job_spec_fault){.path = "sweep"};
        return r;
    }
    r = job_spec_normalise(made, &normalised, fault, error);
    if (r == 0)
        r = job_priority_check(json_get_int(normalised, "priority", 0), priority_max, fault, error);
    return r < 0 ? r
                 : job_at_check(json_get(normalised, "at") != NULL,
                                json_get_double(normalised, "at", 0), clock_now(), fault, error);
}

/* Checks the point that has the first value on all axes but one, and `value` on that one. Owns
 * `value`. */
static int axis_value_check(const struct sweep_points *points, size_t axis,
                            struct json_object *value, struct json_object *spec,
                            int64_t priority_max, struct job_spec_fault *fault, struct error *error)
{
    JSON_AUTO struct json_object *values = sweep_point_values(points, 0);

    json_object_object_add(values, points->axes[axis].path, value);
    return values_check(values, spec, priority_max, fault, error);
}

static int range_check(const struct sweep_points *points, size_t i, struct json_object *spec,
                       int64_t priority_max, struct job_spec_fault *fault, struct error *error)
{
    const struct sweep_axis *axis = &points->axes[i];
    int r = 0;

    for (int end = 0; end < 2 && r == 0; end++)
        r = axis_value_check(
            points, i,
            axis->distribution == SWEEP_INTEGER
                ? json_object_new_int64(end ? axis->integer_to : axis->integer_from)
                : json_new_double(end ? axis->to : axis->from),
            spec, priority_max, fault, error);
    return r;
}

int sweep_points_check(const struct sweep_points *points, struct json_object *spec,
                       int64_t priority_max, struct job_spec_fault *fault, struct error *error)
{
    int r = 0;

    for (int64_t i = 0; points->kind == LIST && i < points->count && r == 0; i++) {
        JSON_AUTO struct json_object *values = sweep_point_values(points, i);

        r = values_check(values, spec, priority_max, fault, error);
        if (r < 0)
            error_prefix(error, "point %lld of the list", (long long)i);
    }
    for (size_t i = 0; points->kind != LIST && i < points->axis_count && r == 0; i++) {
        const struct sweep_axis *axis = &points->axes[i];
        bool by_value = axis->distribution == SWEEP_CHOICE;
        size_t length = by_value ? json_object_array_length(axis->values) : 0;

        for (size_t v = 0; v < length && r == 0; v++)
            r = axis_value_check(points, i, sweep_axis_choice(axis, v), spec, priority_max, fault,
                                 error);
        if (!by_value)
            r = range_check(points, i, spec, priority_max, fault, error);
    }
    return r;
}
