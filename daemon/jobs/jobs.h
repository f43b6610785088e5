/* jobs.h: the jobs that have not ended: their state machine, dispatch and supervision. Everything
 * here runs on the loop. A job that has ended leaves memory; the store has it. */
#pragma once

#include "base/error.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/context/context.h"
#include "daemon/types/job_types.h"
#include "daemon/work/job_entry.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct jobs;

/* Loads what has not ended from the store, finds running attempts again and starts to dispatch.
 * `ready` runs once the load is done (the server accepts calls from then on). */
int jobs_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error);

/* Stops dispatching and lets go of the shims, which run on. What is pending in the store still
 * finishes in store_close(); jobs_free() comes after that and after the loop has run out. */
void jobs_stop(struct daemon *daemon);
void jobs_free(struct daemon *daemon);

/* A job whose row is durable (state queued); called from the submitting handler's `done`. */
void jobs_add(struct daemon *daemon, const struct job_submission *submission);

/* What was assumed of a job that names no device (job_default_explain()); "": nothing. */
void jobs_explain_default(const struct daemon *daemon, int64_t id, char *text, size_t size);

/* Whether job_needs_text() asks for devices that this machine has, be they lost or busy now, for no
 * more cores, and does not exclude what it asks for. -EINVAL with a sentence and the
 * specification's key. */
int jobs_check_devices(struct daemon *daemon, const char *needs, const char **key,
                       struct error *error);

/* Ends a job that has not ended. `done` runs once the change is durable; -ERROR_NO_SUCH_JOB when no
 * such job is live (it has ended, or never was). */
typedef void (*jobs_done)(void *data, int result, const struct error *error);
void jobs_cancel(struct daemon *daemon, int64_t id, const char *reason, jobs_done done, void *data);

/* Keeps a queued job from starting, or lets it. `done` runs once that is durable;
 * -ERROR_NO_SUCH_JOB when no such job is queued. */
void jobs_hold(struct daemon *daemon, int64_t id, bool held, jobs_done done, void *data);

/* The limit of a user's group, whose row is durable; -1: none. */
void jobs_group_set(struct daemon *daemon, uid_t uid, const char *name, int64_t limit);

/* The groups that have a limit or jobs; `running` and `next`, the admitted ones that have not
 * started, count against the limit. */
struct job_group_view {
    uid_t uid;
    const char *name;
    int64_t limit; /* -1: none */
    size_t running, next, waiting;
};
void jobs_groups_each(struct daemon *daemon,
                      void (*each)(void *data, const struct job_group_view *view), void *data);

/* A job is to leave its device, or may go on: see move.c. `done` runs once what was asked for is
 * durable, which is before the job has left; -ERROR_NO_SUCH_JOB: it has ended; -EINVAL: not in this
 * state; -ERROR_UNSUPPORTED, -ENODEV: this job, or this device, cannot. The sentence says why. */
struct job_change {
    enum preemption preemption; /* of job_preempt() */
    const char *reason;         /* likewise, a sentence */
    const char *decision;       /* likewise, that takes the device away, as JSON; or NULL */
    const char *device;         /* to be pinned to: "" takes a pin away, NULL changes none */
    bool force;                 /* also a command that then begins from the start */
    jobs_done done;             /* may be NULL for job_preempt() */
    void *data;
};
/* Frees the device; the job waits for jobs_resume(), over restarts too. */
void jobs_pause(struct daemon *daemon, int64_t id, struct job_change change);
void jobs_resume(struct daemon *daemon, int64_t id, struct job_change change);
/* Frees the device and is queued again. */
void jobs_requeue(struct daemon *daemon, int64_t id, struct job_change change);
/* To change.device, "auto": wherever it is best. */
void jobs_move(struct daemon *daemon, int64_t id, struct job_change change);
struct device;
/* What runs on the device leaves it: all, where it is lost; else what can save its state. */
void jobs_leave_device(struct daemon *daemon, struct device *device, enum preemption preemption,
                       const char *reason);

/* The devices are others, or their sections of the configuration: what runs where may change. */
void jobs_reconsider(struct daemon *daemon);

/* What a queued job waits for as of now, as a sentence; WAIT_NONE: its row says it. */
enum wait_reason jobs_explain_queued(const struct daemon *daemon, int64_t id, char *text,
                                     size_t size);

/* Where a running job stands, from memory; false when it has said nothing yet. */
bool jobs_progress(const struct daemon *daemon, int64_t id, struct job_progress *progress);

/* Live (not ended) jobs of `uid`, for the quota. */
size_t jobs_count_of_user(const struct daemon *daemon, uid_t uid);
/* What they wait for, counted for each of them. */
int64_t jobs_dependencies_of_user(const struct daemon *daemon, uid_t uid);

/* Measures what others hold of the devices, unless that has just been done. */
void jobs_measure_devices(struct daemon *daemon);

/* Decisions about what runs where since the start. */
struct jobs_decisions {
    uint64_t count;
    double seconds, last_seconds, longest_seconds; /* of the loop's processor time */
    /* one follows, or what will bring one is under way: a start, a stop, a plan; or something of it
     * is not stored yet */
    bool due;
};
struct jobs_decisions jobs_decisions(const struct daemon *daemon);

/* The device has changed: its health, what others hold of it, or it is new. */
void jobs_device_changed(struct daemon *daemon, struct device *device);

/* The processes of planning runs and of the calibration: what they hold of a device they hold for a
 * moment. At most `limit` of them; how many there are. */
size_t jobs_passing_pids(const struct daemon *daemon, pid_t *pids, size_t limit);

/* What the job table hears of devices: struct devices' listener. */
struct device_listener;
extern const struct device_listener jobs_device_listener;
