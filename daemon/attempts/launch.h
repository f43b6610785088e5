/* launch.h: starting the shim of an attempt. What blocks here runs on the thread pool. */
#pragma once

#include "base/error.h"
#include "daemon/devices/driver.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SHIM_SOCKET_DESCRIPTOR = 3, SHIM_LOCK_DESCRIPTOR = 4 };

struct attempt_launch {
    /* given; borrowed for the time of the launch */
    const char *state_directory, *shim_path, *worker_path;
    int64_t job, attempt;
    uid_t uid;
    enum job_kind kind;
    bool planning;
    bool service;                        /* one that jobs use, of job 0 (attempts/mps_services.h) */
    bool notification;                   /* a command about the job (jobs/notify.h) */
    int64_t last_attempt;                /* of a notification: what it is told of the job */
    const struct device *const *devices; /* none for a planning run, which is made for the CPU */
    int device_count;
    const struct device_driver *const *drivers; /* of all kinds */
    const struct config *config;                /* what the drivers ask */
    uint64_t memory_booked;                     /* bytes on each device, 0: not known */
    int64_t tasks_max; /* processes and threads of it at once, 0: no limit */
    int64_t oom_score_adjust;
    int threads;
    const cpu_set_t *cores; /* that it keeps to, NULL: all */
    struct json_object *spec;
    char choices[PLAN_CHOICES_MAX]; /* of the job's plan (traind-worker --choices), "": unknown */
    uint64_t memory_limit;          /* of a planning run: what automatic settings keep to */
    char *calibration;              /* a planning run is handed this one; owned; NULL: none */
    char *also; /* a planning run: the devices beside the CPU, as JSON; owned; NULL: none */
    char checkpoints[PATH_MAX]; /* checkpoint_folder_make(), "": none */
    char *resume;       /* a file to put in place as resume.safetensors; owned; NULL: none */
    char *best;         /* one as best.safetensors; owned; NULL: none */
    char mps[PATH_MAX]; /* folder of mps_join(), "": none */
    int warm;           /* of warm_pool_take(): owned; -1: none */
    /* result */
    int socket; /* connected to the shim */
};

/* The argument in whose place a shim shows the path of its attempt's folder: room for any. NULL: no
 * memory. The caller frees. */
char *shim_title_make(const char *state_directory);
/* Starts traind-shim; the descriptor at whose other end it waits for
 * requests, or negative errno. */
int shim_start_server(const char *shim_path, char *const *arguments, char *const *environment,
                      struct error *error);

/* Makes the folder with attempt.json and spec.json and starts the shim. */
int attempt_launch_run(struct attempt_launch *launch, struct error *error);
