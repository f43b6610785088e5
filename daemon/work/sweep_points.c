/* sweep_points.c: see sweep_points.h. */
#include "daemon/work/sweep_points.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "daemon/work/job_entry.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AXES_MAX = 32 };

enum distribution { UNIFORM, LOG_UNIFORM, INTEGER, CHOICE };
static const char *const distribution_names[] = {"uniform", "log_uniform", "integer", "choice"};
enum { DISTRIBUTION_COUNT = sizeof distribution_names / sizeof *distribution_names };

struct axis {
    const char *path;           /* borrowed from the sweep */
    struct json_object *values; /* of a grid or a choice: an array, borrowed from the sweep */
    enum distribution distribution;
    double from, to;
    int64_t integer_from, integer_to;
};

struct sweep_points {
    struct json_object *sweep; /* owned */
    enum { GRID, LIST, RANDOM } kind;
    struct axis axes[AXES_MAX];
    size_t axis_count;
    struct json_object *list;
    int64_t count;
    uint64_t seed;
};

/* ---- reading --------------------------------------------------------------------------------- */

static int fail(struct job_spec_fault *fault, struct error *error, const char *path,
                const char *sentence)
{
    char shown[96];

    snprintf(shown, sizeof shown, "%.80s", path);
    if (fault)
        snprintf(fault->path, sizeof fault->path, "sweep%s%s", *path ? "." : "", shown);
    return error_set(error, -EINVAL, "sweep%s%s: %s", *path ? "." : "", shown, sentence);
}

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
        return fail(fault, error, "", "a grid is an object of a key's path to an array of values");
    points->kind = GRID;
    points->count = 1;
    json_object_object_foreach (grid, path, values) {
        size_t length =
            json_object_is_type(values, json_type_array) ? json_object_array_length(values) : 0;

        if (length == 0)
            return fail(fault, error, path, "it must be an array of one value or more");
        if (points->axis_count == AXES_MAX)
            return fail(fault, error, path, "a sweep has at most 32 keys");
        if ((int64_t)length > points_max / points->count)
            return fail_size(points_max, error);
        points->count *= (int64_t)length;
        points->axes[points->axis_count++] = (struct axis){.path = path, .values = values};
    }
    return 0;
}

static int list_read(struct sweep_points *points, struct json_object *list, int64_t points_max,
                     struct job_spec_fault *fault, struct error *error)
{
    points->kind = LIST;
    points->list = list;
    if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) == 0)
        return fail(fault, error, "list", "it must be an array of objects of path and value");
    points->count = (int64_t)json_object_array_length(list);
    if (points->count > points_max)
        return fail_size(points_max, error);
    for (int64_t i = 0; i < points->count; i++) {
        char path[32];

        snprintf(path, sizeof path, "list[%lld]", (long long)i);
        if (!json_object_is_type(json_object_array_get_idx(list, (size_t)i), json_type_object))
            return fail(fault, error, path, "it must be an object of path and value");
    }
    return 0;
}

static bool is_number(struct json_object *value)
{
    return json_object_is_type(value, json_type_double) ||
           json_object_is_type(value, json_type_int);
}

static bool range_read(struct axis *axis, struct json_object *range)
{
    struct json_object *from = json_object_array_get_idx(range, 0),
                       *to = json_object_array_get_idx(range, 1);

    if (json_object_array_length(range) != 2 || !is_number(from) || !is_number(to))
        return false;
    axis->from = json_object_get_double(from);
    axis->to = json_object_get_double(to);
    if (axis->distribution == INTEGER) {
        axis->integer_from = json_object_get_int64(from);
        axis->integer_to = json_object_get_int64(to);
        return json_object_is_type(from, json_type_int) && json_object_is_type(to, json_type_int) &&
               axis->integer_from <= axis->integer_to;
    }
    return axis->from <= axis->to && (axis->distribution == UNIFORM || axis->from > 0);
}

static int distribution_read(struct axis *axis, struct json_object *description,
                             struct job_spec_fault *fault, struct error *error)
{
    static const char sentence[] =
        "it must be {\"uniform\": [from, to]}, {\"log_uniform\": [from, to]} with from above 0, "
        "{\"integer\": [from, to]} or {\"choice\": [values]}";
    int found = -1;

    if (!json_object_is_type(description, json_type_object) ||
        json_object_object_length(description) != 1)
        return fail(fault, error, axis->path, sentence);
    for (int i = 0; i < DISTRIBUTION_COUNT; i++)
        if ((axis->values = json_get(description, distribution_names[i]))) {
            found = i;
            break;
        }
    axis->distribution = (enum distribution)found;
    if (found < 0 || !json_object_is_type(axis->values, json_type_array) ||
        json_object_array_length(axis->values) == 0 ||
        (found != CHOICE && !range_read(axis, axis->values)))
        return fail(fault, error, axis->path, sentence);
    return 0;
}

static int random_read(struct sweep_points *points, struct json_object *sweep, int64_t points_max,
                       struct job_spec_fault *fault, struct error *error)
{
    struct json_object *axes = json_get(sweep, "random");
    int r = 0;

    points->kind = RANDOM;
    points->count = json_get_int(sweep, "count", 0);
    points->seed = (uint64_t)json_get_int(sweep, "seed", 0);
    if (!json_object_is_type(axes, json_type_object) || json_object_object_length(axes) == 0)
        return fail(fault, error, "random", "it must be an object of a path to a distribution");
    if (points->count < 1)
        return fail(fault, error, "count", "how many points to draw, 1 or more");
    if (points->count > points_max)
        return fail_size(points_max, error);
    json_object_object_foreach (axes, path, description) {
        struct axis *axis = &points->axes[points->axis_count];

        if (r < 0)
            break;
        if (points->axis_count == AXES_MAX)
            return fail(fault, error, path, "a sweep has at most 32 keys");
        axis->path = path;
        r = distribution_read(axis, description, fault, error);
        points->axis_count++;
    }
    return r;
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
            return fail(fault, error, key,
                        "a sweep has grid, list, or random with count and seed, and nothing else");
    }
    return 0;
}

int sweep_points_read(struct json_object *sweep, int64_t points_max, struct sweep_points **points,
                      struct job_spec_fault *fault, struct error *error)
{
    static const char *const kinds[] = {"grid", "list", "random"};
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
    else
        r = random_read(made, sweep, points_max, fault, error);
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

/* Returns a copy, because values are shared between threads and json-c counts references without a
 * lock. */
static struct json_object *value_copy(struct json_object *value)
{
    struct json_object *copy = NULL;

    if (value)
        json_object_deep_copy(value, &copy, NULL);
    return copy;
}

static struct json_object *random_value(const struct axis *axis, struct philox bits)
{
    uint64_t word = (uint64_t)bits.word[0] << 32 | bits.word[1];
    double u = (double)(word >> 11) * 0x1p-53; /* in [0, 1) */
    uint64_t width;

    switch (axis->distribution) {
    case UNIFORM:
        return json_new_double(fmin(axis->from + u * (axis->to - axis->from), axis->to));
    case LOG_UNIFORM:
        u = exp(log(axis->from) + u * (log(axis->to) - log(axis->from)));
        return json_new_double(fmin(fmax(u, axis->from), axis->to));
    case INTEGER:
        width = (uint64_t)axis->integer_to - (uint64_t)axis->integer_from; /* how many values, minus
                                                                            * one */
        word = width == UINT64_MAX ? word : (uint64_t)((unsigned __int128)word * (width + 1) >> 64);
        return json_object_new_int64((int64_t)((uint64_t)axis->integer_from + word));
    default:
        width = json_object_array_length(axis->values);
        return value_copy(json_object_array_get_idx(
            axis->values, (size_t)((unsigned __int128)word * width >> 64)));
    }
}

struct json_object *sweep_point_values(const struct sweep_points *points, int64_t index)
{
    struct json_object *values = json_object_new_object();
    int64_t stride = points->count;

    if (points->kind == LIST) {
        json_object_put(values);
        return value_copy(json_object_array_get_idx(points->list, (size_t)index));
    }
    for (size_t i = 0; i < points->axis_count; i++) {
        const struct axis *axis = &points->axes[i];
        struct json_object *value;

        if (points->kind == GRID) {
            int64_t length = (int64_t)json_object_array_length(axis->values);

            stride /= length;
            value = value_copy(
                json_object_array_get_idx(axis->values, (size_t)(index / stride % length)));
        } else {
            value = random_value(axis,
                                 philox_draw(points->seed, philox_stream(PHILOX_SWEEP, (uint32_t)i),
                                             (uint64_t)index));
        }
        json_object_object_add(values, axis->path, value);
    }
    return values;
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

static int values_apply(struct json_object *values, struct json_object *spec,
                        struct json_object **made, struct error *error)
{
    JSON_AUTO struct json_object *copy = NULL;
    int r = 0;

    if (json_object_deep_copy(spec, &copy, NULL) < 0)
        return error_no_memory(error, "a point of the sweep");
    json_object_object_foreach (values, path, value)
        if (r == 0)
            r = value_set(copy, path, value, error);
    if (r == 0)
        *made = TAKE_POINTER(copy);
    return r;
}

int sweep_point_spec(const struct sweep_points *points, int64_t index, struct json_object *spec,
                     struct json_object **made, struct error *error)
{
    JSON_AUTO struct json_object *values = sweep_point_values(points, index);

    return values_apply(values, spec, made, error);
}

/* ---- checking -------------------------------------------------------------------------------- */

static int values_check(struct json_object *values, struct json_object *spec, int64_t priority_max,
                        struct job_spec_fault *fault, struct error *error)
{
    JSON_AUTO struct json_object *made = NULL, *normalised = NULL;
    int r = values_apply(values, spec, &made, error);

    if (r < 0) {
        if (fault)
            *fault = (struct job_spec_fault){.path = "sweep"};
        return r;
    }
    r = job_spec_normalise(made, &normalised, fault, error);
    if (r == 0)
        r = job_priority_check(json_get_int(normalised, "priority", 0), priority_max, fault, error);
    return r < 0 ? r
                 : job_at_check(json_get_double(normalised, "at", 0), clock_now(), fault, error);
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
    const struct axis *axis = &points->axes[i];
    int r = 0;

    for (int end = 0; end < 2 && r == 0; end++)
        r = axis_value_check(
            points, i,
            axis->distribution == INTEGER
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
        const struct axis *axis = &points->axes[i];
        bool by_value = points->kind == GRID || axis->distribution == CHOICE;
        size_t length = by_value ? json_object_array_length(axis->values) : 0;

        for (size_t v = 0; v < length && r == 0; v++)
            r = axis_value_check(points, i, value_copy(json_object_array_get_idx(axis->values, v)),
                                 spec, priority_max, fault, error);
        if (!by_value)
            r = range_check(points, i, spec, priority_max, fault, error);
    }
    return r;
}
