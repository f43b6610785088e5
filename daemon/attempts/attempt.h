/* attempt.h: one attempt of a job, as the daemon sees it. The daemon starts its shim or finds it
 * again, talks io.traind.Worker with it, reads its spool, and tells the job table what happened.
 * All functions run on the loop; work that blocks runs on the thread pool. The life of an attempt:
 * launch or attach → (started) → gone (none of its processes remains) → its spool is read to the
 * end → ended (the job table stores what follows and acknowledges) → closed. */
#pragma once

#include "base/error.h"
#include "daemon/attempts/launch.h"
#include "daemon/attempts/link.h"
#include "daemon/attempts/processes.h"
#include "daemon/attempts/report.h"
#include "daemon/attempts/spool_ingest.h"
#include "daemon/attempts/suspension.h"
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

/* An attempt holds no GPU memory if this many readings have found none. */
enum { READINGS_TO_TELL = 2 };

/* The events of an attempt. jobs/start.c and jobs/planning.c provide the handlers. */
struct attempt_events {
    /* Before the launch: fills in the members of `launch` that the attempt does not know; may be
     * NULL. */
    void (*prepare)(struct attempt *attempt);
    /* The trainee runs, or has run: its pid and its start are known. Not called if it could not be
     * started. */
    void (*started)(struct attempt *attempt);
    /* `steps` steps of training took `seconds` each on average; may be NULL. */
    void (*measured)(struct attempt *attempt, double seconds, double steps);
    /* Metrics that it has reported are durable; may be NULL. */
    void (*metrics_stored)(struct attempt *attempt);
    /* The shim says how far a suspension is; may be NULL. */
    void (*suspension)(struct attempt *attempt, const struct suspension_news *news);
    /* No process of the attempt remains; its place on the device is free. */
    void (*gone)(struct attempt *attempt);
    /* Everything that the attempt wrote is stored. The handler stores the end and then calls
     * attempt_finish(). */
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
    bool starved;       /* its job starved before the start (policy.h); a restart forgets it */
    bool need_is_known; /* the first booking was not 0 */
    char stop_reason[JOB_REASON_MAX]; /* a sentence: why the daemon ends it */

    cpu_set_t own_cores; /* the machine's cores that it may use */
    bool keeps_to_cores; /* false: it may use all cores */

    struct attempt_launch launch;  /* while it is being started */
    struct attempt_link link;      /* to its shim */
    bool working;                  /* the thread pool works for it */
    struct attempt_timer deadline; /* its time limit; after a stop, when it is killed */
    int open_handles;

    double launched;          /* when a daemon began to launch it; 0: not known */
    double started, ended;    /* seconds since the epoch, 0 until known */
    double time_limit;        /* seconds, 0: none */
    struct json_object *exit; /* the exit record */
    bool started_here;        /* this daemon has just started it */
    bool never_started;       /* no trainee was started, so the attempt does not count */
    bool finish, detached;
    bool told_of_memory;     /* it was warned that it holds more than it has booked */
    bool forced;             /* its processes are being killed, and then its shim */
    enum ending intent;      /* why the daemon ends it; ENDING_NONE: it does not */
    bool intent_is_unstored; /* it is asked to end once that is on disk */
    enum preemption
        preemption; /* with ENDING_PREEMPTED, or if it is suspended: why it leaves, which
                                 * says what follows */
    struct attempt_suspension suspension;

    struct spool_ingest spool;
    struct attempt_report report;
};

/* Makes an attempt. From attempt_launch() or attempt_attach() on it frees itself
 * (attempt_release()). */
struct attempt *attempt_new(struct daemon *daemon, const struct attempt_events *events,
                            struct job *job, int64_t number);

/* Starts the attempt on its devices; a planning run has none. Takes over the paths of `files`.
 * `choices` are the plan's; "": there are none. */
void attempt_launch(struct attempt *attempt, struct json_object *spec,
                    const struct launch_checkpoints *files, int threads, const char *choices);

/* Call this instead of attempt_launch() if the attempt cannot be started. It ends and does not
 * count. */
void attempt_refuse_launch(struct attempt *attempt, const struct error *error);

/* Finds an attempt of an earlier daemon: connects to its shim or reads its exit record. A shim that
 * cannot be reached is killed after a while. */
void attempt_attach(struct attempt *attempt);

/* Ends the attempt: SIGTERM now, SIGKILL after the grace period. The first intent counts. An intent
 * that the next daemon must know is stored first, so it goes through transition_stop(). */
void attempt_stop(struct attempt *attempt, enum ending intent);
/* The two halves of attempt_stop(): notes the intent; and asks the attempt to end, if it was not
 * asked yet, because the intent is stored, or cannot be. */
void attempt_intend(struct attempt *attempt, enum ending intent);
void attempt_intent_stored(struct attempt *attempt);

/* Call this once the end is stored: acknowledges it to the shim and frees the attempt. */
void attempt_finish(struct attempt *attempt);

/* Detaches from an attempt whose processes are to run on without this daemon. */
void attempt_detach(struct attempt *attempt);

/* Frees the attempt once no part of it is in use. Called whenever a part stops being used. */
void attempt_release(struct attempt *attempt);
/* The close callback of all handles of an attempt, which `open_handles` counts. */
void attempt_handle_closed(uv_handle_t *handle);
/* Takes over the exit record: no process of the attempt remains. */
void attempt_take_exit(struct attempt *attempt, struct json_object *record);
/* No process of the attempt remains. Called after attempt_take_exit(), or when there is no exit
 * record. */
void attempt_is_gone(struct attempt *attempt);
/* Where the attempt's files and processes are found. */
struct attempt_place attempt_place(const struct attempt *attempt);

/* Seconds until then for which the attempt has been suspended, as far as they are known. */
double attempt_suspended_seconds(const struct attempt *attempt, double until);
/* Seconds that the attempt has run until then, without those for which it was suspended, as far as
 * they are known. */
double attempt_run_seconds(const struct attempt *attempt, double until);
