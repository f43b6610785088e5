/* jobs.c: the table of jobs that have not ended. Nothing is dispatched yet. */
#include "daemon/jobs.h"

#include <errno.h>

int jobs_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error)
{
    (void)error;
    ready(daemon);
    return 0;
}

void jobs_stop(struct daemon *daemon)
{
    (void)daemon;
}

void jobs_free(struct daemon *daemon)
{
    (void)daemon;
}

void jobs_add(struct daemon *daemon, const struct job_submission *submission)
{
    daemon_job_changed(daemon, submission->id);
}

void jobs_cancel(struct daemon *daemon, int64_t id, const char *reason, jobs_done done, void *data)
{
    struct error error = {0};

    (void)daemon, (void)id, (void)reason;
    done(data, error_set(&error, -ENOSYS, "jobs cannot be cancelled yet"), &error);
}

bool jobs_progress(const struct daemon *daemon, int64_t id, struct job_progress *progress)
{
    (void)daemon, (void)id, (void)progress;
    return false;
}

size_t jobs_count_of_user(const struct daemon *daemon, uid_t uid)
{
    (void)daemon, (void)uid;
    return 0;
}

size_t jobs_on_device(const struct daemon *daemon, const char *name, int64_t *ids, size_t limit,
                      uint64_t *memory_booked)
{
    (void)daemon, (void)name, (void)ids, (void)limit;
    *memory_booked = 0;
    return 0;
}
