/* shim.h: the parts of traind-shim, the small process that owns one attempt of one job. It starts
 * the trainee as the job's user, reaps it and all its descendants, writes the exit record and
 * serves io.traind.Worker. It keeps running if the daemon ends. docs/internals/attempts.md states
 * its guarantees.
 *
 * One is started for each attempt of each job, so it does only what is necessary. */
#pragma once

#include "base/error.h"
#include "proto/varlink.h"
#include "worker/attempt/attempt_config.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SHIM_DAEMON_DESCRIPTOR = 3, /* the daemon's first connection, inherited */
    SHIM_LOCK_DESCRIPTOR = 4,   /* attempt.json; the lock shows that the shim lives */
    SHIM_CONNECTIONS_MAX = 16,
    SHIM_PROCESSES_MAX = 4096 /* of a job that is suspended */
};

/* ---- the trainee and its descendants (shim_trainee.c) ---------------------------------------- */

struct shim_trainee {
    pid_t pid; /* also its process group; 0 before the start and after it was reaped */
    bool started;
    bool gone; /* the trainee was reaped; descendants may still run */
    int wait_status;
    int64_t peak_resident_bytes;
    double cpu_seconds;
    double started_at, ended_at; /* seconds since the epoch */
    pid_t helper; /* traind-suspend, a child of the shim that does not belong to the job; 0: none */
    bool helper_ended;
    int helper_status;
    /* descriptors of the cgroup's files, opened while privileged; -1 without a cgroup */
    int cgroup_processes, cgroup_kill, cgroup_events, cgroup_freeze, cgroup_memory;
};

/* Makes the cgroup with its limits and opens its files. Call it before
 * attempt_identity_assume(). */
int shim_cgroup_open(struct shim_trainee *trainee, const struct attempt_config *config,
                     struct error *error);

/* Starts the trainee as leader of its own process group with `log` as output, and `metrics` (-1:
 * none) as ATTEMPT_METRICS_DESCRIPTOR. If exec fails, which a close-on-exec pipe reports, returns a
 * negative errno with a sentence; `exit_status` is then a shell's (127 not found, 126 not
 * executable). */
int shim_trainee_start(struct shim_trainee *trainee, const struct attempt_config *config, int log,
                       int metrics, int *exit_status, struct error *error);

/* Reaps all processes that have ended. After the trainee's end it kills its descendants. True: no
 * process of the job remains. */
bool shim_trainee_reap(struct shim_trainee *trainee);

/* Sends a signal to every process of the job that can be found. */
void shim_trainee_signal(const struct shim_trainee *trainee, int signal_number);

/* Calls `visit` for each child of this process. Returns how often that was true. */
int shim_children_visit(bool (*visit)(pid_t pid, void *data), void *data);

/* Lists the processes of the job, parents before their children, at most `limit`. Returns how many
 * there are. */
int shim_trainee_list(const struct shim_trainee *trainee, pid_t *pids, int limit);

/* Stops all processes of the job without a signal that they could see, or lets them run again. -1:
 * it cannot be done. Without a cgroup they get SIGSTOP and SIGCONT. */
int shim_trainee_freeze(const struct shim_trainee *trainee, bool freeze);

/* Whether the kernel killed a process of the cgroup because memory ran out. */
bool shim_trainee_out_of_memory(const struct shim_trainee *trainee);

/* ---- metrics of a command (shim_metrics.c) --------------------------------------------------- */

struct shim_metrics {
    int reader, writer; /* of the pipe; -1: none */
    char *buffer;       /* owned; NULL before the first line */
    size_t used;
    int64_t lost; /* lines that could not be written to the spool */
    bool torn;    /* the spool has part of the line that the buffer begins with */
    bool complained;
};

/* Makes the pipe, whose writer the trainee gets as ATTEMPT_METRICS_DESCRIPTOR. */
int shim_metrics_open(struct shim_metrics *metrics, struct error *error);
/* Closes this process's writer; call it when the trainee has its own. */
void shim_metrics_started(struct shim_metrics *metrics);
/* Writes the lines that have arrived to the spool; false: there were none. */
bool shim_metrics_read(struct shim_metrics *metrics);
/* Writes the rest to the spool and frees the buffer; call it when no process of the job remains. */
void shim_metrics_finish(struct shim_metrics *metrics);

/* ---- memory of a command (shim_memory.c) ----------------------------------------------------- */

struct shim_memory {
    int64_t peak; /* the largest sampled sum over all processes of the job, bytes */
    int64_t resident_peak, interval;
    int64_t deadline; /* of the next sample; monotonic ms, 0: never */
};

void shim_memory_sample(struct shim_memory *memory);

/* ---- suspension (shim_suspension.c) ---------------------------------------------------------- */

enum shim_suspension_state {
    SHIM_RUNNING,
    SHIM_SUSPENDING,
    SHIM_SUSPENDED,
    SHIM_RESUMING,
    SHIM_BROKEN /* what it held of a GPU is lost: it can only be ended */
};

struct shim_suspension {
    enum shim_suspension_state state;
    struct json_object *request; /* of Suspend or Resume, while that is under way */
    int output;                  /* what traind-suspend prints; -1: it does not run */
    char text[4096];
    size_t length;
    int64_t deadline;  /* when traind-suspend is killed; monotonic ms, 0: never */
    bool late;         /* traind-suspend was killed, as it had not ended by then */
    int64_t since;     /* when the request came, and later: since when it is suspended */
    int64_t suspended; /* ms that it was suspended before that */
    int64_t memory;    /* bytes of Suspend */
    pid_t *pids;       /* that the last helper was given; owned */
    int count;
    int rounds;                 /* how many helpers the request has had */
    char undone[512];           /* why what was done is being undone; "": it is not */
    struct json_object *result; /* of the last request; NULL: there was none */
    bool untold;                /* no Wait has been answered with it */
};

struct shim;

/* Begins what the call asks for. False: it cannot be done now. Takes a reference to `request`. */
bool shim_suspend(struct shim *shim, struct json_object *request);
bool shim_resume(struct shim *shim, struct json_object *request);
/* Reads what traind-suspend prints, and looks whether it has ended. */
void shim_suspension_tend(struct shim *shim);
/* The job is to end: traind-suspend is killed. */
void shim_suspension_abandon(struct shim *shim);
const char *shim_suspension_name(const struct shim *shim);
/* Seconds that the job has been suspended in all. */
double shim_suspended_seconds(const struct shim *shim);
void shim_suspension_release(struct shim *shim);

/* ---- memory of a GPU (shim_pytorch.c) -------------------------------------------------------- */

/* Limits what PyTorch may take of a GPU to what the job has declared, where the PyTorch beside the
 * job's program knows the option. Call it as the job's user. */
void shim_pytorch_limit(struct attempt_config *config);

/* ---- io.traind.Worker (shim_service.c) ------------------------------------------------------- */

struct shim_connection {
    int descriptor; /* -1: free */
    bool waiting;   /* a Wait is unanswered: later calls are held back, except oneway ones */
    bool oneway;    /* the present call wants no answer */
    bool holds;     /* `held` is set */
    struct varlink_call held; /* the first call that is held back */
    struct varlink_frames frames;
};

struct shim {
    struct attempt_config config;
    struct shim_trainee trainee;
    struct shim_metrics metrics;
    struct shim_memory memory;
    struct shim_suspension suspension;
    struct shim_connection connections[SHIM_CONNECTIONS_MAX];
    int listener, signals;
    struct json_object *exit; /* the exit record; NULL: there is none yet */
    struct shim_warm *warm;   /* that may become the trainee, or NULL */
    bool stop_requested;
    bool acknowledged;
    /* monotonic ms, 0: never */
    int64_t kill_deadline;   /* when a stop sends SIGKILL */
    int64_t open_deadline;   /* when to create the spool and worker.sock */
    int64_t record_deadline; /* when to write exit.json even if the daemon is connected */
};

/* ---- shim_warm.c ----------------------------------------------------------------------------- */

/* A warm worker, which waits for a job. */
struct shim_warm {
    pid_t pid;
    int socket; /* -1: there is none */
};

/* Starts the worker and waits on descriptor 3 for the folder of an attempt. Calls `run` for that
 * folder and returns its result. `title` as in shim_fork_server(). */
int shim_warm(char *title, char **arguments,
              int (*run)(const char *folder, struct shim_warm *warm));
/* Makes the worker the trainee. If that fails, kills and reaps the worker. */
int shim_warm_hand_over(struct shim_warm *warm, const struct attempt_config *config,
                        const struct shim_trainee *trainee, int log, struct error *error);

/* Takes over a connected descriptor; closes it if too many are open. */
void shim_connection_add(struct shim *shim, int descriptor);
void shim_connection_close(struct shim_connection *connection);
/* Reads the bytes that have arrived and answers the complete calls. */
void shim_connection_read(struct shim *shim, struct shim_connection *connection);
/* Answers every Wait: with the exit record or, before there is one, with the end of a suspension.
 * */
void shim_answer_waits(struct shim *shim);

/* Sends the signal to the trainee now (0: SIGTERM to the whole job), and SIGKILL to the whole job
 * after the grace period. */
void shim_stop(struct shim *shim, int signal_number, double grace_seconds);

/* ---- shim_fork_server.c ---------------------------------------------------------------------- */

/* Waits on descriptor 3 for folders of attempts. Forks a shim for each, which calls `run` and exits
 * with its result. Returns when the daemon has hung up and the last shim has ended. `title` is the
 * program's last argument and long enough for any folder: each shim writes its folder there, for
 * ps(1). */
int shim_fork_server(char *title, int (*run)(const char *folder));

/* ---- shim_unpack.c --------------------------------------------------------------------------- */

#define SHIM_UNPACK "--unpack"

/* Unpacks frozen code into `folder`, unless it is there, and becomes the command in its folder
 * `inner`. Returns the exit status if that fails; the sentence is in the log and in an
 * `error` record. */
int shim_unpack(char *archive, const char *folder, const char *inner, char **command);
/* Whether the trainee's wait status says that it had no room to unpack its code. */
bool shim_unpack_lacked_room(const struct attempt_config *config, int status);
