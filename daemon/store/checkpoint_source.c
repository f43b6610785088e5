/* checkpoint_source.c: see checkpoint_source.h. */
#include "daemon/store/checkpoint_source.h"

#include "daemon/store/statement.h"
#include "daemon/types/job_types.h"

static const char select_job[] =
    "SELECT uid, state,"
    " EXISTS (SELECT 1 FROM attempt WHERE attempt.job = job.id AND attempt.ended IS NULL)"
    " FROM job WHERE id = :job";

static int job_look(struct store_connection *connection, const struct checkpoint_source *source,
                    uid_t *owner, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_job, error);
    enum job_state state;

    statement_bind_int(&row, ":job", source->job);
    if (statement_next(&row) < 0)
        return row.result;
    if (row.result == 0)
        return error_set(error, -ERROR_STALE_FILE, "there is no job %lld to take weights from",
                         (long long)source->job);
    *owner = (uid_t)statement_int(&row, 0);
    if (*owner != source->asker && source->asker != 0)
        return error_set(error, -ERROR_STALE_FILE,
                         "job %lld is another user's: only that user and root may take its weights",
                         (long long)source->job);
    state = (enum job_state)statement_choice(&row, 1, job_state_from_string, JOB_QUEUED);
    if (!job_state_is_final(state))
        return error_set(error, -ERROR_STALE_FILE,
                         "job %lld has not ended (%s); submit the job that begins with its weights "
                         "once it has",
                         (long long)source->job, job_state_to_string(state));
    if (statement_int(&row, 2)) /* it may write another checkpoint */
        return error_set(error, -ERROR_STALE_FILE,
                         "job %lld is %s, but its last attempt is still ending; submit the job "
                         "that begins with its weights once that has ended",
                         (long long)source->job, job_state_to_string(state));
    return 0;
}

static const char select_checkpoint[] =
    "SELECT id, attempt, step, bytes, location = 'database', digest, path FROM checkpoint"
    " WHERE job = :job AND (:step < 0 OR step = :step)"
    " ORDER BY best AND NOT :newest DESC, step DESC, id DESC LIMIT 1";

int checkpoint_source_find(struct store_connection *connection,
                           const struct checkpoint_source *source, struct stored_checkpoint *found,
                           struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_checkpoint, error);
    int result = job_look(connection, source, &found->uid, error);

    if (result < 0)
        return result;
    statement_bind_int(&row, ":job", source->job);
    statement_bind_int(&row, ":step", source->step);
    statement_bind_int(&row, ":newest", source->newest);
    if (statement_next(&row) < 0)
        return row.result;
    if (row.result == 0 && source->step >= 0)
        return error_set(error, -ERROR_STALE_FILE,
                         "job %lld has no checkpoint of step %lld; `trainctl checkpoints %lld` "
                         "lists those that are kept",
                         (long long)source->job, (long long)source->step, (long long)source->job);
    if (row.result == 0)
        return error_set(error, -ERROR_STALE_FILE, "job %lld has no checkpoint",
                         (long long)source->job);
    found->id = statement_int(&row, 0);
    found->attempt = statement_int(&row, 1);
    found->step = statement_int(&row, 2);
    found->bytes = statement_int(&row, 3);
    found->in_database = statement_int(&row, 4) != 0;
    statement_copy_text(&row, 5, found->digest, sizeof found->digest);
    statement_copy_text(&row, 6, found->path, sizeof found->path);
    return 0;
}
