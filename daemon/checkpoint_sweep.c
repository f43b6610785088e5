/* checkpoint_sweep.c: what an attempt that has ended leaves behind in its folder and nobody needs:
 * the copy of the checkpoint that it began from, files that were never finished or announced, and
 * those whose removal a crash of the daemon forgot. */
#include "base/cleanup.h"
#include "daemon/spool_store.h"
#include "daemon/supervisor_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sweep {
    const char *state_directory;
    int64_t job, attempt;
};

/* 1 when a checkpoint's content is still in this file, else 0. */
static int file_is_needed(struct store_connection *connection, const struct sweep *sweep,
                          const char *path, struct error *error)
{
    sqlite3_stmt *statement =
        store_statement(connection,
                        "SELECT 1 FROM checkpoint WHERE job = ? AND attempt = ? AND path = ? AND "
                        "location = 'file'",
                        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, sweep->job);
    store_bind_int(statement, 2, sweep->attempt);
    store_bind_text(statement, 3, path);
    result = store_statement_next(statement, error);
    return result;
}

static int sweep_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct sweep *sweep = data;
    AUTO_CLOSE int folder =
        attempt_folder_open(sweep->state_directory, sweep->job, sweep->attempt, error);
    int checkpoints;
    DIR *listing;
    struct dirent *entry;
    int result = 0;

    if (folder < 0)
        return folder;
    attempt_folder_remove_file(folder, "resume.safetensors");
    attempt_folder_remove_file(folder, "best.safetensors");
    checkpoints = openat(folder, "checkpoints", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (checkpoints < 0)
        return 0;
    listing = fdopendir(checkpoints);
    if (!listing) {
        close(checkpoints);
        return 0;
    }
    while (result >= 0 && (entry = readdir(listing))) {
        char path[sizeof "checkpoints/" + sizeof entry->d_name];

        snprintf(path, sizeof path, "checkpoints/%s", entry->d_name);
        result = file_is_needed(connection, sweep, path, error);
        if (result == 0) /* of a folder this fails, and of . and .. */
            unlinkat(checkpoints, entry->d_name, 0);
    }
    closedir(listing);
    return result;
}

static void on_swept(void *data, int result, const struct error *error)
{
    (void)result; /* what stays is only space on the disk */
    (void)error;
    free(data);
}

void checkpoint_sweep(struct store *store, const char *state_directory, int64_t job,
                      int64_t attempt)
{
    struct sweep *sweep = malloc(sizeof *sweep);

    if (!sweep)
        return;
    *sweep = (struct sweep){state_directory, job, attempt};
    store_read(store, sweep_work, on_swept, sweep);
}
