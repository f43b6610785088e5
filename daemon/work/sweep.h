/* sweep.h: a sweep as it was submitted: one row until its points become jobs. */
#pragma once

#include "daemon/work/sweep_points.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sweep {
    int64_t first_job, points, expanded; /* expanded: points that are jobs by now */
    uid_t uid;
    char *user;                  /* owned */
    struct json_object *spec;    /* owned; as it was submitted */
    struct sweep_points *values; /* owned */
    double submitted;
    int held; /* how points begin: 0, 1, or -1: as the specification says */
    bool cancelled;
};

void sweep_release(struct sweep *sweep);
