/* supervisor.h: one attempt of a job from the daemon's side: starts its shim or finds it again,
 * talks io.traind.Worker with it, reads its spool, and tells the job table what happened. Runs on
 * the loop; what blocks is done on the thread pool.
 *
 * The life of an attempt: launch or attach → (started) → gone: no process of it remains → its spool
 * is read to the end → ended: the job table stores what follows and acknowledges → closed. */
#pragma once

#include "base/error.h"
#include "daemon/attempts/launch.h"
#include "daemon/attempts/link.h"
#include "daemon/attempts/processes.h"
#include "daemon/attempts/report.h"
#include "daemon/attempts/spool_ingest.h"
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
    /* Before it is launched: what `launch` has to hold beside what the
     * attempt says; may be NULL. */
    void (*prepare)(struct attempt *attempt);
    /* A process runs (or did run): pid and start are known. Not called when
     * none could be started. */
    void (*started)(struct attempt *attempt);
    /* `steps` steps of training took `seconds` each on average; may be NULL. */
    void (*measured)(struct attempt *attempt, double seconds, double steps);
    /* No process of the attempt remains; the device's slot is free. */
    void (*gone)(struct attempt *attempt);
    /* Everything that it wrote is stored. The receiver calls attempt_finish() once it has stored
     * the end. */
    void (*ended)(struct attempt *attempt);
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

    struct attempt_launch launch;  /* while it is being started */
    struct attempt_link link;      /* to its shim */
    bool working;                  /* on the thread pool */
    struct attempt_timer deadline; /* the time limit; once it is stopped, until it is killed */
    int open_handles;

    double launched;          /* when this daemon, or the one before, began to; 0: not known */
    double started, ended;    /* seconds since the epoch, 0 until known */
    double time_limit;        /* seconds, 0: none */
    struct json_object *exit; /* the exit record */
    bool started_here;        /* by this daemon, just now */
    bool never_started;       /* no trainee came to life: the attempt does not count */
    bool finish, detached;
    bool forced;                /* its processes are killed, and its shim after them */
    enum ending intent;         /* why the daemon itself ends it, ENDING_NONE if it does not */
    enum preemption preemption; /* with ENDING_PREEMPTED: why it leaves, and so what follows */

    struct spool_ingest spool;
    struct attempt_report report;
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

/* Ends it: SIGTERM now, SIGKILL after the grace period. The first intent counts. */
void attempt_stop(struct attempt *attempt, enum ending intent);

/* The end is stored: lets the shim go and frees the attempt. */
void attempt_finish(struct attempt *attempt);

/* Lets go of an attempt whose processes shall run on without this daemon. */
void attempt_detach(struct attempt *attempt);

/* Frees the attempt when nothing of it is in use any more; called whenever something was let go. */
void attempt_release(struct attempt *attempt);
/* Every handle of an attempt counts in `open_handles` and is closed with this. */
void attempt_handle_closed(uv_handle_t *handle);
/* The exit record is there: no process of the attempt remains. */
void attempt_take_exit(struct attempt *attempt, struct json_object *record);
/* No process of it remains, and nothing says how it ended. */
void attempt_is_gone(struct attempt *attempt);
/* Where it is found. */
struct attempt_place attempt_place(const struct attempt *attempt);
