/* search_points.h: which points of a search become jobs next, and with which values. A sampler that
 * learns chooses them by what the earlier trials have measured. */
#pragma once

#include "daemon/jobs/searches.h"

/* How many points should become jobs now, of `most`. A sampler that learns wants few, so that it
 * knows more when it chooses the next ones. */
size_t search_points_wanted(const struct jobs *jobs, const struct search_run *run, size_t most);
/* The values that the search chooses for a new point, which the caller owns; NULL: the point says
 * them. */
struct json_object *search_point_choose(const struct jobs *jobs, struct search_run *run,
                                        int64_t index);
/* The values of a trial, which the caller owns. */
struct json_object *search_trial_values(const struct search_run *run, uint32_t trial);
