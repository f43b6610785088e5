/* launch.h: starts the shim of an attempt. The functions block, so they run on the thread pool. */
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

/* Paths of files that become resume.safetensors, best.safetensors and weights.safetensors; owned;
 * NULL: none. */
struct launch_checkpoints {
    char *resume, *best, *weights;
};

struct attempt_launch {
    /* input; borrowed until the launch has ended, but for what is owned */
    const char *state_directory, *shim_path, *worker_path;
    int64_t job, attempt;
    uid_t uid;
    enum job_kind kind;
    bool planning;
    bool service;         /* a service that jobs use; it has job 0 (attempts/sharing_services.h) */
    bool notification;    /* a command about the job (jobs/notify.h) */
    int64_t last_attempt; /* of a notification: the job's last attempt, which it is told */
    const struct device *const *devices; /* none for a planning run, which runs on the CPU */
    int device_count;
    const struct device_driver *const *drivers; /* of all kinds */
    const struct config *config;                /* for the drivers */
    uint64_t memory_booked;                     /* bytes on each device, 0: not known */
    int64_t tasks_max;       /* how many processes and threads it may have at once, 0: no limit */
    int64_t descriptors_max; /* how many each of its processes may have open, 0: as the daemon */
    int64_t oom_score_adjust;
    int threads;
    const cpu_set_t *cores;         /* the cores that it may use, NULL: all */
    struct json_object *spec;       /* owned */
    char choices[PLAN_CHOICES_MAX]; /* of the job's plan (traind-worker --choices), "": unknown */
    uint64_t memory_limit;          /* of a planning run: the limit for automatic settings */
    char *calibration;              /* for a planning run; owned; NULL: none */
    char *also; /* for a planning run: the devices beside the CPU, as JSON; owned; NULL: none */
    char *checkpoints; /* checkpoint_folder_make(); owned; NULL: none */
    char *snapshot;    /* snapshot_folder_make(); owned; NULL: none */
    struct launch_checkpoints files;
    char *sharing_folder; /* the folder of sharing_service_join(); owned; NULL: none */
    int warm;             /* the descriptor of warm_pool_take(); owned; -1: none */
    /* result */
    int socket; /* connected to the shim */
};

/* Makes the attempt's folder with attempt.json and spec.json, and starts the shim. 0 or negative
 * errno, with a sentence. */
int attempt_launch_run(struct attempt_launch *launch, struct error *error);
/* Frees what the launch owns; the descriptors are its caller's to close. */
void attempt_launch_release(struct attempt_launch *launch);
