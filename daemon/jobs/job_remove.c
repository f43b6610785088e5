/* job_remove.c: see job_remove.h. One transaction removes the rows. The folders, which no call
 * reaches without the rows, are removed after it (attempts/removed_folders.h). */
#include "daemon/jobs/job_remove.h"

#include "daemon/attempts/attempt.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/attempts/removed_folders.h"
#include "daemon/context/context.h"
#include "daemon/jobs/code_snapshots.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/checkpoint_purge.h"
#include "daemon/store/store.h"
#include "daemon/store/unswept_attempt_rows.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>

static int remove_work(struct store_connection *connection, void *data, struct error *error)
{
    struct job_removal *removal = data;

    return job_rows_remove(connection, &removal->rows, error);
}

static void on_removed(void *data, int result, const struct error *error)
{
    struct job_removal *removal = data;
    struct daemon *daemon = removal->daemon;
    struct removed_job *jobs = removal->rows.jobs;
    size_t count = removal->rows.count;
    bool checkpoints_only = removal->rows.checkpoints_only;

    for (size_t i = 0; i < count && result == 0; i++)
        watches_job_changed(&daemon->watches, removal->rows.ids[i]);
    removal->rows.jobs = NULL;
    removal->done(removal, result, error);
    if (result == 0)
        checkpoints_purge(&daemon->checkpoint_purge);
    if (result == 0 && !checkpoints_only) {
        removed_folders_tidy(daemon);
        code_snapshots_tidy(daemon);
    }
    for (size_t i = 0; i < count && result == 0 && checkpoints_only; i++)
        for (int64_t attempt = 1; attempt <= jobs[i].attempts; attempt++)
            checkpoint_sweep(daemon, jobs[i].id, attempt);
    free(jobs);
}

void jobs_remove(struct daemon *daemon, struct job_removal *removal)
{
    struct error error = {0};

    removal->daemon = daemon;
    removal->rows.jobs = calloc(removal->rows.count + 1, sizeof *removal->rows.jobs);
    if (!removal->rows.jobs) {
        error_no_memory(&error, "the jobs to remove");
        removal->done(removal, -ENOMEM, &error);
        return;
    }
    /* a job may have many rows of metrics */
    store_write_bulk(daemon->store, (unsigned)removal->rows.count * 100, remove_work, on_removed,
                     removal);
}

/* ---- the checkpoints of a job that is done --------------------------------------------------- */

struct thinning {
    struct daemon *daemon;
    int64_t job, attempt, kept;
};

static int thin_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct thinning *thinning = data;
    int result = checkpoints_thin(connection, thinning->job, thinning->kept, error);

    return result < 0 ? result
                      : unswept_attempts_note(connection, thinning->job, thinning->attempt, error);
}

static void on_thinned(void *data, int result, const struct error *error)
{
    struct thinning *thinning = data;

    (void)result; /* a failure only leaves files on the disk */
    (void)error;
    checkpoints_purge(&thinning->daemon->checkpoint_purge);
    for (int64_t attempt = 1; attempt <= thinning->attempt; attempt++)
        checkpoint_sweep(thinning->daemon, thinning->job, attempt);
    free(thinning);
}

void job_keep_last_checkpoints(struct daemon *daemon, int64_t job, int64_t attempt, int64_t kept)
{
    struct thinning *thinning = malloc(sizeof *thinning);

    if (!thinning)
        return;
    *thinning = (struct thinning){daemon, job, attempt, kept};
    store_write_soon(daemon->store, thin_work, on_thinned, thinning);
}
