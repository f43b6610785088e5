/* job_insert.c: see job_insert.h. */
#include "daemon/store/job_insert.h"

#include "daemon/store/dependency_rows.h"
#include "daemon/work/job_rules.h"

#include <errno.h>

/* Why it waits at first; what it depends on comes later. */
static void first_reason(const struct job_submission *submission, enum wait_reason *wait_reason,
                         const char **sentence)
{
    *wait_reason = submission->held                 ? WAIT_HELD
                   : submission->kind == JOB_NATIVE ? WAIT_PLANNING
                                                    : WAIT_DEVICE_BUSY;
    *sentence = submission->held                 ? JOB_HELD_SENTENCE
                : submission->kind == JOB_NATIVE ? "waits for its plan"
                                                 : "waits for its turn";
}

static int entry_insert(struct store_connection *connection, struct job_entry *entry,
                        const char *user, double time, struct error *error)
{
    sqlite3_stmt *job = store_statement(
        connection,
        "INSERT INTO job (name, kind, uid, user, priority, spec, plan_digest, wait_reason,"
        "  submitted, reason, held, job_group, sweep, notifies, id, state, ended)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
    struct job_submission *submission = &entry->submission;
    bool ended = entry->final_state != JOB_QUEUED;
    const char *state = job_state_to_string(entry->final_state);
    enum wait_reason wait_reason;
    sqlite3_stmt *transition;
    const char *sentence;
    int result;

    if (!job)
        return -EIO;
    first_reason(submission, &wait_reason, &sentence);
    sqlite3_bind_text(job, 1, entry->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(job, 2, job_kind_to_string(submission->kind), -1, SQLITE_STATIC);
    store_bind_int(job, 3, submission->uid);
    sqlite3_bind_text(job, 4, user, -1, SQLITE_STATIC);
    store_bind_int(job, 5, submission->priority);
    sqlite3_bind_text(job, 6, entry->spec, -1, SQLITE_STATIC);
    store_bind_text(job, 7, *submission->plan_digest ? submission->plan_digest : NULL);
    if (!ended)
        sqlite3_bind_text(job, 8, wait_reason_to_string(wait_reason), -1, SQLITE_STATIC);
    store_bind_double(job, 9, time);
    sqlite3_bind_text(job, 10, ended ? entry->final_reason : sentence, -1, SQLITE_STATIC);
    store_bind_int(job, 11, submission->held);
    store_bind_text(job, 12, entry->group);
    if (entry->sweep)
        store_bind_int(job, 13, entry->sweep);
    store_bind_int(job, 14, submission->notifies);
    if (submission->id)
        store_bind_int(job, 15, submission->id);
    sqlite3_bind_text(job, 16, state, -1, SQLITE_STATIC);
    if (ended)
        store_bind_double(job, 17, time);
    result = store_statement_run(job, error);
    if (result < 0)
        return result;
    submission->id = sqlite3_last_insert_rowid(store_database(connection));

    transition = store_statement(
        connection, "INSERT INTO transition (job, time, to_state, reason) VALUES (?, ?, ?, ?)",
        error);
    if (!transition)
        return -EIO;
    store_bind_int(transition, 1, submission->id);
    store_bind_double(transition, 2, time);
    store_bind_text(transition, 3, state);
    store_bind_text(transition, 4, entry->final_reason);
    return store_statement_run(transition, error);
}

int job_row_exists(struct store_connection *connection, int64_t id, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, "SELECT 1 FROM job WHERE id = ?", error);
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    return result;
}

/* The row says what it waits for, unless it is held. */
static int dependency_reason_store(struct store_connection *connection,
                                   const struct job_submission *submission, struct error *error)
{
    sqlite3_stmt *statement;
    char sentence[JOB_REASON_MAX];

    statement = store_statement(
        connection,
        "UPDATE job SET wait_reason = 'dependency', reason = ? WHERE id = ? AND NOT held", error);
    if (!statement)
        return -EIO;
    store_bind_text(statement, 1,
                    dependencies_describe(submission->dependencies.list,
                                          submission->dependencies.count, sentence,
                                          sizeof sentence));
    store_bind_int(statement, 2, submission->id);
    return store_statement_run(statement, error);
}

/* The rows of this call are there already, but a guess at a number of theirs is no name for them:
 * it would go round the check for circles. */
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
