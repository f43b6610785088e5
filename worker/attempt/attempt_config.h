/* attempt_config.h: reads attempt.json, which describes an attempt for the shim and the trainee. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    ATTEMPT_METRICS_DESCRIPTOR = 3, /* of a command: where it writes its metrics */
    ATTEMPT_GROUPS_MAX = 1024
};

struct attempt_config {
    struct json_object *object; /* owns every string below */
    char *folder;               /* absolute, owned */
    int64_t job, attempt;
    uid_t uid;
    gid_t gid;
    gid_t *groups; /* supplementary groups, owned */
    size_t group_count;
    char **arguments;   /* NULL-terminated, owned; the strings belong to `object` */
    char **environment; /* NULL-terminated, owned with its strings */
    const char *user, *directory;
    const char *cgroup;      /* folder of the trainee's cgroup, or NULL */
    uint64_t memory_limit;   /* bytes, 0: none */
    int64_t tasks_max;       /* processes and threads of the cgroup, 0: no limit */
    int64_t descriptors_max; /* that each of its processes may have open, 0: as many as the shim */
    int oom_score_adjust;    /* of the trainee, 0 to 1000 */
    bool any_directory;      /* if `directory` cannot be entered, use / */
    bool command;    /* not traind-worker: it has a metrics descriptor, its memory is sampled */
    cpu_set_t *cpus; /* the cores that it may use; owned; NULL: all */
};

/* Reads the attempt.json of the current directory (proto/attempt_files.h), which must belong to the
 * user that the shim runs as. Another user's file must not choose the user that the trainee runs
 * as. */
int attempt_config_read(struct attempt_config *config, struct error *error);
/* The same for an open file; the current directory must be the attempt's folder. */
int attempt_config_read_file(struct attempt_config *config, int descriptor, struct error *error);
void attempt_config_release(struct attempt_config *config);
