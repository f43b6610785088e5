/* supervisor.h: one attempt of a job from the daemon's side: starts its shim or finds it again,
 * talks io.traind.Worker with it, reads its spool, and tells the job table what happened. Runs on
 * the loop; what blocks is done on the thread pool.
 *
 * The life of an attempt: launch or attach → (started) → gone: no process of it remains → its spool
 * is read to the end → ended: the job table stores what follows and acknowledges → closed. */
#pragma once

#include "base/error.h"
#include "daemon/attempts/launch.h"
#include "daemon/attempts/processes.h"
#include "daemon/context/context.h"
#include "daemon/devices/device_claim.h"
#include "daemon/store/spool_store.h"
#include "daemon/types/job_types.h"
#include "daemon/work/job_rules.h"
#include "proto/varlink.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct attempt;

enum { READINGS_TO_TELL = 2 /* that an attempt holds none */ };

/* What happens to an attempt is told through these; jobs/end.c and jobs/planning.c answer. */
struct attempt_events {
    /* Before it is launched: what `launch` has to hold beside what the attempt says; may be NULL.
     */
    void (*prepare)(struct attempt *attempt);
    /* A process runs (or did run): pid and start are known. Not called when none could be started.
     */
    void (*started)(struct attempt *attempt);
    /* `steps` steps of training took `seconds` each on average; may be NULL. */
    void (*measured)(struct attempt *attempt, double seconds, double steps);
    /* No process of the attempt remains; the device's slot is free. */
    void (*gone)(struct attempt *attempt);
    /* Everything that it wrote is stored. The receiver calls attempt_finish() once it has stored
     * the end. */
    void (*ended)(struct attempt *attempt);
};

/* Reading the spool on the loop's side; spool_ingest.c. */
struct spool_ingest {
    struct spool_position position; /* stored */
    struct spool_batch batch;       /* being stored */
    struct error error;             /* of reading */
    uv_fs_event_t watch;
    uv_timer_t retry; /* after a failure to store */
    uv_work_t work;
    int folder, file;     /* -1 until the first reading */
    uv_timer_t beginning; /* until the spool is there to be watched */
    bool watching, retry_open, beginning_open;
    bool busy;       /* a batch is being read or stored */
    bool again;      /* something was written meanwhile */
    bool finishing;  /* the trainee is gone: read to the end */
    bool to_the_end; /* the present reading was begun after that */
    int complaints;
    size_t stored;                        /* records of the batch that are */
    struct checkpoint_copy copy;          /* of the next one */
    struct checkpoint_removals *removals; /* that the batch tells of; owned */
    int checkpoint_complaints;
    bool measured, job_changed;     /* by what is stored of the batch */
    struct obsolete_file *obsolete; /* to be removed in the next reading */
    size_t obsolete_count;
};

/* Where it stands, as it said last. Absent numbers are NAN (doubles) or -1 (integers). */
struct job_progress {
    int64_t step, steps, epochs;
    double epoch, loss, samples_per_second, seconds_left;
    double fraction; /* done, 0 to 1: of programs that say no more */
};

struct attempt_timer {
    uv_timer_t handle;
    bool open;
};

struct attempt {
    struct daemon *daemon;
    const struct attempt_events *events;
    struct job *job;
    int64_t job_id, number;
    uid_t uid;
    bool planning;
    struct device_claim claim; /* on its devices */
    bool starved;       /* it had waited too long (policy.h); forgotten when the daemon restarts */
    bool need_is_known; /* what it was booked with at first was not 0 */
    char stop_reason[JOB_REASON_MAX]; /* why the daemon ends it, as a sentence */

    cpu_set_t own_cores; /* of the machine, that it keeps to */
    bool keeps_to_cores; /* else all of them are open to it */

    struct attempt_launch launch; /* while it is being started */
    char *resume, *best;          /* files for the launch; owned, or NULL */
    uv_work_t work;               /* launch, search for its shim */
    struct error work_error;
    int work_socket;
    enum attempt_trace trace;
    bool working;

    uv_pipe_t pipe;
    bool pipe_open;
    struct attempt_timer deadline; /* the time limit; once it is stopped, until it is killed */
    struct attempt_timer seek;     /* until its shim is looked for again */
    uint64_t seek_pause;           /* ms */
    double sought_since;           /* seconds since the epoch, 0: it is not looked for */
    bool status_received;
    struct varlink_frames frames;
    int open_handles;

    double launched;          /* when this daemon, or the one before, began to; 0: not known */
    int shim;                 /* its process (pidfd_open(2)), -1 until known */
    double started, ended;    /* seconds since the epoch, 0 until known */
    double time_limit;        /* seconds, 0: none */
    struct json_object *exit; /* the exit record */
    bool started_here;        /* by this daemon, just now */
    bool sought;              /* started by a daemon before this one: its shim is asked */
    bool never_started;       /* no trainee came to life: the attempt does not count */
    bool finish, detached;
    bool forced;                /* its processes are killed, and its shim after them */
    enum ending intent;         /* why the daemon itself ends it, ENDING_NONE if it does not */
    enum preemption preemption; /* with ENDING_PREEMPTED: why it leaves, and so what follows */

    struct spool_ingest spool;
    struct job_progress progress;
    bool has_progress;
    double steps_timed; /* of this attempt, see jobs/trial.c */
    bool tries_out;     /* nothing like it had been measured on such a device */
    /* the first fraction done that was told, and when, for an estimate of the rest; 0: none yet */
    double fraction_begun, fraction_begun_at;
    char *message;                        /* of the trainee's `error` record */
    bool error_recorded;                  /* there was one */
    bool out_of_memory;                   /* it said so */
    enum device_fault fault;              /* of the GPU that it was on, as it said */
    bool fault_looked;                    /* the probe was asked about that */
    char error_kind[JOB_ERROR_KIND_MAX];  /* of that record, "": none */
    char disagrees_with[DEVICE_NAME_MAX]; /* what it said of the device that it comes from; "" */
    struct json_object *plan;
    int64_t resumed_from_step; /* -1: not */
};

/* A fresh attempt that belongs to the loop from attempt_launch() or attempt_attach() on. */
struct attempt *attempt_new(struct daemon *daemon, const struct attempt_events *events,
                            struct job *job, int64_t number);

/* Starts it on its devices, a planning run beside them. `resume` and `best` (files, or NULL) are
 * taken over.
 * `choices` are the plan's, "" where there are none. */
void attempt_launch(struct attempt *attempt, struct json_object *spec, char *resume, char *best,
                    int threads, const char *choices);

/* Ends an attempt that cannot be started, in place of attempt_launch(): it does not count. */
void attempt_refuse_launch(struct attempt *attempt, const struct error *error);

/* Finds an attempt of an earlier daemon again: connects, or reads its exit record. What cannot be
 * reached is killed after a while. */
void attempt_attach(struct attempt *attempt);

/* Opens the timer, one of the attempt's, if need be; it fires once. */
void attempt_timer_start(struct attempt *attempt, struct attempt_timer *timer, uv_timer_cb callback,
                         uint64_t milliseconds);

/* Ends it: SIGTERM now, SIGKILL after the grace period. The first intent counts. */
void attempt_stop(struct attempt *attempt, enum ending intent);

/* The end is stored: lets the shim go and frees the attempt. */
void attempt_finish(struct attempt *attempt);

/* Lets go of an attempt whose processes shall run on without this daemon. */
void attempt_detach(struct attempt *attempt);

/* ---- own_cores.c ---------------------------------------------------------------------- */

/* Takes cores for a command that is to be started; those of one that was found again; and gives
 * them back. */
void attempt_take_cores(struct attempt *attempt, struct json_object *spec, int threads);
void attempt_find_cores(struct attempt *attempt);
void attempt_leave_cores(struct attempt *attempt);

/* ---- spool_ingest.c -------------------------------------------------------------------------- */

void spool_ingest_init(struct spool_ingest *spool);
/* Frees what is left of a batch. */
void spool_ingest_release(struct spool_ingest *spool);
/* Watches the spool from now on, and reads what is there. That of an attempt that has only just
 * been started is not there yet: the shim makes it after a moment, and short attempts cost no
 * watch. */
void spool_ingest_begin(struct attempt *attempt, bool just_started);
/* Reads to the end, whatever it takes, then calls events->ended. */
void spool_ingest_finish(struct attempt *attempt);
/* Stops watching; handles are closed, nothing is read any more. */
void spool_ingest_close(struct attempt *attempt);

/* Frees the attempt when nothing of it is in use any more; called whenever something was let go. */
void attempt_release(struct attempt *attempt);
