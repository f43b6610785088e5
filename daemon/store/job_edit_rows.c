/* job_edit_rows.c: see job_edit_rows.h. */
#include "daemon/store/job_edit_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/job_insert.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"
#include "daemon/store/transition_rows.h"

#include <errno.h>
#include <stdio.h>

static const char update_job[] =
    "UPDATE job SET name = :name, priority = :priority, spec = :spec, plan_digest = :plan_digest,"
    "  job_group = :job_group, notifies = :notifies, put_first = :put_first,"
    "  weights_job = :weights_job"
    " WHERE id = :job AND " SQL_LIVE;

static int row_update(struct store_connection *connection, int64_t id, const struct job_edit *edit,
                      struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_job, error);
    const struct job_entry *entry = &edit->entry;

    statement_bind_text(&statement, ":name", entry->name);
    statement_bind_int(&statement, ":priority", entry->submission.priority);
    statement_bind_text(&statement, ":spec", entry->spec);
    statement_bind_text(&statement, ":plan_digest",
                        *entry->submission.plan_digest ? entry->submission.plan_digest : NULL);
    statement_bind_text(&statement, ":job_group", entry->group);
    statement_bind_int(&statement, ":notifies", entry->submission.notifies);
    statement_bind_double(&statement, ":put_first", entry->submission.put_first);
    statement_bind_known(&statement, ":weights_job", entry->weights_job, 0);
    statement_bind_int(&statement, ":job", id);
    if (statement_run(&statement) == 0 && statement_changes(&statement) == 0)
        return error_set(error, -EBUSY, "job %lld has just ended", (long long)id);
    return statement.result;
}

static const char update_reason[] =
    "UPDATE job SET wait_reason = :wait_reason, reason = :reason"
    " WHERE id = :job AND state = 'queued' AND wait_reason = 'time'";

/* Renews the sentence of a job that waits for its time, so that nobody is told the time before. */
static int reason_update(struct store_connection *connection, int64_t id,
                         const struct job_edit *edit, double time, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_reason, error);
    struct job_submission submission = edit->entry.submission;
    char sentence[JOB_REASON_MAX];
    enum wait_reason wait_reason;

    submission.held = false; /* else it would wait for that */
    job_first_reason(&submission, time, &wait_reason, sentence);
    statement_bind_text(&statement, ":wait_reason", wait_reason_to_string(wait_reason));
    statement_bind_text(&statement, ":reason", sentence);
    statement_bind_int(&statement, ":job", id);
    return statement_run(&statement);
}

/* The owner's own edits do not name them. */
static const char insert_edit[] =
    "INSERT INTO transition (job, time, from_state, to_state, reason)"
    " SELECT id, :time, state, state,"
    "   'edited' || CASE WHEN uid = :uid THEN '' ELSE ' by ' || coalesce(:user, :uid) END || ': '"
    "   || :change"
    "  FROM job WHERE id = :job";

int job_edit_store(struct store_connection *connection, int64_t id, const struct job_edit *edit,
                   uid_t uid, const char *user, double time, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_edit, error);
    int result = row_update(connection, id, edit, error);

    if (result == 0 && edit->at)
        result = reason_update(connection, id, edit, time, error);
    if (result < 0)
        return result;
    statement_bind_double(&statement, ":time", time);
    statement_bind_int(&statement, ":uid", uid);
    statement_bind_text(&statement, ":user", user);
    statement_bind_text(&statement, ":change", edit->change);
    statement_bind_int(&statement, ":job", id);
    return statement_run(&statement);
}

static const char select_edits[] =
    "SELECT * FROM (SELECT time, from_state, to_state, reason, id FROM transition"
    "  WHERE job = :job AND from_state = to_state ORDER BY id DESC LIMIT 100)"
    " ORDER BY id";

int job_edits_read(struct store_connection *connection, int64_t id, struct json_object *edits,
                   struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_edits, error);

    statement_bind_int(&rows, ":job", id);
    return transitions_take(&rows, edits);
}
