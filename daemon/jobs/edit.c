/* edit.c: see edit.h.
 *
 * The reader makes the new specifications, the loop checks them, the writer stores them in one
 * transaction, and the loop puts them in effect. Meanwhile the jobs are frozen: one that waits is
 * taken out of its queue, so that none starts with the specification of before. */
#include "daemon/jobs/edit.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/stop.h"
#include "daemon/jobs/candidates.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/groups.h"
#include "daemon/jobs/history.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/jobs/predict.h"
#include "daemon/jobs/search_verdicts.h"
#include "daemon/jobs/searches.h"
#include "daemon/jobs/start_times.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/job_edit_rows.h"
#include "daemon/store/job_rows.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool runs(const struct job *job)
{
    return job->attempt && !job->attempt->planning;
}

static struct job *find_live(const struct jobs *jobs, int64_t id)
{
    struct job *job = job_table_find(jobs->table, id);

    return job && !job->ended ? job : NULL;
}

/* ---- freezing -------------------------------------------------------------------------------- */

/* Keeps the jobs from starting. -EBUSY: another request edits one of them. */
static int freeze(struct jobs *jobs, struct job_editing *editing, struct error *error)
{
    for (size_t i = 0; i < editing->count; i++) {
        struct edited_job *edited = &editing->jobs[i];
        struct job *job = find_live(jobs, edited->id);

        edited->live = job != NULL;
        if (!job)
            continue;
        if (job->frozen) {
            editing->refused = job->id;
            editing->refused_state = (enum job_state)job->state;
            return error_set(error, -EBUSY,
                             "another request edits job %lld at this moment; repeat yours",
                             (long long)job->id);
        }
        edited->frozen = job->frozen = true;
        job_dequeue(jobs, job);
    }
    return 0;
}

/* Lets the job start again, and says what it waits for now. */
static void thaw(struct jobs *jobs, struct job *job, const struct job_edit *edit)
{
    bool pauses = (job->attempt && !job_is_suspended(job)) || job->backoff ||
                  planning_turns_find(jobs, job->id);

    job->frozen = false;
    search_exploits_go_on(jobs);
    if (job->state == JOB_PAUSED) {
        search_job_rests(jobs, job);
        return;
    }
    if (pauses || job->queue || job->state != JOB_QUEUED)
        return;
    job_queue_after(jobs, job, 0);
    if (job->links && job->links->blocked)
        return;
    if ((job->wait_reason == WAIT_GROUP_LIMIT || job->wait_reason == WAIT_TIME) && job->class)
        job_set_waiting(jobs, job, WAIT_DEVICE_BUSY, "waits for its turn", NULL);
    else if ((edit->work || job->wait_reason == WAIT_TIME) && job->kind == JOB_NATIVE &&
             job->queue && !job->class)
        job_set_waiting(jobs, job, WAIT_PLANNING, "waits for its plan", NULL);
}

/* ---- the new specifications, on the reader --------------------------------------------------- */

/* Says why a job cannot be edited that was not in memory. */
static int refuse_ended(struct store_connection *connection, struct job_editing *editing,
                        const struct edited_job *edited, struct error *error)
{
    long long id = edited->id;
    int result = job_state_read(connection, edited->id, &editing->refused_state, error);

    editing->refused = edited->id;
    if (result < 0)
        return result;
    if (result == 0)
        return error_set(error, -EBUSY,
                         "job %lld is a point of a sweep that has not become a job yet; edit it "
                         "when it has",
                         id);
    return error_set(error, -EBUSY,
                     "job %lld has ended; `trainctl resubmit %lld --set KEY=VALUE` queues it again "
                     "as a new job",
                     id, id);
}

static int prepare_job(struct store_connection *connection, struct job_editing *editing,
                       struct edited_job *edited, struct error *error)
{
    JSON_AUTO struct json_object *spec = NULL;
    JSON_AUTO struct json_object *plan = NULL;
    uid_t owner;
    int result;

    if (!edited->live)
        return refuse_ended(connection, editing, edited, error);
    result = job_owner_read(connection, edited->id, &owner, error);
    if (result == 0)
        return error_set(error, -ERROR_NO_SUCH_JOB, "there is no job %lld", (long long)edited->id);
    if (result > 0)
        result = job_spec_read(connection, edited->id, &spec, &plan, error);
    if (result < 0)
        return result;
    if (!spec)
        return error_set(error, -EINVAL,
                         "its specification in the database is damaged; submit it again");
    if (owner != editing->uid && !editing->user)
        editing->user = job_user_name(editing->uid);
    result = job_edit_prepare(spec, editing->changes, owner, &edited->edit, &editing->fault, error);
    if (result < 0 || owner == editing->uid || editing->uid == 0 || !*edited->edit.owners_path)
        return result;
    snprintf(editing->fault.path, sizeof editing->fault.path, "%s", edited->edit.owners_path);
    return error_set(error, -EINVAL,
                     "%s says what runs with the rights of the job's owner, so the owner and root "
                     "alone change it",
                     edited->edit.owners_path);
}

static int prepare_work(struct store_connection *connection, void *data, struct error *error)
{
    struct job_editing *editing = data;
    int result = 0;

    for (size_t i = 0; i < editing->count && result == 0; i++) {
        result = prepare_job(connection, editing, &editing->jobs[i], error);
        if (result == -EINVAL && editing->count > 1)
            error_prefix(error, "job %lld", (long long)editing->jobs[i].id);
    }
    return result;
}

/* ---- checks, on the loop --------------------------------------------------------------------- */

static struct job_edit_target describe(struct jobs *jobs, const struct job *job)
{
    const struct attempt *attempt = runs(job) ? job->attempt : NULL;

    return (struct job_edit_target){
        .id = job->id,
        .state = (enum job_state)job->state,
        .runs = attempt != NULL,
        .suspended = job_is_suspended(job),
        .begun = job->attempt_number > 0,
        .planning = job->kind == JOB_NATIVE && planning_turns_find(jobs, job->id),
        .saves_state = job_saves_state(job),
        .run_seconds = attempt ? attempt_run_seconds(attempt, clock_now()) : 0,
        .pinned = job->needs->pinned,
    };
}

/* The needs that the job will have. The caller drops the reference. */
static struct job_needs *needs_take(struct jobs *jobs, const struct job *job,
                                    const struct job_edit *edit)
{
    struct job_needs *own = job_needs_take(jobs->needs, edit->entry.needs), *pinned;

    if (!own || !job->needs->pinned)
        return own;
    pinned = job_needs_pinned(jobs->needs, own, job->needs->pinned);
    job_needs_drop(jobs->needs, own);
    return pinned;
}

static int check_pin(const struct jobs *jobs, const struct job *job, const struct job_needs *needs,
                     struct error *error)
{
    const struct device *device =
        needs->pinned ? devices_find(jobs->daemon->devices, needs->pinned) : NULL;

    if (!device || job_needs_allow(needs, (enum job_kind)job->kind, device))
        return 0;
    return error_set(error, -EBUSY,
                     "job %lld was moved to %s, which these keys would exclude: `trainctl move "
                     "%lld auto` takes that back",
                     (long long)job->id, device->name, (long long)job->id);
}

/* Refuses needs that no device can ever meet, with which the job would fail. */
static int check_possible(struct jobs *jobs, const struct job *job, const struct job_edit *edit,
                          struct job_needs *needs, struct error *error)
{
    JSON_AUTO struct json_object *decision = NULL;
    struct job_submission submission = edit->entry.submission;
    struct job_prediction prediction = {.submission = &submission};

    if (job->kind == JOB_NATIVE && (edit->work || !job->workload->planned))
        return 0; /* its plan tells */
    if (job->attempt_number > 0)
        return 0; /* it has run here, so it would wait */
    submission.needs = needs->text;
    decision = jobs_predict(jobs->daemon, &prediction, error);
    if (!decision)
        return error->code;
    if (strcmp(json_get_string(decision, "verdict", ""), "impossible") != 0)
        return 0;
    return error_set(error, -EBUSY, "job %lld would fail: %s", (long long)job->id,
                     json_get_string(decision, "sentence", "no device can take it"));
}

/* Checks what the job will need of the machine. */
static int check_needs(struct jobs *jobs, const struct job *job, struct job_editing *editing,
                       const struct job_edit *edit, struct error *error)
{
    struct job_needs *needs;
    const char *key = "device";
    int result = jobs_check_devices(jobs->daemon, edit->entry.needs, &key, error);

    if (result < 0) {
        snprintf(editing->fault.path, sizeof editing->fault.path, "%s", key);
        return error_prefix(error, "%s", key);
    }
    needs = needs_take(jobs, job, edit);
    if (!needs)
        return error_no_memory(error, "the needs of job %lld", (long long)job->id);
    result = check_pin(jobs, job, needs, error);
    if (result == 0 && !runs(job))
        result = check_possible(jobs, job, edit, needs, error);
    job_needs_drop(jobs->needs, needs);
    return result;
}

/* Refuses keys that a search varies: it would go on judging, and showing, the value it gave. */
static int check_search(const struct job *job, const struct job_editing *editing,
                        struct error *error)
{
    const struct sweep_run *sweep = job->links ? job->links->sweep : NULL;
    const char *key = sweep && sweep->search && !editing->by_search
                          ? sweep_points_changed_key(sweep->sweep.values, editing->changes)
                          : NULL;
    long long id = job->id;

    if (!key)
        return 0;
    return error_set(error, -EBUSY,
                     "job %lld is a trial of a search, which chose its %s: `trainctl resubmit %lld "
                     "--set %s=VALUE` queues a job beside the search",
                     id, key, id, key);
}

static int check_job(struct jobs *jobs, struct job_editing *editing, struct edited_job *edited,
                     struct error *error)
{
    const struct job *job = find_live(jobs, edited->id);
    const struct job_edit *edit = &edited->edit;
    struct job_edit_target target;
    int result;

    if (!job) {
        edited->live = false;
        editing->refused_state =
            JOB_CANCELLED; /* a frozen job ends by Cancel alone, or by itself */
        return error_set(error, -EBUSY, "job %lld has just ended", (long long)edited->id);
    }
    editing->refused_state = (enum job_state)job->state;
    if (!*edit->change)
        return 0;
    target = describe(jobs, job);
    target.by_search = editing->by_search;
    result = check_search(job, editing, error);
    if (result == 0)
        result = job_edit_check(edit, &target, error);
    if (result == 0 && edit->priority)
        result = job_priority_check(edit->entry.submission.priority, editing->priority_max,
                                    &editing->fault, error);
    if (result == 0 && edit->at)
        result = job_at_check(edit->entry.has_at, edit->entry.submission.at, clock_now(),
                              &editing->fault, error);
    if (result == 0 && (edit->needs || edit->work))
        result = check_needs(jobs, job, editing, edit, error);
    return result;
}

static int check(struct jobs *jobs, struct job_editing *editing, struct error *error)
{
    int result = 0;

    for (size_t i = 0; i < editing->count && result == 0; i++) {
        editing->refused = editing->jobs[i].id;
        result = check_job(jobs, editing, &editing->jobs[i], error);
    }
    return result;
}

/* ---- in effect ------------------------------------------------------------------------------- */

static void change_group(struct jobs *jobs, struct job *job, const char *name)
{
    struct job_links *links = job_links_of(job);

    group_leave(jobs, job);
    links->group = name ? group_find(jobs, job->uid, name, true) : NULL;
    if (links->group && runs(job))
        group_restore(links->group, job); /* it keeps its device, whatever the limit is */
}

static void change_work(struct jobs *jobs, struct job *job, const struct job_edit *edit)
{
    struct workload *workload = workload_take(jobs->workloads, job->uid, (enum job_kind)job->kind,
                                              edit->entry.submission.plan_digest);

    if (!workload)
        memory_exhausted(0); /* the change is stored already */
    workload_drop(jobs->workloads, job->workload);
    job->workload = workload;
    if (workload->references == 1)
        history_load(jobs, workload, job->id);
}

static void change_needs(struct jobs *jobs, struct job *job, const struct job_edit *edit)
{
    struct job_needs *needs = needs_take(jobs, job, edit);

    if (!needs)
        memory_exhausted(0);
    job_needs_drop(jobs->needs, job->needs);
    job->needs = needs;
}

/* What a running job reads of its specification beside its process. */
static void change_attempt(struct job *job, const struct job_edit *edit)
{
    if (job->details) {
        job->details->time_limit = edit->time_limit_seconds;
        job->details->retry_limit = edit->retry_limit;
        job->details->backoff_seconds = edit->backoff_seconds;
    }
    if (!edit->time_limit)
        return;
    job->attempt->time_limit = edit->time_limit_seconds;
    if (job->attempt->started > 0 && job->attempt->intent == ENDING_NONE)
        attempt_deadline_start(job->attempt, job->attempt->started);
}

static void put_in_effect(struct jobs *jobs, struct job *job, const struct job_edit *edit)
{
    job->priority = edit->entry.submission.priority;
    job->put_first = edit->entry.submission.put_first;
    job->notifies = edit->entry.submission.notifies;
    if (edit->group)
        change_group(jobs, job, edit->entry.group);
    if (edit->needs)
        change_needs(jobs, job, edit);
    if (edit->work)
        change_work(jobs, job, edit);
    if (edit->at) {
        job_start_at(jobs, job, edit->entry.submission.at);
        if (job->wait_reason == WAIT_TIME)
            job->wait_reason = WAIT_NONE; /* the sentence has the old time */
    }
    if (runs(job)) {
        change_attempt(job, edit);
    } else { /* they are read anew before its start */
        job_details_free(job->details);
        job->details = NULL;
        job->outdated = job->loading;
    }
}

/* Lets the jobs start again; result 0: with the changes, which are stored. */
static void thaw_all(struct job_editing *editing, int result)
{
    struct jobs *jobs = editing->daemon->jobs;

    for (size_t i = 0; i < editing->count && !jobs->stopping; i++) {
        const struct edited_job *edited = &editing->jobs[i];
        struct job *job = edited->frozen ? find_live(jobs, edited->id) : NULL;

        if (job && result == 0 && *edited->edit.change)
            put_in_effect(jobs, job, &edited->edit);
        if (job)
            thaw(jobs, job, &edited->edit);
        if (result == 0 && *edited->edit.change)
            watches_job_changed(&editing->daemon->watches, edited->id);
    }
    if (!jobs->stopping) {
        graph_settle_soon(jobs);
        jobs_plan(jobs);
        jobs_dispatch(jobs);
    }
}

static void finish(struct job_editing *editing, int result, const struct error *error)
{
    thaw_all(editing, result);
    editing->done(editing, result, error);
}

/* ---- the request ----------------------------------------------------------------------------- */

static int store_work_edits(struct store_connection *connection, void *data, struct error *error)
{
    struct job_editing *editing = data;
    int result = editing->also ? editing->also(connection, editing->data, error) : 0;

    for (size_t i = 0; i < editing->count && result == 0; i++) {
        struct edited_job *edited = &editing->jobs[i];

        if (!*edited->edit.change)
            continue;
        result = job_edit_store(connection, edited->id, &edited->edit, editing->uid, editing->user,
                                editing->time, error);
        if (result == -EBUSY)
            editing->refused = edited->id;
    }
    return result;
}

static void on_stored(void *data, int result, const struct error *error)
{
    finish(data, result, error);
}

static void on_prepared(void *data, int result, const struct error *error)
{
    struct job_editing *editing = data;
    struct jobs *jobs = editing->daemon->jobs;
    struct error refusal = {0};

    if (result < 0 || jobs->stopping) {
        finish(editing, result, error);
        return;
    }
    result = check(jobs, editing, &refusal);
    if (result < 0) {
        finish(editing, result, &refusal);
        return;
    }
    editing->time = clock_now();
    store_write(editing->daemon->store, store_work_edits, on_stored, editing);
}

int jobs_edit_reserve(struct daemon *daemon, struct job_editing *editing, struct error *error)
{
    int result;

    editing->daemon = daemon;
    result = freeze(daemon->jobs, editing, error);
    if (result < 0)
        thaw_all(editing, result);
    editing->reserved = result == 0;
    return result;
}

void jobs_edit_give_up(struct job_editing *editing, int result, const struct error *error)
{
    finish(editing, result, error);
}

void jobs_edit(struct daemon *daemon, struct job_editing *editing)
{
    struct error error = {0};
    int result = editing->reserved ? 0 : jobs_edit_reserve(daemon, editing, &error);

    if (result < 0)
        editing->done(editing, result, &error);
    else
        store_read(daemon->store, prepare_work, on_prepared, editing);
}

void jobs_edit_release(struct job_editing *editing)
{
    for (size_t i = 0; i < editing->count; i++)
        job_edit_release(&editing->jobs[i].edit);
    free(editing->user);
}
