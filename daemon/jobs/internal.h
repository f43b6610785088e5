/* internal.h: what the files of the job table share: jobs.c (table, submission, cancelling),
 * details.c (specifications), snapshot.c and decide.c (placing), start.c
 * (starting), ledger.c (devices' memory), planning.c (planning runs), end.c (what
 * follows an attempt), recovery.c (after a restart), transition.c (rows). */
#pragma once

#include "base/log.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/jobs/calibrations.h"
#include "daemon/jobs/calibrator.h"
#include "daemon/jobs/forecast.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/snapshot.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/store.h"
#include "daemon/work/job_preemption.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"
#include "daemon/work/user_shares.h"

enum { RECENT_PLANS_KEPT = 16, LAUNCH_FAILURES_MAX = 12 };

/* A planning run and the jobs with the same plan that wait for its result. */
struct planning {
    int64_t job; /* 0: free */
    uid_t uid;
    char digest[JOB_DIGEST_SIZE];
    bool running; /* it has been decided that it must run */
    int64_t *waiting;
    size_t waiting_count;
};

/* What the last planning runs gave: a plan whose row may not be on disk yet, or the reason why
 * there is none, which holds for the jobs that were submitted before. */
struct recent_plan {
    uid_t uid;
    char digest[JOB_DIGEST_SIZE];
    struct json_object *plan; /* NULL: it failed */
    char message[JOB_REASON_MAX];
    int64_t last_job;
};

/* What is known of a user. */
struct user_jobs {
    uid_t uid;
    size_t count;      /* jobs that have not ended */
    int64_t unmet;     /* dependencies of theirs that are open */
    double usage;      /* device-seconds, halved every USAGE_HALF_LIFE_SECONDS */
    double usage_time; /* when that was so, seconds since the epoch */
};

struct transition; /* transition.h */

/* What files of this room tell those above them; set by jobs_start(). */
struct jobs_news {
    uv_idle_cb decide;               /* a decision is due */
    void (*plan)(struct jobs *jobs); /* jobs may be planned */
    /* Earlier runs tell something of what the job runs. */
    void (*history_known)(struct jobs *jobs, int64_t job);
    /* A point has left memory: it is done, or has failed or was cancelled. */
    void (*point_left)(struct jobs *jobs, struct sweep_run *sweep, bool done);
};

struct jobs {
    struct daemon *daemon;
    void (*ready_callback)(struct daemon *daemon);
    struct jobs_news news;
    struct job_table table;
    struct job_classes classes; /* jobs that may be placed */
    struct workload_table workloads;
    struct predictions_table predictions;
    struct calibrations calibrations;
    struct calibrator *calibrator; /* NULL: nothing is measured */
    struct job_needs_table needs;
    struct planning *planning; /* that run, and room for others */
    size_t planning_count;
    struct planning_user *planning_users; /* whose jobs need a plan first */
    struct planning_user *next_to_plan;   /* NULL: the first one */
    struct recent_plan recent_plans[RECENT_PLANS_KEPT];
    size_t next_recent_plan;
    int64_t last_job; /* the highest id seen */
    struct user_jobs *users;
    size_t user_count;

    struct jobs_snapshot snapshot;
    struct jobs_forecast forecast;
    uv_idle_t decide_soon;   /* active while a decision is due */
    uv_timer_t decide_timer; /* while time alone may change one */
    struct jobs_decisions decisions;
    size_t loading;            /* specifications being read */
    uv_timer_t headroom_timer; /* while attempts run */
    uv_timer_t logs_timer;     /* job_logs.h */
    size_t logs_looking;
    struct log_throttle logs_throttle;
    bool reads_memory; /* what attempts on the CPU hold is being read */
    struct outside_watch *outside_watches;

    struct transition *first_failed, *last_failed; /* to be stored again, in order */
    uv_timer_t store_timer;
    struct log_throttle store_throttle, read_throttle, sweep_throttle;
    struct user_shares shares;
    struct job_graph *graph;                           /* graph.h */
    struct sweep_run *sweeps;                          /* sweeps.h */
    struct notice *notices;                            /* notices.h; that run */
    struct notify_user *notify_users, *next_to_notify; /* notify_queue.c */
    size_t notices_running;
    struct resume_read *resume_reads; /* start.c: retries whose checkpoint is being fetched */
    bool resume_read_busy;            /* a slice of the first */
    bool loaded, stopping;
    bool busy; /* there was a job since the last time that none was left */
};

/* ---- jobs.c ---------------------------------------------------------------------------------- */

/* So many dependencies more of a user's jobs are open. */
void user_unmet_change(struct jobs *jobs, uid_t uid, int64_t change);
struct job *job_new(struct jobs *jobs, const struct job_submission *submission);
void job_free(struct jobs *jobs, struct job *job);
/* It makes no pause between two tries any more. */
void job_stop_backoff(struct job *job);
/* Takes an ended job out of everything and frees it. */
void job_forget(struct jobs *jobs, struct job *job);
/* Its end is stored; only its processes are still to go. */
void job_mark_ended(struct jobs *jobs, struct job *job);
/* Sees to it that the entry and the store learn of a queued job's present reason to wait. */
void job_set_waiting(struct jobs *jobs, struct job *job, enum wait_reason wait_reason,
                     const char *reason, const char *decision);
/* Takes it out of whatever it waits in. */
void job_dequeue(struct jobs *jobs, struct job *job);
/* Queued again after `delay` seconds; at once for 0. */
void job_queue_after(struct jobs *jobs, struct job *job, double delay);
/* When its pause between two tries is over, seconds since the epoch; 0: it makes none. */
double job_backoff_end(const struct job *job);
/* Out of whatever it waits in; queued again by job_queue_after(). */
void job_take_from_queues(struct jobs *jobs, struct job *job);
/* Users' fair share: what the policy is told of user `index`, and what an attempt has used. */
struct policy_user jobs_user(const struct jobs *jobs, size_t index);
void jobs_count_usage(struct jobs *jobs, const struct attempt *attempt);
/* If it may be placed, it is placed as one of whose kind more is known now: commands of which
 * nothing is known are of one kind for the decision. */
void job_queue_anew(struct jobs *jobs, int64_t id);
/* Ends a job that has not ended; jobs_cancel() is for who knows its id only. */
void job_cancel(struct jobs *jobs, struct job *job, const char *reason, jobs_done done, void *data);
/* A queued job that never can run. */
void job_fail(struct jobs *jobs, struct job *job, const char *reason);

/* ---- details.c ---------------------------------------------------------------------------
 */

/* What a read of a job's specification gives. */
struct details_read {
    struct jobs *jobs;
    int64_t id;
    struct job_details *details;
    char digest[JOB_DIGEST_SIZE];
    bool wants_plan;
    struct json_object *plan; /* where it was wanted and is there */
};
int details_read_work(struct store_connection *connection, void *data, struct error *error);
void details_read_free(struct details_read *read);
/* Reads the job's details unless they are there, then asks for a decision. */
void job_details_load(struct jobs *jobs, struct job *job);
void job_details_free(struct job_details *details);
/* What follows for a queued job when that fails: a failure says nothing of the job, so it waits and
 * is read again; only one whose specification is no specification any more (-EINVAL) fails. */
void job_details_unread(struct jobs *jobs, struct job *job, int result, const struct error *error);

/* ---- dispatch.c ------------------------------------------------------------------------- */

/* Something has happened that may change what runs where: a decision follows as soon as the loop
 * has done what is at hand. */
void jobs_dispatch(struct jobs *jobs);
/* A job may need a plan, or a planning run may be begun. */
void jobs_plan(struct jobs *jobs);

/* ---- decide.c --------------------------------------------------------------------------- */

/* Makes the decision that is due; called by the loop. */
void jobs_decide_now(uv_idle_t *idle);
/* Stops the decision's handles. */
void jobs_decide_stop(struct jobs *jobs);

/* ---- waiting.c -------------------------------------------------------------------------- */

enum wait_reason jobs_wait_reason_of(enum policy_verdict verdict);
/* Why the job, which is `index` of the latest decision or of that one's class, waits. WAIT_NONE: it
 * starts, or no device can ever take it, as the sentence says. */
enum wait_reason jobs_explain_waiting(const struct jobs *jobs, const struct job *job, size_t index,
                                      char *text, size_t size);
/* Of a job that no device can take as they are: true where one that is lost could, were it there,
 * so that the job waits for it; `text`: the sentence that says so. */
bool jobs_explain_lost(const struct jobs *jobs, const struct job *job, char *text, size_t size);

/* ---- ledger.c --------------------------------------------------------------------------- */

/* Counts an attempt in and out of the ledgers of its devices, which are set already. */
void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory);
void jobs_unbook(struct jobs *jobs, struct attempt *attempt);
/* Measures what others hold of every device; not more often than is worth it. Where attempts are on
 * the CPU, that is read on the thread pool with what they hold, and arrives a moment later: who
 * holds more than it has booked is booked with that. */
void jobs_measure_outside(struct jobs *jobs);

/* ---- trial.c ---------------------------------------------------------------------------- */

void job_observe_steps(struct attempt *attempt, double seconds, double steps);
/* The attempt, which tried a type of device out, has been measured there: it may be moved. */
bool attempt_trial_is_over(const struct attempt *attempt);

/* ---- sharing.c -------------------------------------------------------------------------- */

/* Whether the job would share that GPU with others of its user by MPS. */
bool job_may_share_by_mps(const struct jobs *jobs, const struct job *job,
                          const struct device *device);
/* Its processes are gone. */
void attempt_leave_company(struct attempt *attempt);
/* Before the launch of a native job on a GPU: true where it will, by the service of that folder. */
bool attempt_join_mps(struct attempt *attempt, struct json_object *spec, char folder[PATH_MAX]);

/* ---- headroom.c ------------------------------------------------------------------------- */

void jobs_headroom_start(struct jobs *jobs);
void jobs_headroom_stop(struct jobs *jobs);
/* An attempt is on a device: looks after its memory from now on, while there is one. */
void jobs_headroom_watch(struct jobs *jobs);
/* A decision, if somebody has to leave a device that is beyond its high watermark and can. */
void jobs_headroom_check(struct jobs *jobs);
/* Bytes kept free for jobs that have only just started and whose need nobody knows. */
uint64_t device_ramp_up_reserve(const struct device *device, double now);

/* ---- start.c ---------------------------------------------------------------------------- */

extern const struct attempt_events running_events;

/* A fresh attempt, bound to its job; it is neither started nor looked for yet. */
struct attempt *job_bind_attempt(struct jobs *jobs, struct job *job, int64_t number,
                                 const struct attempt_events *events);
/* Starts the job, whose details are there, on the devices. `decision` is JSON, for the store. */
void job_start(struct jobs *jobs, struct job *job, struct device *const *devices, int count,
               const char *reason, const char *decision);

/* ---- history.c -------------------------------------------------------------------------- */

/* Reads what earlier runs of a command tell, for the job that asks (0: for all that run it); a
 * decision follows. */
void jobs_history_load(struct jobs *jobs, const struct workload *workload, int64_t job);
/* One more run of it is stored. */
void jobs_history_grown(struct jobs *jobs, uid_t uid, const char *digest);
/* The name of the type of its devices, which lives as long as the table of devices. */
const char *attempt_device_type(const struct attempt *attempt);

/* ---- move.c ------------------------------------------------------------------------------
 */

/* The job, which runs, leaves its device: `change` says why. */
void job_preempt(struct jobs *jobs, struct job *job, const struct job_change *change);
/* Its pin in memory alone; NULL: none. */
void job_pin(struct jobs *jobs, struct job *job, const char *device);
/* The device failed under it: it goes elsewhere from now on, and is not pinned there any more, if
 * there is an elsewhere: true. In memory alone: after a restart it may find out anew. */
bool job_avoid(struct jobs *jobs, struct job *job, const struct device *device);
/* The seconds after which a running job, not movable yet, may be moved; INFINITY: never. */
double job_seconds_to_movable(const struct jobs *jobs, const struct job *job);
/* It avoids no device any more. */
void job_forgive(struct jobs *jobs, struct job *job);

/* ---- planning.c ------------------------------------------------------------------------- */

extern const struct attempt_events planning_events;

/* Plans jobs that need it, as many at once as may be. */
void planning_begin(struct jobs *jobs);
/* Devices train that did not: jobs that wait and could run on one that their plan does not know are
 * planned again. */
void planning_begin_anew(struct daemon *daemon);

/* ---- planning_turns.c -------------------------------------------------------------------
 */

/* 0 or -ENOMEM. */
int planning_turns_start(struct jobs *jobs);
void planning_turns_free(struct jobs *jobs);
/* The job waits for its turn to be planned. 0 or -ENOMEM. */
int planning_queue(struct jobs *jobs, struct job *job);
/* The job whose turn it is, still in its queue; NULL: nobody's. */
struct job *planning_next(struct jobs *jobs);
/* The run of that job; of 0: a free one. NULL: there is none. */
struct planning *planning_find(struct jobs *jobs, int64_t job);
/* It is free; nobody waits for its result. */
void planning_release(struct planning *planning);
/* It is free, and those who waited for its plan look again. */
void planning_wake(struct jobs *jobs, struct planning *planning);
/* The job was cancelled: nothing waits for its plan any more. */
void planning_forget(struct jobs *jobs, int64_t job);

/* ---- end.c ------------------------------------------------------------------------------ */

void job_attempt_gone(struct attempt *attempt);
void job_attempt_ended(struct attempt *attempt);
/* What the exit record and the spool say, for attempt_judge(). */
struct attempt_end attempt_describe_end(const struct attempt *attempt, const struct job *job);
/* What follows when its shim could not be started, or was killed before it started anything: a few
 * more tries, and as many as it takes where that was the machine's state. `what` begins the reason.
 */
struct attempt_verdict job_judge_launch(struct job *job, const struct attempt *attempt,
                                        const char *what);

/* ---- recovery.c ------------------------------------------------------------------------- */

void jobs_recover(struct jobs *jobs);
