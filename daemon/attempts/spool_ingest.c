/* spool_ingest.c: see spool_ingest.h. When the kernel notifies of a write, or the trainee has
 * ended, the thread pool reads and parses a batch. The store's writer stores the batch, and then
 * the loop acts on it. One batch is under way at a time. Progress alone is not stored, so it costs
 * no commit. */
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/store/checkpoint_copy.h"
#include "daemon/store/checkpoint_removals.h"
#include "daemon/store/spool_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MILLISECONDS = 1000,
    WATCH_DELAY_MILLISECONDS = 80 /* the shim makes the spool 50 ms after the start */
};

static void spool_read_next(struct attempt *attempt);

void spool_ingest_init(struct spool_ingest *spool)
{
    spool->folder = spool->file = spool->copy.file = -1;
}

/* Frees the batch. */
static void batch_release(struct spool_ingest *spool)
{
    spool_batch_release(&spool->batch);
    checkpoint_removals_free(TAKE_POINTER(spool->removals));
    spool->stored = 0;
    spool->measured = spool->job_changed = false;
}

static void obsolete_free(struct spool_ingest *spool)
{
    for (size_t i = 0; i < spool->obsolete_count; i++)
        free(spool->obsolete[i].path);
    free(TAKE_POINTER(spool->obsolete));
    spool->obsolete_count = 0;
}

void spool_ingest_release(struct spool_ingest *spool)
{
    batch_release(spool);
    obsolete_free(spool); /* of one that was let go: checkpoint_sweep() removes the files later */
    checkpoint_copy_close(&spool->copy);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void remove_obsolete(struct attempt *attempt)
{
    struct spool_ingest *spool = &attempt->spool;

    for (size_t i = 0; i < spool->obsolete_count; i++) {
        struct obsolete_file *file = &spool->obsolete[i];
        AUTO_CLOSE int earlier = file->attempt == attempt->number
                                     ? -1
                                     : attempt_folder_open(attempt->daemon->state_directory,
                                                           attempt->job_id, file->attempt, NULL);
        int folder = file->attempt == attempt->number ? spool->folder : earlier;

        if (folder >= 0)
            attempt_folder_remove_file(folder, file->path);
    }
    obsolete_free(spool);
}

static void read_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;
    struct spool_ingest *spool = &attempt->spool;

    spool->error = (struct error){0};
    spool->batch = (struct spool_batch){.after = spool->position};
    if (spool->folder < 0)
        spool->folder = attempt_folder_open(attempt->daemon->state_directory, attempt->job_id,
                                            attempt->number, &spool->error);
    if (spool->folder < 0)
        return;
    remove_obsolete(attempt);
    if (spool->file < 0)
        spool->file = attempt_folder_open_file(spool->folder, "spool", attempt->uid, &spool->error);
    if (spool->file < 0) {
        if (spool->error.code == -ENOENT) /* nothing has been written */
            spool->error.code = 0;
        return;
    }
    spool_read(spool->file, &spool->position, spool->to_the_end, &spool->batch, &spool->error);
}

static void complain(struct attempt *attempt)
{
    struct spool_ingest *spool = &attempt->spool;

    if (spool->batch.skipped > 0 && spool->complaints < SPOOL_COMPLAINTS_MAX) {
        spool->complaints++;
        log_warning("job %lld, attempt %lld: the spool has %lld bad lines that are skipped; %s%s",
                    (long long)attempt->job_id, (long long)attempt->number,
                    (long long)spool->batch.skipped, spool->batch.complaint,
                    spool->complaints == SPOOL_COMPLAINTS_MAX ? "; no more of this is reported"
                                                              : "");
    }
    if (spool->batch.gap > 0 && spool->complaints < SPOOL_COMPLAINTS_MAX) {
        spool->complaints++;
        log_warning("job %lld, attempt %lld: %lld records are missing before record %lld",
                    (long long)attempt->job_id, (long long)attempt->number,
                    (long long)spool->batch.gap, (long long)spool->batch.after.n);
    }
}

/* Acts on a batch that is stored or needed no storing. */
static void batch_done(struct attempt *attempt)
{
    struct spool_ingest *spool = &attempt->spool;
    bool measured = spool->measured, job_changed = spool->job_changed;
    bool more = spool->batch.more || spool->again || spool->obsolete_count > 0;
    bool heard = spool->batch.count > 0;

    complain(attempt);
    for (size_t i = 0; i < spool->batch.count; i++)
        attempt_report_take(attempt, &spool->batch.records[i]);
    spool->position = spool->batch.after;
    batch_release(spool);
    spool->busy = spool->again = false;
    if (measured && attempt->events->metrics_stored)
        attempt->events->metrics_stored(attempt);
    if (!attempt->planning) {
        if (measured)
            watches_job_measured(&attempt->daemon->watches, attempt->job_id);
        if (job_changed)
            watches_job_changed(&attempt->daemon->watches, attempt->job_id);
        if (heard)
            watches_job_progressed(&attempt->daemon->watches, attempt->job_id);
    }
    if (more)
        spool_read_next(attempt);
    else if (spool->finishing)
        attempt->events->ended(attempt);
}

/* ---- storing --------------------------------------------------------------------------------- */

struct store_request {
    struct spool_store store; /* first, because spool_store_work() gets its address */
    struct attempt *attempt;
};

/* Hands in the next slice of the batch. */
static void batch_store(struct attempt *attempt);

static void on_store_retry(uv_timer_t *timer)
{
    batch_store(timer->data);
}

static void on_spool_handle_closed(uv_handle_t *handle)
{
    struct attempt *attempt = handle->data;

    attempt->open_handles--;
    attempt_release(attempt);
}

static void try_again_later(struct attempt *attempt, uv_timer_cb try, const char *what,
                            const struct error *error)
{
    static struct log_throttle throttle; /* one for all jobs: they share the machine */
    char note[LOG_NOTE_MAX];
    struct spool_ingest *spool = &attempt->spool;

    if (log_throttle_pass(&throttle, error->code, note))
        log_error("job %lld: its records cannot be %s and wait in the spool: %s%s",
                  (long long)attempt->job_id, what, error->text, note);
    if (!spool->retry_open) {
        uv_timer_init(attempt->daemon->loop, &spool->retry);
        spool->retry.data = attempt;
        spool->retry_open = true;
        attempt->open_handles++;
    }
    uv_timer_start(&spool->retry, try, RETRY_MILLISECONDS, 0);
}

/* Notes the slice's obsolete files; they are removed before the next batch is read. */
static void obsolete_take(struct spool_ingest *spool, struct spool_store *stored)
{
    size_t count = spool->obsolete_count + stored->obsolete_count;
    struct obsolete_file *grown;

    if (stored->obsolete_count == 0)
        return;
    grown = realloc(spool->obsolete, count * sizeof *grown);
    if (!grown) { /* checkpoint_sweep() removes them later */
        spool_store_release(stored);
        return;
    }
    memcpy(grown + spool->obsolete_count, stored->obsolete, stored->obsolete_count * sizeof *grown);
    spool->obsolete = grown;
    spool->obsolete_count = count;
    free(TAKE_POINTER(stored->obsolete));
    stored->obsolete_count = 0;
}

static void slice_stored(struct attempt *attempt, struct spool_store *stored)
{
    struct spool_ingest *spool = &attempt->spool;

    obsolete_take(spool, stored);
    spool->stored = stored->next;
    spool->copy = stored->copy;
    if (!spool->copy.under_way)
        checkpoint_copy_close(&spool->copy);
    spool->checkpoint_complaints = stored->complaints;
    spool->measured |= stored->measured;
    spool->job_changed |= stored->job_changed;
    if (stored->dropped)
        checkpoints_purge(&attempt->daemon->checkpoint_purge);
    if (stored->finished)
        batch_done(attempt);
    else
        batch_store(attempt);
}

/* Undoes a slice that failed, because the next try opens its files anew. */
static void slice_undo(struct spool_ingest *spool, struct spool_store *undone)
{
    if (undone->copy.file != spool->copy.file)
        checkpoint_copy_close(&undone->copy);
    spool_store_release(undone);
}

static void on_stored(void *data, int result, const struct error *error)
{
    struct store_request *request = data;
    struct attempt *attempt = request->attempt;
    struct spool_ingest *spool = &attempt->spool;

    if (attempt->detached) {
        slice_undo(spool, &request->store);
        spool->busy = false;
        attempt_release(attempt);
    } else if (result < 0) {
        slice_undo(spool, &request->store);
        try_again_later(attempt, on_store_retry, "stored", error);
    } else {
        slice_stored(attempt, &request->store);
    }
    free(request);
}

struct checkpoint_limits checkpoint_limits_configured(const struct config *config)
{
    return (struct checkpoint_limits){.database = config->database_limit_bytes,
                                      .per_attempt = config->checkpoints_per_attempt,
                                      .per_user = config->checkpoints_per_user,
                                      .bytes_per_attempt = config->checkpoint_bytes_per_attempt,
                                      .bytes_per_user = config->checkpoint_bytes_per_user};
}

static void batch_store(struct attempt *attempt)
{
    struct store_request *request = memory_zero(sizeof *request);

    request->attempt = attempt;
    request->store = (struct spool_store){
        .job = attempt->job_id,
        .attempt = attempt->number,
        .uid = attempt->uid,
        .folder = attempt->spool.folder,
        .limits = checkpoint_limits_configured(&attempt->daemon->config),
        .batch = &attempt->spool.batch,
        .next = attempt->spool.stored,
        .removals = &attempt->spool.removals,
        .copy = attempt->spool.copy,
        .complaints = attempt->spool.checkpoint_complaints,
        .complains = attempt->spool.complaints < SPOOL_COMPLAINTS_MAX,
    };
    store_write_bulk(attempt->daemon->store, spool_store_cost(&request->store), spool_store_work,
                     on_stored, request);
}

static void on_read_retry(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;

    attempt->spool.busy = false;
    spool_read_next(attempt);
}

static void on_read(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;
    struct spool_ingest *spool = &attempt->spool;

    (void)status;
    if (attempt->detached) {
        spool->busy = false;
        attempt_release(attempt);
        return;
    }
    if (file_opens_later(spool->error.code)) {
        try_again_later(attempt, on_read_retry, "read", &spool->error);
        return;
    }
    if (spool->error.code < 0 && spool->complaints++ < SPOOL_COMPLAINTS_MAX)
        log_warning("job %lld, attempt %lld: %s", (long long)attempt->job_id,
                    (long long)attempt->number, spool->error.text);
    if (spool_store_needed(&spool->batch))
        batch_store(attempt);
    else
        batch_done(attempt);
}

static void spool_read_next(struct attempt *attempt)
{
    struct spool_ingest *spool = &attempt->spool;

    if (spool->busy) {
        spool->again = true;
        return;
    }
    spool->busy = true;
    spool->to_the_end = spool->finishing; /* a copy for the thread */
    spool->work.data = attempt;
    daemon_queue_work(attempt->daemon, &spool->work, read_work, on_read);
}

/* ---- following ------------------------------------------------------------------------------- */

static void on_spool_changed(uv_fs_event_t *watch, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    if (status == 0)
        spool_read_next(watch->data);
}

/* Tries to watch the spool. False: it does not exist yet. */
static bool watch_start(struct attempt *attempt)
{
    struct spool_ingest *spool = &attempt->spool;
    struct error error;
    AUTO_CLOSE int file = attempt_open_file(attempt->daemon->state_directory, attempt->job_id,
                                            attempt->number, attempt->uid, "spool", &error);
    char path[32];
    int result;

    if (file == -ENOENT)
        return false;
    /* watches the opened file, not a file or link that the user may have put in its place since */
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (!spool->watching) {
        uv_fs_event_init(attempt->daemon->loop, &spool->watch);
        spool->watch.data = attempt;
        spool->watching = true;
        attempt->open_handles++;
    }
    result = file < 0 ? 0 : uv_fs_event_start(&spool->watch, on_spool_changed, path, 0);
    if (result < 0)
        error_set(&error, result, "%s", uv_strerror(result));
    if (file < 0 || result < 0)
        log_warning("job %lld: its spool cannot be watched and is read at the end only: %s",
                    (long long)attempt->job_id, error.text);
    spool_read_next(attempt);
    return true;
}

static void on_begin(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;

    if (!watch_start(attempt))
        uv_timer_start(timer, on_begin, WATCH_DELAY_MILLISECONDS, 0);
}

void spool_ingest_begin(struct attempt *attempt, bool just_started)
{
    struct spool_ingest *spool = &attempt->spool;

    if (spool->watching || spool->beginning_open || attempt->claim.gone)
        return;
    if (!just_started && watch_start(attempt))
        return;
    uv_timer_init(attempt->daemon->loop, &spool->beginning);
    spool->beginning.data = attempt;
    spool->beginning_open = true;
    attempt->open_handles++;
    uv_timer_start(&spool->beginning, on_begin, WATCH_DELAY_MILLISECONDS, 0);
}

static void watch_close(struct attempt *attempt)
{
    if (attempt->spool.beginning_open) {
        attempt->spool.beginning_open = false;
        uv_close((uv_handle_t *)&attempt->spool.beginning, on_spool_handle_closed);
    }
    if (!attempt->spool.watching)
        return;
    attempt->spool.watching = false;
    uv_close((uv_handle_t *)&attempt->spool.watch, on_spool_handle_closed);
}

void spool_ingest_finish(struct attempt *attempt)
{
    watch_close(attempt);
    attempt->spool.finishing = true;
    spool_read_next(attempt);
}

void spool_ingest_close(struct attempt *attempt)
{
    struct spool_ingest *spool = &attempt->spool;

    watch_close(attempt);
    if (!spool->retry_open)
        return;
    if (uv_is_active((uv_handle_t *)&spool->retry))
        spool->busy = false; /* the batch that waited for the timer is dropped */
    spool->retry_open = false;
    uv_close((uv_handle_t *)&spool->retry, on_spool_handle_closed);
}
