/* jobs.h: the live jobs, which are those that have not ended: their states, decisions about them,
 * and their supervision. Everything here runs on the loop. An ended job leaves memory; the store
 * keeps it. */
#pragma once

#include "base/error.h"
#include "daemon/attempts/attempt.h"
#include "daemon/context/context.h"
#include "daemon/types/job_types.h"
#include "daemon/work/job_entry.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct jobs;

/* Loads the live jobs from the store, finds running attempts again and begins to make decisions.
 * `ready` runs once the jobs are loaded; the server accepts calls from then on. */
int jobs_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error);

/* Stops making decisions and lets go of the shims, which run on. Pending requests of the store
 * finish in store_close(). Call jobs_free() after that, when the loop has ended. */
void jobs_stop(struct daemon *daemon);
void jobs_free(struct daemon *daemon);

/* Takes in a job whose row is durable (state queued). The handler that submits it calls this in its
 * `done`. */
void jobs_add(struct daemon *daemon, const struct job_submission *submission);

/* Says which default applies to a job that names no device (job_default_explain()); "": none. */
void jobs_explain_default(const struct daemon *daemon, int64_t id, char *text, size_t size);

/* Checks the needs of a specification (job_needs_text()): this machine has the devices that they
 * name, even if these are lost or busy now; it has as many cores; and no key excludes what another
 * one asks for. Returns 0, or -EINVAL with a sentence and the specification's key. */
int jobs_check_devices(struct daemon *daemon, const char *needs, const char **key,
                       struct error *error);

/* Cancels a live job. `done` runs once the change is durable. -ERROR_NO_SUCH_JOB: no such job is
 * live. */
typedef void (*jobs_done)(void *data, int result, const struct error *error);
void jobs_cancel(struct daemon *daemon, int64_t id, const char *reason, jobs_done done, void *data);

/* Holds a queued job, or releases it. `done` runs once the change is durable. -ERROR_NO_SUCH_JOB:
 * no such job is queued. */
void jobs_hold(struct daemon *daemon, int64_t id, bool held, jobs_done done, void *data);

/* Applies the limit of a user's group once its row is durable; -1: no limit. */
void jobs_group_set(struct daemon *daemon, uid_t uid, const char *name, int64_t limit);

/* A group that has a limit or jobs. `running` and `next` count against the limit; `next` are
 * admitted jobs that have not started. */
struct job_group_view {
    uid_t uid;
    const char *name;
    int64_t limit; /* -1: none */
    size_t running, next, waiting;
};
void jobs_groups_each(struct daemon *daemon,
                      void (*each)(void *data, const struct job_group_view *view), void *data);

/* A request that a job leaves its device, or goes on (move.c). `done` runs once the request is
 * durable, which is before the job has left. Errors, with a sentence: -ERROR_NO_SUCH_JOB: the job
 * has ended. -EINVAL: its state does not allow the change. -ERROR_UNSUPPORTED: this job or device
 * cannot. -ERROR_DEVICE_LOST: no such device. */
struct job_change {
    enum preemption preemption; /* for job_preempt() only */
    const char *reason;         /* for job_preempt() only: a sentence */
    const char *decision; /* for job_preempt() only: the decision behind it, as JSON, or NULL */
    const char *device;   /* to pin the job to; "" removes the pin, NULL keeps it */
    bool force;           /* also if the job is a command that must then begin from the start */
    bool at_once;         /* also if the job is looked for after a restart (early_changes.h) */
    jobs_done done;       /* may be NULL for job_preempt() */
    void *data;
};
/* The job leaves its device and waits for jobs_resume(), even after a restart of the daemon. */
void jobs_pause(struct daemon *daemon, int64_t id, struct job_change change);
void jobs_resume(struct daemon *daemon, int64_t id, struct job_change change);
/* The job leaves its device and is queued again. */
void jobs_requeue(struct daemon *daemon, int64_t id, struct job_change change);
/* The job moves to change.device; with "auto" a decision chooses. */
void jobs_move(struct daemon *daemon, int64_t id, struct job_change change);
struct device;
/* Makes jobs leave the device: all of them if it is lost, else those that can save their state. */
void jobs_leave_device(struct daemon *daemon, struct device *device, enum preemption preemption,
                       const char *reason);

/* The devices or their sections of the configuration have changed: a decision becomes due. */
void jobs_reconsider(struct daemon *daemon);

/* Says in a sentence what a queued job waits for now. WAIT_NONE: the sentence in its row holds. */
enum wait_reason jobs_explain_queued(const struct daemon *daemon, int64_t id, char *text,
                                     size_t size);

/* The progress of a running job, from memory. False: it has reported none yet. */
bool jobs_progress(const struct daemon *daemon, int64_t id, struct job_progress *progress);

/* The number of live jobs of the user, for the quota. */
size_t jobs_count_of_user(const struct daemon *daemon, uid_t uid);
/* The number of open dependencies of the user's live jobs. */
int64_t jobs_dependencies_of_user(const struct daemon *daemon, uid_t uid);

/* Measures how much memory other programs hold on the devices, unless this has just been done. */
void jobs_measure_devices(struct daemon *daemon);

/* The decisions since the daemon started. */
struct jobs_decisions {
    uint64_t count;
    double seconds, last_seconds, longest_seconds; /* processor time of the loop */
    /* a decision is due, or will be when a start, a stop or a plan is finished, or a change is not
     * stored yet */
    bool due;
};
struct jobs_decisions jobs_decisions(const struct daemon *daemon);

/* The device is new, or its health or the memory that other programs hold has changed. */
void jobs_device_changed(struct daemon *daemon, struct device *device);

/* Fills at most `limit` of `pids` with the processes of planning runs and of the calibration, and
 * returns how many. They hold memory of a device only for a moment. */
size_t jobs_passing_pids(const struct daemon *daemon, pid_t *pids, size_t limit);

/* The listener of struct devices through which the jobs hear of changes to devices. */
struct device_listener;
extern const struct device_listener jobs_device_listener;
