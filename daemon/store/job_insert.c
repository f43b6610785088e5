/* job_insert.c: see job_insert.h. */
#include "daemon/store/job_insert.h"

#include "daemon/store/dependency_rows.h"
#include "daemon/store/statement.h"
#include "daemon/store/transition_rows.h"
#include "daemon/work/job_rules.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

void job_first_reason(const struct job_submission *submission, double time,
                      enum wait_reason *wait_reason, char sentence[JOB_REASON_MAX])
{
    *wait_reason = submission->held                 ? WAIT_HELD
                   : submission->at > time          ? WAIT_TIME
                   : submission->kind == JOB_NATIVE ? WAIT_PLANNING
                                                    : WAIT_DEVICE_BUSY;
    if (*wait_reason == WAIT_TIME)
        job_at_describe(submission->at, sentence, JOB_REASON_MAX);
    else
        snprintf(sentence, JOB_REASON_MAX, "%s",
                 submission->held                 ? JOB_HELD_SENTENCE
                 : submission->kind == JOB_NATIVE ? "waits for its plan"
                                                  : "waits for its turn");
}

static const char insert_job[] =
    "INSERT INTO job (id, name, kind, state, uid, user, priority, spec, plan_digest, wait_reason,"
    "  reason, submitted, ended, held, job_group, sweep, notifies, snapshot,"
    "  put_first, weights_job)"
    " VALUES (:id, :name, :kind, :state, :uid, :user, :priority, :spec, :plan_digest, :wait_reason,"
    "  :reason, :submitted, :ended, :held, :job_group, :sweep, :notifies, :snapshot,"
    "  :put_first, :weights_job)";

/* Inserts the row. It gets the id of the submission if that has one, else the next free id. */
static int row_insert(struct store_connection *connection, struct job_entry *entry,
                      const char *user, double time, struct error *error)
{
    AUTO_STATEMENT struct statement job = statement_open(connection, insert_job, error);
    struct job_submission *submission = &entry->submission;
    bool ended = entry->final_state != JOB_QUEUED;
    enum wait_reason wait_reason;
    char sentence[JOB_REASON_MAX];

    job_first_reason(submission, time, &wait_reason, sentence);
    statement_bind_known(&job, ":id", submission->id, 0);
    statement_bind_text(&job, ":name", entry->name);
    statement_bind_text(&job, ":kind", job_kind_to_string(submission->kind));
    statement_bind_text(&job, ":state", job_state_to_string(entry->final_state));
    statement_bind_int(&job, ":uid", submission->uid);
    statement_bind_text(&job, ":user", user);
    statement_bind_int(&job, ":priority", submission->priority);
    statement_bind_text(&job, ":spec", entry->spec);
    statement_bind_text(&job, ":plan_digest",
                        *submission->plan_digest ? submission->plan_digest : NULL);
    statement_bind_text(&job, ":wait_reason", ended ? NULL : wait_reason_to_string(wait_reason));
    statement_bind_text(&job, ":reason", ended ? entry->final_reason : sentence);
    statement_bind_double(&job, ":submitted", time);
    statement_bind_double(&job, ":ended", ended ? time : NAN);
    statement_bind_int(&job, ":held", submission->held);
    statement_bind_text(&job, ":job_group", entry->group);
    statement_bind_known(&job, ":sweep", entry->sweep, 0);
    statement_bind_int(&job, ":notifies", submission->notifies);
    statement_bind_double(&job, ":put_first", submission->put_first);
    statement_bind_known(&job, ":weights_job", entry->weights_job, 0);
    statement_bind_text(&job, ":snapshot", *entry->snapshot ? entry->snapshot : NULL);
    if (statement_run(&job) == 0)
        submission->id = statement_row_id(&job);
    return job.result;
}

static int entry_insert(struct store_connection *connection, struct job_entry *entry,
                        const char *user, double time, struct error *error)
{
    int result = row_insert(connection, entry, user, time, error);

    return result < 0 ? result
                      : transition_insert(connection, entry->submission.id, time, NULL,
                                          job_state_to_string(entry->final_state),
                                          entry->final_reason, error);
}

static const char update_reason[] =
    "UPDATE job SET wait_reason = 'dependency', reason = :reason WHERE id = :job AND NOT held";

/* Makes the job's reason name its open dependencies. */
static int dependency_reason_store(struct store_connection *connection,
                                   const struct job_submission *submission, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_reason, error);
    char sentence[JOB_REASON_MAX];

    statement_bind_text(&statement, ":reason",
                        dependencies_describe(submission->dependencies.list,
                                              submission->dependencies.count, sentence,
                                              sizeof sentence));
    statement_bind_int(&statement, ":job", submission->id);
    return statement_run(&statement);
}

/* A job may name another job of this call only by {"index": N}. A guessed id, whose row exists
 * already, would bypass the check for cycles. */
static int dependencies_resolve(struct dependencies *dependencies, const struct job_entry *entries,
                                int64_t *missing, struct error *error)
{
    for (size_t i = 0; i < dependencies->count; i++) {
        struct dependency *dependency = &dependencies->list[i];

        if (dependency->index >= 0) {
            dependency->on_job = entries[dependency->index].submission.id;
        } else if (dependency->on_job >= entries[0].submission.id) {
            *missing = dependency->on_job;
            return error_set(error, -ENOENT,
                             "there is no job %lld to wait for; a job can wait for one that was "
                             "submitted before it, or for {\"index\": N} of the same call",
                             (long long)dependency->on_job);
        }
    }
    return 0;
}

static int entry_insert_dependencies(struct store_connection *connection,
                                     const struct job_entry *entries, struct job_entry *entry,
                                     int64_t *missing, struct error *error)
{
    struct dependencies *dependencies = &entry->submission.dependencies;
    bool open = false;
    int result = dependencies_resolve(dependencies, entries, missing, error);

    if (result < 0)
        return result;
    result = dependencies_insert(connection, entry->submission.id, dependencies, missing, error);
    for (size_t i = 0; i < dependencies->count; i++)
        open = open || dependency_judge(dependencies->list[i].condition,
                                        dependencies->list[i].state) != DEPENDENCY_MET;
    return result == 0 && open ? dependency_reason_store(connection, &entry->submission, error)
                               : result;
}

int job_entries_insert(struct store_connection *connection, struct job_entry *entries, size_t count,
                       const char *user, double time, size_t *culprit, int64_t *missing,
                       struct error *error)
{
    int result = 0;

    for (size_t i = 0; i < count && result == 0; i++)
        result = entry_insert(connection, &entries[i], user, time, error);
    for (size_t i = 0; i < count && result == 0; i++) {
        *culprit = i;
        if (entries[i].submission.dependencies.count && entries[i].final_state == JOB_QUEUED)
            result = entry_insert_dependencies(connection, entries, &entries[i], missing, error);
    }
    return result;
}
