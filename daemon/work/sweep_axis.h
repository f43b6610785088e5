/* sweep_axis.h: one key that varies in a sweep, and where its values come from. */
#pragma once

#include "base/error.h"
#include "proto/job_spec.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

enum sweep_distribution { SWEEP_UNIFORM, SWEEP_LOG_UNIFORM, SWEEP_INTEGER, SWEEP_CHOICE };

struct sweep_axis {
    const char *path;           /* borrowed from the sweep */
    struct json_object *values; /* of a grid or a choice: an array, borrowed from the sweep */
    enum sweep_distribution distribution;
    double from, to; /* of numbers */
    int64_t integer_from, integer_to;
};

/* Sets the error to a sentence about the member `path` of a sweep, and returns -EINVAL. */
int sweep_fail(struct job_spec_fault *fault, struct error *error, const char *path,
               const char *sentence);

/* Reads the distribution of `axis->path`. An array is a choice. -EINVAL with a sentence and the
 * fault. */
int sweep_axis_read(struct sweep_axis *axis, struct json_object *description,
                    struct job_spec_fault *fault, struct error *error);

/* The value at the place `word` of 2^64 places, evenly by the distribution; the caller owns it. */
struct json_object *sweep_axis_value(const struct sweep_axis *axis, uint64_t word);

/* The value number `index` of a choice or a grid; the caller owns it. */
struct json_object *sweep_axis_choice(const struct sweep_axis *axis, size_t index);

/* A value near `value`: a number times 1.2 or 0.8 (`up` or not) within the axis's range, the
 * neighbour of a choice. A value that is none of the axis stays. The caller owns the result. */
struct json_object *sweep_axis_neighbour(const struct sweep_axis *axis, struct json_object *value,
                                         bool up);

/* A value as a number: itself, or the index of a choice. False: it is none of the axis. */
bool sweep_axis_number(const struct sweep_axis *axis, struct json_object *value, double *number);
/* The value that sweep_axis_number() makes `number`; the caller owns it. */
struct json_object *sweep_axis_from_number(const struct sweep_axis *axis, double number);
