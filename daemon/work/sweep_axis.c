/* sweep_axis.c: see sweep_axis.h. */
#include "daemon/work/sweep_axis.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

static const char *const distribution_names[] = {"uniform", "log_uniform", "integer", "choice"};
enum { DISTRIBUTION_COUNT = sizeof distribution_names / sizeof *distribution_names };

int sweep_fail(struct job_spec_fault *fault, struct error *error, const char *path,
               const char *sentence)
{
    char shown[96];

    snprintf(shown, sizeof shown, "%.80s", path);
    if (fault)
        snprintf(fault->path, sizeof fault->path, "sweep%s%s", *path ? "." : "", shown);
    return error_set(error, -EINVAL, "sweep%s%s: %s", *path ? "." : "", shown, sentence);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_number(struct json_object *value)
{
    return json_object_is_type(value, json_type_double) ||
           json_object_is_type(value, json_type_int);
}

/* NULL, or what is wrong with the range. */
static const char *range_read(struct sweep_axis *axis, struct json_object *range)
{
    struct json_object *from = json_object_array_get_idx(range, 0),
                       *to = json_object_array_get_idx(range, 1);

    if (json_object_array_length(range) != 2 || !is_number(from) || !is_number(to))
        return "a range is two numbers, [from, to]";
    axis->from = json_object_get_double(from);
    axis->to = json_object_get_double(to);
    if (axis->distribution == SWEEP_INTEGER) {
        axis->integer_from = json_object_get_int64(from);
        axis->integer_to = json_object_get_int64(to);
        if (!json_object_is_type(from, json_type_int) || !json_object_is_type(to, json_type_int))
            return "the ends of \"integer\" are whole numbers";
    }
    if (axis->from > axis->to ||
        (axis->distribution == SWEEP_INTEGER && axis->integer_from > axis->integer_to))
        return "a range ascends: [from, to], and from is not above to";
    if (axis->distribution == SWEEP_LOG_UNIFORM && axis->from <= 0)
        return "\"log_uniform\" begins above 0, as 0 has no logarithm";
    return NULL;
}

int sweep_axis_read(struct sweep_axis *axis, struct json_object *description,
                    struct job_spec_fault *fault, struct error *error)
{
    static const char forms[] = "it must be a list of values, {\"uniform\": [from, to]}, "
                                "{\"log_uniform\": [from, to]}, {\"integer\": [from, to]} or "
                                "{\"choice\": [values]}";
    const char *wrong = NULL;
    int found = -1;

    if (json_object_is_type(description, json_type_array)) {
        axis->values = description;
        found = SWEEP_CHOICE;
    } else if (json_object_is_type(description, json_type_object) &&
               json_object_object_length(description) == 1) {
        for (int i = 0; i < DISTRIBUTION_COUNT && found < 0; i++)
            if ((axis->values = json_get(description, distribution_names[i])))
                found = i;
    }
    axis->distribution = (enum sweep_distribution)found;
    if (found < 0 || !json_object_is_type(axis->values, json_type_array))
        wrong = forms;
    else if (found != SWEEP_CHOICE)
        wrong = range_read(axis, axis->values);
    else if (json_object_array_length(axis->values) == 0)
        wrong = "the list is empty: it has at least one value";
    return wrong ? sweep_fail(fault, error, axis->path, wrong) : 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

struct json_object *sweep_axis_choice(const struct sweep_axis *axis, size_t index)
{
    struct json_object *copy = NULL;
    struct json_object *value = json_object_array_get_idx(axis->values, index);

    if (value) /* a copy, because values are shared between threads and json-c counts references
                * without a lock */
        json_object_deep_copy(value, &copy, NULL);
    return copy;
}

struct json_object *sweep_axis_value(const struct sweep_axis *axis, uint64_t word)
{
    double u = (double)(word >> 11) * 0x1p-53; /* in [0, 1) */
    uint64_t width;

    switch (axis->distribution) {
    case SWEEP_UNIFORM:
        if (isinf(axis->to - axis->from)) /* wider than a double's numbers */
            return json_new_double((1 - u) * axis->from + u * axis->to);
        return json_new_double(fmin(axis->from + u * (axis->to - axis->from), axis->to));
    case SWEEP_LOG_UNIFORM:
        u = exp(log(axis->from) + u * (log(axis->to) - log(axis->from)));
        return json_new_double(fmin(fmax(u, axis->from), axis->to));
    case SWEEP_INTEGER:
        width = (uint64_t)axis->integer_to - (uint64_t)axis->integer_from; /* how many values, minus
                                                                            * one */
        word = width == UINT64_MAX ? word : (uint64_t)((unsigned __int128)word * (width + 1) >> 64);
        return json_object_new_int64((int64_t)((uint64_t)axis->integer_from + word));
    case SWEEP_CHOICE:
        break;
    }
    width = json_object_array_length(axis->values);
    return sweep_axis_choice(axis, (size_t)((unsigned __int128)word * width >> 64));
}

bool sweep_axis_number(const struct sweep_axis *axis, struct json_object *value, double *number)
{
    if (axis->distribution != SWEEP_CHOICE) {
        *number = json_object_get_double(value);
        return is_number(value) && *number >= axis->from && *number <= axis->to;
    }
    for (size_t i = 0; i < json_object_array_length(axis->values); i++)
        if (json_object_equal(json_object_array_get_idx(axis->values, i), value)) {
            *number = (double)i;
            return true;
        }
    return false;
}

struct json_object *sweep_axis_from_number(const struct sweep_axis *axis, double number)
{
    if (axis->distribution == SWEEP_CHOICE)
        return sweep_axis_choice(axis, (size_t)number);
    if (axis->distribution != SWEEP_INTEGER)
        return json_new_double(number);
    if (number <= axis->from) /* the ends may be beyond the whole numbers of a double */
        return json_object_new_int64(axis->integer_from);
    return json_object_new_int64(number >= axis->to ? axis->integer_to : (int64_t)number);
}

struct json_object *sweep_axis_neighbour(const struct sweep_axis *axis, struct json_object *value,
                                         bool up)
{
    static const double FACTOR_UP = 1.2, FACTOR_DOWN = 0.8; /* of Jaderberg and others */
    struct json_object *copy = NULL;
    double number;

    if (!sweep_axis_number(axis, value, &number)) {
        json_object_deep_copy(value, &copy, NULL);
        return copy;
    }
    if (axis->distribution == SWEEP_CHOICE) {
        double last = (double)json_object_array_length(axis->values) - 1;

        return sweep_axis_choice(axis, (size_t)fmin(fmax(number + (up ? 1 : -1), 0), last));
    }
    if (axis->distribution == SWEEP_INTEGER && number == 0)
        number = up ? 1 : -1;
    else if (axis->distribution == SWEEP_INTEGER) /* another one, also of negative numbers */
        number = copysign(up ? ceil(fabs(number) * FACTOR_UP) : floor(fabs(number) * FACTOR_DOWN),
                          number);
    else
        number *= up ? FACTOR_UP : FACTOR_DOWN;
    return sweep_axis_from_number(axis, fmin(fmax(number, axis->from), axis->to));
}
