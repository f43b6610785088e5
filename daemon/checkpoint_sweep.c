/* checkpoint_sweep.c: what an attempt that has ended leaves behind in its folder and nobody needs:
 * the copies of the checkpoints that it began from, files that were never finished or announced,
 * and those whose removal a crash of the daemon forgot. Which files are needed the reader says; the
 * folder, in which a job may have left a million of them, is gone through on the thread pool. */
#include "base/cleanup.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/spool_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sweep {
    struct daemon *daemon;
    int64_t job, attempt;
    char **needed; /* paths of files that hold checkpoints, sorted; owned */
    size_t count;
    uv_work_t work;
};

static void sweep_free(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++)
        free(sweep->needed[i]);
    free(sweep->needed);
    free(sweep);
}

static int needed_add(struct sweep *sweep, const char *path, struct error *error)
{
    char **grown = realloc(sweep->needed, (sweep->count + 1) * sizeof *grown);

    if (grown)
        sweep->needed = grown;
    if (!grown || !(grown[sweep->count] = strdup(path)))
        return error_set(error, -ENOMEM, "no memory left");
    sweep->count++;
    return 0;
}

static int needed_read(struct store_connection *connection, void *data, struct error *error)
{
    struct sweep *sweep = data;
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT path FROM checkpoint WHERE job = ? AND attempt = ? AND location = 'file' AND path "
        "IS NOT NULL ORDER BY path",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, sweep->job);
    store_bind_int(statement, 2, sweep->attempt);
    while ((result = store_statement_next(statement, error)) > 0) {
        result = needed_add(sweep, (const char *)sqlite3_column_text(statement, 0), error);
        if (result < 0)
            return result;
    }
    return result;
}

static int path_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void folder_sweep(uv_work_t *work)
{
    const struct sweep *sweep = work->data;
    AUTO_CLOSE int folder =
        attempt_folder_open(sweep->daemon->state_directory, sweep->job, sweep->attempt, NULL);
    int checkpoints;
    DIR *listing;
    struct dirent *entry;

    if (folder < 0)
        return;
    attempt_folder_remove_file(folder, "resume.safetensors");
    attempt_folder_remove_file(folder, "best.safetensors");
    checkpoints = openat(folder, "checkpoints", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    listing = checkpoints < 0 ? NULL : fdopendir(checkpoints);
    if (!listing) {
        if (checkpoints >= 0)
            close(checkpoints);
        return;
    }
    while ((entry = readdir(listing))) {
        char path[sizeof "checkpoints/" + sizeof entry->d_name];
        const char *wanted = path;

        snprintf(path, sizeof path, "checkpoints/%s", entry->d_name);
        if (sweep->count == 0 ||
            !bsearch(&wanted, sweep->needed, sweep->count, sizeof *sweep->needed, path_compare))
            unlinkat(checkpoints, entry->d_name, 0); /* of a folder this fails, and of . and .. */
    }
    closedir(listing);
}

static void on_swept(uv_work_t *work, int status)
{
    (void)status; /* what stays is only space on the disk */
    sweep_free(work->data);
}

static void on_needed(void *data, int result, const struct error *error)
{
    struct sweep *sweep = data;

    (void)error;
    if (result == 0)
        uv_queue_work(sweep->daemon->loop, &sweep->work, folder_sweep, on_swept);
    else
        sweep_free(sweep);
}

void checkpoint_sweep(struct daemon *daemon, int64_t job, int64_t attempt)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);

    if (!sweep)
        return;
    *sweep = (struct sweep){.daemon = daemon, .job = job, .attempt = attempt};
    sweep->work.data = sweep;
    store_read(daemon->store, needed_read, on_needed, sweep);
}
