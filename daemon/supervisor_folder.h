/* supervisor_folder.h: what is done in the folder of an attempt, which belongs to the job's user
 * once its shim runs: nothing in it may be trusted, followed or waited for. What the daemon
 * believes lies beside it (proto/attempt_files.h). Every function here blocks on the disk, so it
 * runs on the thread pool or a storage thread. */
#pragma once

#include "base/error.h"
#include "daemon/device.h"
#include "daemon/types/job_types.h"
#include "daemon/workload.h"
#include "proto/json.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SHIM_SOCKET_DESCRIPTOR = 3, SHIM_LOCK_DESCRIPTOR = 4, ATTEMPT_FILE_MAX = 4 * 1024 * 1024 };

/* The one place that names an attempt's folder: STATE/jobs/<job / 1000>/<job>.<attempt>. */
void attempt_folder_path(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt);

/* The path of what lies beside it; the suffixes are those of proto/attempt_files.h. */
void attempt_path_beside(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt, const char *suffix);

/* Makes it, empty and of mode 0700; what an earlier daemon left in its place goes. */
int attempt_folder_make(const char *state_directory, int64_t job, int64_t attempt,
                        char path[PATH_MAX], struct error *error);

/* Makes, if need be, the folder that a command keeps its state in from attempt to attempt:
 * STATE/jobs/<job / 1000>/<job>.checkpoints, of mode 0700, the user's. */
int checkpoint_folder_make(const char *state_directory, int64_t job, uid_t uid, gid_t gid,
                           char path[PATH_MAX], struct error *error);

/* Opens it. A descriptor, or negative errno. */
int attempt_folder_open(const char *state_directory, int64_t job, int64_t attempt,
                        struct error *error);

/* Opens a file below an open attempt's folder for reading: a regular file with one link that
 * belongs to `uid`, reached without symbolic links and mount points. -EPERM for anything else. */
int attempt_folder_open_file(int folder, const char *name, uid_t uid, struct error *error);

/* Both in one: what Logs needs. */
int attempt_open_file(const char *state_directory, int64_t job, int64_t attempt, uid_t uid,
                      const char *name, struct error *error);

/* Reads what lies beside the folder: a regular file of the daemon's user of at most
 * ATTEMPT_FILE_MAX bytes that holds a JSON object, which the caller owns. Negative errno for
 * anything else. */
int attempt_read_beside(const char *state_directory, int64_t job, int64_t attempt,
                        const char *suffix, struct json_object **object);

/* Removes a file below the folder, without following links. */
int attempt_folder_remove_file(int folder, const char *name);

/* Removes the folder of an attempt, all that is in it and all that is beside it. */
int attempt_folder_remove(const char *state_directory, int64_t job, int64_t attempt);

/* Removes what is named so in the open folder, whatever it is, and all that is in it, without
 * following links. */
int folder_entry_remove(int folder, const char *name);

/* The folder that those of the job's attempts lie in, with those of others: STATE/jobs/<job /
 * 1000>.
 */
void job_group_path(char path[PATH_MAX], const char *state_directory, int64_t job);

/* ---- start ----------------------------------------------------------------------------------- */

struct attempt_launch {
    /* given; borrowed for the time of the launch */
    const char *state_directory, *shim_path, *worker_path;
    int64_t job, attempt;
    uid_t uid;
    enum job_kind kind;
    bool planning;
    bool notification;                   /* a command about the job (jobs_notify.h) */
    int64_t last_attempt;                /* of a notification: what it is told of the job */
    const struct device *const *devices; /* none for a planning run, which is made for the CPU */
    int device_count;
    uint64_t memory_booked; /* bytes on each device, 0: not known */
    int64_t tasks_max;      /* processes and threads of it at once, 0: no limit */
    int64_t oom_score_adjust;
    int threads;
    const cpu_set_t *cores; /* that it keeps to, NULL: all */
    struct json_object *spec;
    char choices[PLAN_CHOICES_MAX]; /* of the job's plan (traind-worker --choices), "": unknown */
    uint64_t memory_limit;          /* of a planning run: what automatic settings keep to */
    char *calibration;              /* a planning run is handed this one; owned; NULL: none */
    char *also;         /* a planning run: the devices beside the CPU, as JSON; owned; NULL: none */
    const char *plugin; /* the backend of GPUs, "": the one that is installed */
    char checkpoints[PATH_MAX]; /* checkpoint_folder_make(), "": none */
    const char *resume;         /* a file to put in place as resume.safetensors, or NULL */
    const char *best;           /* one as best.safetensors, or NULL */
    int warm;                   /* of warm_pool_take(): owned; -1: none */
    /* result */
    int socket; /* connected to the shim */
};

/* The argument in whose place a shim shows the path of its attempt's folder: room for any. NULL: no
 * memory. The caller frees. */
char *shim_title_make(const char *state_directory);
/* Starts traind-shim; the descriptor at whose other end it waits for requests, or negative errno.
 */
int shim_start_server(const char *shim_path, char *const *arguments, char *const *environment,
                      struct error *error);

/* Makes the folder with attempt.json and spec.json and starts the shim. */
int attempt_launch_run(struct attempt_launch *launch, struct error *error);
