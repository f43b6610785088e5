/* jobs_internal.h: what the files of the job table share: jobs.c (table, submission, cancelling),
 * jobs_dispatch.c (placing and starting), jobs_planning.c (planning runs), jobs_end.c (what follows
 * an attempt), jobs_recovery.c (after a restart), jobs_store.c (rows). */
#pragma once

#include "daemon/job_rules.h"
#include "daemon/job_table.h"
#include "daemon/jobs.h"
#include "daemon/store.h"
#include "daemon/supervisor.h"

enum { PLANNING_AT_ONCE = 2, RECENT_PLANS_KEPT = 16, LAUNCH_FAILURES_MAX = 12 };

/* What placing and starting a job needs beyond its entry; read from the store when it gets close to
 * the head of the queue. */
struct job_details {
    struct json_object *spec; /* NULL once the job was started */
    const char **allowed;     /* strings of `spec` */
    size_t allowed_count;
    const char *preferred; /* likewise, or NULL */
    double time_limit;     /* seconds, 0: none */
    int retry_limit;
    double backoff_seconds;
    char choices[PLAN_CHOICES_MAX]; /* what the plan chose, as JSON; "": not known */
};

/* A planning run and the jobs with the same plan that wait for its result. */
struct planning {
    int64_t job; /* 0: free */
    uid_t uid;
    char digest[65];
    bool running; /* it has been decided that it must run */
    int64_t *waiting;
    size_t waiting_count;
};

/* What the last planning runs gave: a plan whose row may not be on disk yet, or the reason why
 * there is none, which holds for the jobs that were submitted before. */
struct recent_plan {
    uid_t uid;
    char digest[65];
    bool failed;
    uint64_t memory;
    char choices[PLAN_CHOICES_MAX];
    char message[JOB_REASON_MAX];
    int64_t last_job;
};

struct user_jobs {
    uid_t uid;
    size_t count;
};

struct transition; /* jobs_store.h */

struct jobs {
    struct daemon *daemon;
    void (*ready_callback)(struct daemon *daemon);
    struct job_table table;
    struct job_queue ready;     /* may be placed */
    struct job_queue unplanned; /* need a plan first */
    struct planning planning[PLANNING_AT_ONCE];
    struct recent_plan recent_plans[RECENT_PLANS_KEPT];
    size_t next_recent_plan;
    int64_t last_job; /* the highest id seen */
    struct user_jobs *users;
    size_t user_count;
    char *shim_path, *worker_path;

    struct attempt **running; /* on the device; planning runs need none */
    size_t running_count, running_capacity;
    uint64_t memory_booked, memory_outside;
    uint64_t memory_measured_at; /* uv_now() */
    uv_timer_t memory_timer;     /* while the head of the queue waits for memory */

    struct transition *first_failed, *last_failed; /* to be stored again, in order */
    uv_timer_t store_timer;
    struct job_graph *graph; /* jobs_graph.h */
    bool loaded, stopping, dispatching;
};

/* ---- jobs.c ---------------------------------------------------------------------------------- */

struct job *job_new(struct jobs *jobs, int64_t id, uid_t uid, enum job_kind kind, int priority);
/* Takes an ended job out of everything and frees it. */
void job_forget(struct jobs *jobs, struct job *job);
/* Its end is stored; only its processes are still to go. */
void job_mark_ended(struct jobs *jobs, struct job *job);
void job_details_free(struct job_details *details);
/* Sees to it that the entry and the store learn of a queued job's present reason to wait. */
void job_set_waiting(struct jobs *jobs, struct job *job, enum wait_reason wait_reason,
                     const char *reason);
/* Queued again after `delay` seconds; at once for 0. */
void job_queue_after(struct jobs *jobs, struct job *job, double delay);
/* A queued job that never can run. */
void job_fail(struct jobs *jobs, struct job *job, const char *reason);

/* ---- jobs_dispatch.c ------------------------------------------------------------------------- */

extern const struct attempt_events running_events;

/* Starts what can be started. Cheap when nothing can. */
void jobs_dispatch(struct jobs *jobs);
/* Counts an attempt in and out of the device's ledger. */
void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory);
void jobs_unbook(struct jobs *jobs, struct attempt *attempt);
/* A fresh attempt, bound to its job; it is neither started nor looked for yet. */
struct attempt *job_bind_attempt(struct jobs *jobs, struct job *job, int64_t number,
                                 const struct attempt_events *events);
/* Threads that one job may use. */
int jobs_threads(const struct jobs *jobs, const struct job_details *details);

/* What a read of a job's specification gives. */
struct details_read {
    struct jobs *jobs;
    int64_t id;
    struct job_details *details;
    char digest[65];
    bool planned;
    uint64_t memory;
    char choices[PLAN_CHOICES_MAX];
};
int details_read_work(struct store_connection *connection, void *data, struct error *error);

/* ---- jobs_planning.c ------------------------------------------------------------------------- */

extern const struct attempt_events planning_events;

void jobs_plan(struct jobs *jobs);
/* What a plan chose whose row may not be on disk yet; "" when there is none. */
const char *recent_plan_choices(const struct jobs *jobs, const struct job *job, const char *digest);
/* The job was cancelled: nothing waits for its plan any more. */
void planning_forget(struct jobs *jobs, int64_t job);

/* ---- jobs_end.c ------------------------------------------------------------------------------ */

void job_attempt_gone(struct attempt *attempt);
void job_attempt_ended(struct attempt *attempt);
/* What the exit record and the spool say, for attempt_judge(). */
struct attempt_end attempt_describe_end(const struct attempt *attempt, const struct job *job);

/* ---- jobs_recovery.c ------------------------------------------------------------------------- */

void jobs_recover(struct jobs *jobs);
