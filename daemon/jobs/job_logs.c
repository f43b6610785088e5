/* job_logs.c: see job_logs.h. The reader thread of the store checks and shortens the files, so the
 * loop does not wait. */
#include "daemon/jobs/job_logs.h"

#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { BLOCK_BYTES = 4096 };

struct job_logs {
    uv_timer_t timer;
    size_t looking;
    struct log_throttle throttle;
};

struct log_file {
    int64_t job, attempt;
    uid_t uid;
};

struct log_look {
    struct jobs *jobs;
    uint64_t limit;
    size_t count;
    struct log_file files[];
};

int64_t job_logs_hole_begin(uint64_t limit)
{
    return (int64_t)(limit / 2 / BLOCK_BYTES * BLOCK_BYTES);
}

/* Keeps half of the limit at the beginning of the log, and half at its end. */
static int log_shorten(int log, uint64_t limit, struct error *error)
{
    struct stat status;
    off_t from = (off_t)job_logs_hole_begin(limit), to;
    char path[64];

    if (fstat(log, &status) < 0)
        return error_set_errno(error, -errno, "cannot look at a job's log");
    if ((uint64_t)status.st_blocks * 512 <= limit || (uint64_t)status.st_size <= limit)
        return 0;
    to = status.st_size - (off_t)(limit / 2);
    to = (off_t)align_up((size_t)to, BLOCK_BYTES);
    if (from >= to)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", log);
    AUTO_CLOSE int writable = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (writable < 0 ||
        fallocate(writable, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from) < 0)
        return error_set_errno(error, -errno, "cannot shorten a job's log to LogLimit");
    return 0;
}

static int look_work(struct store_connection *connection, void *data, struct error *error)
{
    struct log_look *look = data;
    int result = 0;

    (void)connection;
    for (size_t i = 0; i < look->count; i++) {
        const struct log_file *file = &look->files[i];
        AUTO_CLOSE int log = attempt_open_file(
            look->jobs->daemon->state_directory, file->job, file->attempt, file->uid, "log",
            NULL); /* the job's user may have put any file there */

        if (log >= 0 && log_shorten(log, look->limit, error) < 0)
            result = error->code;
    }
    return result;
}

static void on_looked(void *data, int result, const struct error *error)
{
    struct log_look *look = data;
    char note[LOG_NOTE_MAX];

    look->jobs->logs->looking--;
    if (result < 0 && log_throttle_pass(&look->jobs->logs->throttle, result, note))
        log_error("%s%s", error->text, note);
    free(look);
}

static struct log_look *look_new(struct jobs *jobs, size_t capacity)
{
    uint64_t limit = jobs->daemon->config.log_limit_bytes;
    struct log_look *look = limit ? malloc(sizeof *look + capacity * sizeof *look->files) : NULL;

    if (look)
        *look = (struct log_look){.jobs = jobs, .limit = limit};
    return look;
}

static void look_add(struct log_look *look, const struct attempt *attempt)
{
    look->files[look->count++] = (struct log_file){attempt->job_id, attempt->number, attempt->uid};
}

static void look_run(struct log_look *look)
{
    look->jobs->logs->looking++;
    store_read(look->jobs->daemon->store, look_work, on_looked, look);
}

static void on_timer(uv_timer_t *timer)
{
    struct jobs *jobs = timer->data;
    const struct devices *devices = jobs->daemon->devices;
    struct log_look *look;
    size_t count = 0;

    for (size_t d = 0; d < devices->count; d++)
        count += devices->list[d]->claim_count;
    if (!count || jobs->logs->looking || !(look = look_new(jobs, count)))
        return;
    for (size_t d = 0; d < devices->count; d++)
        for (size_t i = 0; i < devices->list[d]->claim_count; i++)
            if (devices->list[d]->claims[i]->devices[0] == devices->list[d])
                look_add(look, devices->list[d]->claims[i]->attempt);
    look_run(look);
}

void job_logs_ended(const struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct log_look *look = jobs->stopping ? NULL : look_new(jobs, 1);

    if (!look)
        return;
    look_add(look, attempt);
    look_run(look);
}

void job_logs_start(struct jobs *jobs)
{
    jobs->logs = memory_zero(sizeof *jobs->logs);
    uv_timer_init(jobs->daemon->loop, &jobs->logs->timer);
    jobs->logs->timer.data = jobs;
    uv_timer_start(&jobs->logs->timer, on_timer, LOG_LOOK_SECONDS * 1000, LOG_LOOK_SECONDS * 1000);
}

void job_logs_stop(struct jobs *jobs)
{
    if (jobs->logs)
        uv_close((uv_handle_t *)&jobs->logs->timer, NULL);
}
