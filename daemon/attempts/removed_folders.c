/* removed_folders.c: see removed_folders.h. */
#include "daemon/attempts/removed_folders.h"

#include "base/log.h"
#include "daemon/attempts/processes.h"
#include "daemon/context/context.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/store/removed_job_rows.h"
#include "proto/attempt_files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Folders in use are tried again after a second, then after twice as long each time, up to a
 * minute. */
enum { IN_USE_MILLISECONDS = 1000, IN_USE_MILLISECONDS_MAX = 60 * 1000 };

/* ---- a batch --------------------------------------------------------------------------------- */

static int batch_read(struct store_connection *connection, void *data, struct error *error)
{
    struct removed_folders *folders = data;
    int64_t after = folders->count > 0 ? folders->jobs[folders->count - 1] : 0;

    return removed_jobs_read(connection, after, REMOVED_FOLDERS_BATCH, folders->jobs,
                             &folders->count, error);
}

static int job_compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/* The result of the job to which the name <job>.… belongs; NULL: the job is not in the batch.
 * `rest` is the part after the dot. */
static int *result_of_name(struct removed_folders *folders, const char *name, const char **rest)
{
    char *end;
    int64_t id = strtoll(name, &end, 10), *job;

    if (*name < '0' || *name > '9' || *end != '.')
        return NULL;
    *rest = end + 1;
    job = bsearch(&id, folders->jobs, folders->count, sizeof *folders->jobs, job_compare);
    return job ? &folders->results[job - folders->jobs] : NULL;
}

/* Whether the name belongs to an attempt whose shim lives, as that of a notification may. */
static bool name_is_in_use(const struct removed_folders *folders, int64_t job, const char *rest)
{
    char *end;
    struct attempt_place place = {.state_directory = folders->daemon->state_directory,
                                  .job = job,
                                  .attempt = strtoll(rest, &end, 10)};

    return strcmp(end, ATTEMPT_CONFIG_SUFFIX) == 0 && attempt_is_alive(&place);
}

static void group_look(struct removed_folders *folders, DIR *listing)
{
    struct dirent *entry;

    while ((entry = readdir(listing))) {
        const char *rest;
        int *result = result_of_name(folders, entry->d_name, &rest);

        if (result && name_is_in_use(folders, folders->jobs[result - folders->results], rest))
            *result = -EBUSY;
    }
}

/* Removes what the listing shows of the batch. Returns whether anything was removed. */
static bool group_remove(struct removed_folders *folders, DIR *listing)
{
    struct dirent *entry;
    bool removed = false;

    rewinddir(listing);
    while ((entry = readdir(listing))) {
        const char *rest;
        int *result = result_of_name(folders, entry->d_name, &rest);

        if (!result || *result < 0)
            continue;
        *result = folder_entry_remove(dirfd(listing), entry->d_name);
        removed |= *result == 0;
    }
    return removed;
}

/* Removes the folders of those jobs of the batch that share a parent folder with `job`. */
static int group_tidy(struct removed_folders *folders, int64_t job)
{
    char path[PATH_MAX];
    DIR *listing;

    job_group_path(path, folders->daemon->state_directory, job);
    listing = opendir(path);
    if (!listing)
        return errno == ENOENT ? 0 : -errno;
    group_look(folders, listing);
    while (group_remove(folders, listing)) /* removals may change what the listing shows next */
        ;
    closedir(listing);
    return 0;
}

static void batch_remove(uv_work_t *work)
{
    struct removed_folders *folders = work->data;
    char group[PATH_MAX], last[PATH_MAX] = "";

    memset(folders->results, 0, sizeof folders->results);
    for (size_t i = 0; i < folders->count; i++) {
        int result = 0;

        job_group_path(group, folders->daemon->state_directory, folders->jobs[i]);
        if (strcmp(group, last) != 0)
            result = group_tidy(folders, folders->jobs[i]);
        memcpy(last, group, sizeof last);
        if (result < 0)
            folders->results[i] = result;
    }
    for (size_t i = 0; i < folders->count; i++) {
        char note[LOG_NOTE_MAX];
        int result = folders->results[i];

        folders->in_use |= result == -EBUSY;
        if (result < 0 && result != -EBUSY && log_throttle_pass(&folders->throttle, result, note))
            log_warning("folders of job %lld, which was removed, stay until the next start: %s%s",
                        (long long)folders->jobs[i], strerror(-result), note);
    }
}

static int batch_forget(struct store_connection *connection, void *data, struct error *error)
{
    const struct removed_folders *folders = data;
    int result = 0;

    for (size_t i = 0; i < folders->count && result == 0; i++)
        if (folders->results[i] >= 0)
            result = removed_job_forget(connection, folders->jobs[i], error);
    return result;
}

/* ---- one after the other --------------------------------------------------------------------- */

static void on_batch_read(void *data, int result, const struct error *error);

static void pass_begin(struct removed_folders *folders)
{
    folders->asked_again = folders->under_way;
    if (folders->under_way || folders->stopped)
        return;
    folders->under_way = true;
    folders->in_use = false;
    folders->kept = false;
    folders->count = 0;
    uv_timer_stop(&folders->retry);
    store_read(folders->daemon->store, batch_read, on_batch_read, folders);
}

static void on_retry(uv_timer_t *timer)
{
    const struct daemon *daemon = timer->data;

    pass_begin(daemon->removed_folders);
}

static void pass_end(struct removed_folders *folders)
{
    folders->under_way = false;
    if (folders->asked_again)
        pass_begin(folders);
    else if (folders->in_use || folders->kept) {
        uv_timer_start(&folders->retry, on_retry, folders->pause_milliseconds, 0);
        folders->pause_milliseconds *= 2;
        if (folders->pause_milliseconds > IN_USE_MILLISECONDS_MAX)
            folders->pause_milliseconds = IN_USE_MILLISECONDS_MAX;
    }
}

static void on_batch_forgotten(void *data, int result, const struct error *error)
{
    struct removed_folders *folders = data;

    (void)error;
    folders->kept = result < 0;
    if (folders->stopped)
        return;
    if (result < 0 || folders->count < REMOVED_FOLDERS_BATCH)
        pass_end(folders);
    else
        store_read(folders->daemon->store, batch_read, on_batch_read, folders);
}

static void on_batch_removed(uv_work_t *work, int status)
{
    struct removed_folders *folders = work->data;

    (void)status;
    if (!folders->stopped)
        store_write_soon(folders->daemon->store, batch_forget, on_batch_forgotten, folders);
}

static void on_batch_read(void *data, int result, const struct error *error)
{
    struct removed_folders *folders = data;

    if (result < 0)
        log_warning("folders of removed jobs stay until the next start: %s", error->text);
    if (folders->stopped)
        return;
    if (result < 0 || folders->count == 0)
        pass_end(folders);
    else
        daemon_queue_work(folders->daemon, &folders->work, batch_remove, on_batch_removed);
}

/* ---- from outside ---------------------------------------------------------------------------- */

void removed_folders_tidy(struct daemon *daemon)
{
    daemon->removed_folders->pause_milliseconds = IN_USE_MILLISECONDS;
    pass_begin(daemon->removed_folders);
}

void removed_folders_start(struct daemon *daemon)
{
    struct removed_folders *folders = daemon->removed_folders;

    folders->daemon = daemon;
    folders->work.data = folders;
    uv_timer_init(daemon->loop, &folders->retry);
    folders->retry.data = daemon;
    removed_folders_tidy(daemon);
}

void removed_folders_stop(struct daemon *daemon)
{
    struct removed_folders *folders = daemon->removed_folders;

    folders->stopped = true;
    if (folders->daemon)
        uv_close((uv_handle_t *)&folders->retry, NULL);
}
