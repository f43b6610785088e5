/* sweep.h: a submitted sweep, which is a single row until its points become jobs. */
#pragma once

#include "daemon/work/sweep_points.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sweep {
    int64_t first_job, points, expanded; /* expanded: how many points are jobs by now */
    uid_t uid;
    char *user;                  /* owned */
    struct json_object *spec;    /* owned; as it was submitted */
    struct sweep_points *values; /* owned */
    double submitted;
    int held; /* whether points begin held: 0 no, 1 yes, -1 as the specification says */
    bool cancelled;
};

void sweep_release(struct sweep *sweep);
