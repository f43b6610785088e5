/* shim.h: the parts of traind-shim, the small process that owns one attempt of one job: it starts
 * the trainee as the job's user, reaps it and everything it leaves behind, writes the exit record
 * and serves io.traind.Worker. It stays when the daemon goes. docs/internals/attempts.md
 * says what it promises.
 *
 * It is started once for each attempt of each job, so it does nothing that it can do without. */
#pragma once

#include "base/error.h"
#include "proto/varlink.h"
#include "worker/attempt/attempt_config.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SHIM_DAEMON_DESCRIPTOR = 3, /* where the daemon's first connection is inherited */
    SHIM_LOCK_DESCRIPTOR = 4,   /* attempt.json, locked: kept open as the sign of life */
    SHIM_CONNECTIONS_MAX = 16
};

/* ---- the trainee and its descendants (shim_trainee.c) ---------------------------------------- */

struct shim_trainee {
    pid_t pid; /* also its process group; 0 before the start and once it was reaped */
    bool started;
    bool gone; /* the trainee was reaped; descendants may be left */
    int wait_status;
    int64_t peak_resident_bytes;
    double cpu_seconds;
    double started_at, ended_at; /* seconds since the epoch */
    /* descriptors of the cgroup's files, opened while privileged; -1 without a cgroup */
    int cgroup_processes, cgroup_kill, cgroup_events;
};

/* Makes the cgroup with its limits and opens its files. Before attempt_identity_assume(). */
int shim_cgroup_open(struct shim_trainee *trainee, const struct attempt_config *config,
                     struct error *error);

/* Starts the trainee as leader of its own process group with `log` as output, and `metrics` (-1:
 * none) as ATTEMPT_METRICS_DESCRIPTOR. A failed exec comes
 * back through a close-on-exec pipe: a negative errno and a sentence; `exit_status` is then what a
 * shell would report (127 not found, 126 not executable). */
int shim_trainee_start(struct shim_trainee *trainee, const struct attempt_config *config, int log,
                       int metrics, int *exit_status, struct error *error);

/* Reaps whatever has ended. Once the trainee has, kills what it left behind. True when no process
 * of the job remains. */
bool shim_trainee_reap(struct shim_trainee *trainee);

/* Sends a signal to every process of the job that can be found. */
void shim_trainee_signal(const struct shim_trainee *trainee, int signal_number);

/* Calls `visit` for each child of this process; how many times that was true. */
int shim_children_visit(bool (*visit)(pid_t pid, void *data), void *data);

/* Whether the kernel killed a process of the cgroup for want of memory. */
bool shim_trainee_out_of_memory(const struct shim_trainee *trainee);

/* ---- metrics of a command (shim_metrics.c) --------------------------------------------------- */

struct shim_metrics {
    int reader, writer; /* of the pipe; -1: none */
    char *buffer;       /* owned; NULL before the first line */
    size_t used;
    int64_t lost; /* lines that could not be written to the spool */
    bool torn;    /* the spool has the first bytes of the line that the buffer begins with */
    bool complained;
};

/* Makes the pipe, whose writer the trainee gets as ATTEMPT_METRICS_DESCRIPTOR. */
int shim_metrics_open(struct shim_metrics *metrics, struct error *error);
/* The trainee has its writer: the own one is closed. */
void shim_metrics_started(struct shim_metrics *metrics);
/* Hands on to the spool what is there to be read; false when nothing was. */
bool shim_metrics_read(struct shim_metrics *metrics);
/* No process of the job remains: hands on the rest and frees. */
void shim_metrics_finish(struct shim_metrics *metrics);

/* ---- memory of a command (shim_memory.c) ----------------------------------------------------- */

struct shim_memory {
    int64_t peak; /* bytes of all processes of the job at once, as far as it was seen */
    int64_t resident_peak, interval;
    int64_t deadline; /* of the next look; monotonic ms, 0: never */
};

void shim_memory_sample(struct shim_memory *memory);

/* ---- io.traind.Worker (shim_service.c) ------------------------------------------------------- */

struct shim_connection {
    int descriptor; /* -1: free */
    bool waiting;   /* an unanswered Wait: later calls are held back, but for oneway ones */
    bool oneway;    /* the call being answered wants no answer */
    bool holds;     /* `held` is there */
    struct varlink_call held; /* the first call that is held back */
    struct varlink_frames frames;
};

struct shim {
    struct attempt_config config;
    struct shim_trainee trainee;
    struct shim_metrics metrics;
    struct shim_memory memory;
    struct shim_connection connections[SHIM_CONNECTIONS_MAX];
    int listener, signals;
    struct json_object *exit; /* the exit record, once there is one */
    struct shim_warm *warm;   /* that may become the trainee, or NULL */
    bool stop_requested;
    bool acknowledged;
    /* monotonic ms, 0: never */
    int64_t kill_deadline;   /* when a stop turns into SIGKILL */
    int64_t open_deadline;   /* when spool and worker.sock are made */
    int64_t record_deadline; /* when exit.json is written although the daemon is connected */
};

/* ---- shim_warm.c ----------------------------------------------------------------------------- */

/* A worker that waits for a job. */
struct shim_warm {
    pid_t pid;
    int socket; /* -1: there is none */
};

/* Starts the worker and waits on descriptor 3 for the folder of an attempt, for which it calls
 * `run`; returns what that answers. `title` as in shim_fork_server(). */
int shim_warm(char *title, char **arguments,
              int (*run)(const char *folder, struct shim_warm *warm));
/* Makes the worker the trainee. When that fails the worker is killed and reaped. */
int shim_warm_hand_over(struct shim_warm *warm, const struct attempt_config *config,
                        const struct shim_trainee *trainee, int log, struct error *error);

/* Takes over a connected descriptor; closes it when too many are open. */
void shim_connection_add(struct shim *shim, int descriptor);
void shim_connection_close(struct shim_connection *connection);
/* Reads what has arrived and answers the calls that are whole. */
void shim_connection_read(struct shim *shim, struct shim_connection *connection);
/* Answers every Wait: the exit record exists. */
void shim_answer_waits(struct shim *shim);

/* The signal to the trainee (0: SIGTERM to the whole job) now, SIGKILL to the whole job after the
 * grace period. */
void shim_stop(struct shim *shim, int signal_number, double grace_seconds);

/* Milliseconds of the monotonic clock. */
int64_t shim_now(void);

/* ---- shim_fork_server.c ---------------------------------------------------------------------- */

/* Waits on descriptor 3 for folders of attempts and forks a shim for each, which calls `run` and
 * ends with what it answers. Returns when the daemon has hung up and the last shim is gone. `title`
 * is the program's last argument and long enough for any folder: a shim writes its own there, for
 * ps(1). */
int shim_fork_server(char *title, int (*run)(const char *folder));
