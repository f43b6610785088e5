/* job_dependencies.h: the jobs that must end before another one starts: `after` of a specification,
 * and the check that no job waits for itself. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dependency_condition { DEPENDENCY_SUCCESS, DEPENDENCY_END };
DECLARE_STRING_TABLE(dependency_condition, enum dependency_condition);

/* Represents a dependency on a whole sweep in place of a job's id: one row, however many jobs the
 * sweep has. */
static inline int64_t dependency_on_sweep(int64_t first_job)
{
    return -first_job;
}

struct dependency {
    int64_t on_job; /* or dependency_on_sweep(); 0 while only `index` is known */
    int64_t index;  /* of a specification in the same call; -1: none */
    enum dependency_condition condition;
    enum job_state state; /* of that job when the row was stored */
};

struct dependencies {
    struct dependency *list; /* owned; at most one for each job */
    size_t count;
};

void dependencies_release(struct dependencies *dependencies);

/* Reads `after` of a normalised specification (NULL: none). -ENOMEM. */
int dependencies_read(struct json_object *after, struct dependencies *dependencies);

/* Checks the indices of `count` specifications of one call. Each must exist, and no job may wait
 * for itself, directly or through other jobs. -EINVAL with a sentence; `*culprit` is the
 * specification. */
int dependencies_check(const struct dependencies *all, size_t count, size_t *culprit,
                       struct error *error);

/* What the state of the other job means for a dependency. */
enum dependency_verdict { DEPENDENCY_OPEN, DEPENDENCY_MET, DEPENDENCY_IMPOSSIBLE };
enum dependency_verdict dependency_judge(enum dependency_condition condition, enum job_state state);

/* "waits for job 12 to be done and for job 14 to end"; names six jobs at most. Returns `text`. */
char *dependencies_describe(const struct dependency *list, size_t count, char *text, size_t size);
