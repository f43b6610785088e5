/* sweep_points.h: the points of a sweep as pure functions of the point's number. So each point can
 * be made without the ones before it.
 *
 *   {"train.lr": [0.1, 0.01], "train.seed": [1, 2, 3]}          a grid; the last key varies fastest
 *   {"grid": {…}}                                               the same
 *   {"list": [{"train.lr": 0.1, "train.seed": 7}, …]}           these points
 *   {"random": {"train.lr": {"log_uniform": [1e-5, 0.1]}, …}, "count": 20, "seed": 1}
 *
 *   {"search": {…}}                                             the trials of a search (search.h)
 *
 * Distributions: uniform, log_uniform [from, to] (numbers), integer [from, to] (both included),
 * choice [values]. Paths are those of `trainctl --set`. */
#pragma once

#include "base/error.h"
#include "daemon/work/search.h"
#include "proto/job_spec.h"
#include "proto/json.h"

#include <stdint.h>

struct sweep_points;

/* Reads `sweep`. -EINVAL with a sentence (`fault` names the path in the sweep), -E2BIG for more
 * than `points_max` points. */
int sweep_points_read(struct json_object *sweep, int64_t points_max, struct sweep_points **points,
                      struct job_spec_fault *fault, struct error *error);
void sweep_points_free(struct sweep_points *points);

/* The sweep as it was read, as JSON; valid as long as the points. */
const char *sweep_points_text(const struct sweep_points *points);

int64_t sweep_points_count(const struct sweep_points *points);

/* The values of a point as {path: value}; the caller owns them. */
struct json_object *sweep_point_values(const struct sweep_points *points, int64_t index);

/* The search over the points; NULL: all run to their end. It lives as long as the points. */
const struct search *sweep_points_search(const struct sweep_points *points);
/* Whether values depend on what is known of earlier trials: sweep_point_learn() gives those of most
 * points, sweep_point_values() those of the first ones. */
bool sweep_points_learn(const struct sweep_points *points);
/* Completes a search by the specification of its trials, which changes (search_complete()). */
int sweep_points_complete(struct sweep_points *points, struct json_object *spec,
                          struct job_spec_fault *fault, struct error *error);
/* The values of a point by what is known of other trials, whose values are given: the best ones,
 * and the others, each in the order in which they were made (parzen.h). The caller owns them. */
struct json_object *sweep_point_learn(const struct sweep_points *points, int64_t index,
                                      struct json_object *const *good, size_t good_count,
                                      struct json_object *const *bad, size_t bad_count);

/* Values near `values`, or drawn anew, for a trial that goes on from another one's checkpoint: a
 * function of seed, trial and rung. The caller owns them. */
struct json_object *sweep_point_explore(const struct sweep_points *points,
                                        struct json_object *values, uint32_t trial, uint32_t rung);

/* A copy of `spec`, or for NULL an object, with these values, or with none for NULL; the caller
 * owns it. */
int sweep_values_apply(struct json_object *values, struct json_object *spec,
                       struct json_object **made, struct error *error);
/* A copy of `spec` with the values of the point; the caller owns it. */
int sweep_point_spec(const struct sweep_points *points, int64_t index, struct json_object *spec,
                     struct json_object **made, struct error *error);

/* The first of the varied keys that a merge of `changes` into a specification would set; NULL: it
 * leaves all of them as they are. It lives as long as the points. */
const char *sweep_points_changed_key(const struct sweep_points *points,
                                     struct json_object *changes);

/* Checks `spec` with each value of each axis while the other axes have their first value. A list is
 * checked point by point, a random sweep at the ends of its ranges. Combinations are not checked.
 * No priority may be above `priority_max`. -EINVAL with a sentence and the fault. */
int sweep_points_check(const struct sweep_points *points, struct json_object *spec,
                       int64_t priority_max, struct job_spec_fault *fault, struct error *error);
