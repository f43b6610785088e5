/* checkpoint_sweep.c: see checkpoint_sweep.h. The store's reader lists the files that are needed.
 * The thread pool goes through the folder, in which a job may have left a million files. */
#include "daemon/attempts/checkpoint_sweep.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/context/context.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/store/checkpoint_reads.h"
#include "daemon/store/unswept_attempt_rows.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checkpoint_sweep {
    struct daemon *daemon;
    int64_t job, attempt;
    int64_t notes; /* in table unswept_attempt when `needed` was read; 0: no entry */
    char **needed; /* paths of files that hold checkpoints, sorted; owned */
    size_t count;
    uv_work_t work;
    struct checkpoint_sweep *next;
};

static void sweep_free(struct checkpoint_sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++)
        free(sweep->needed[i]);
    free(sweep->needed);
    free(sweep);
}

static int needed_add(void *data, const char *path)
{
    struct checkpoint_sweep *sweep = data;
    char **grown = realloc(sweep->needed, (sweep->count + 1) * sizeof *grown);

    if (grown)
        sweep->needed = grown;
    if (!grown || !(grown[sweep->count] = strdup(path)))
        return -ENOMEM;
    sweep->count++;
    return 0;
}

static int needed_read(struct store_connection *connection, void *data, struct error *error)
{
    struct checkpoint_sweep *sweep = data;
    int result = unswept_attempt_read(connection, sweep->job, sweep->attempt, &sweep->notes, error);

    return result < 0 ? result
                      : checkpoint_paths_read(connection, sweep->job, sweep->attempt, needed_add,
                                              sweep, error);
}

static int path_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool sweep_keeps(const struct checkpoint_sweep *sweep, const char *path)
{
    return sweep->count > 0 &&
           bsearch(&path, sweep->needed, sweep->count, sizeof *sweep->needed, path_compare) != NULL;
}

static void folder_sweep(uv_work_t *work)
{
    /* what the attempt began with; of a job that goes on from another one's they are its own */
    static const char *const begins[] = {ATTEMPT_RESUME_FILE, ATTEMPT_BEST_FILE,
                                         ATTEMPT_WEIGHTS_FILE};
    const struct checkpoint_sweep *sweep = work->data;
    AUTO_CLOSE int folder =
        attempt_folder_open(sweep->daemon->state_directory, sweep->job, sweep->attempt, NULL);
    int checkpoints;
    DIR *listing;
    struct dirent *entry;

    if (folder < 0)
        return;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!sweep_keeps(sweep, begins[i]))
            attempt_folder_remove_file(folder, begins[i]);
    checkpoints = openat(folder, "checkpoints", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    listing = checkpoints < 0 ? NULL : fdopendir(checkpoints);
    if (!listing) {
        if (checkpoints >= 0)
            close(checkpoints);
        return;
    }
    while ((entry = readdir(listing))) {
        char path[sizeof "checkpoints/" + sizeof entry->d_name];

        snprintf(path, sizeof path, "checkpoints/%s", entry->d_name);
        if (!sweep_keeps(sweep, path))
            unlinkat(checkpoints, entry->d_name, 0); /* fails for folders, and for . and .. */
    }
    closedir(listing);
}

/* ---- one after the other --------------------------------------------------------------------- */

static void sweep_next(struct daemon *daemon);

static void sweep_end(struct checkpoint_sweep *sweep)
{
    struct daemon *daemon = sweep->daemon;

    sweep_free(sweep);
    daemon->checkpoint_sweeps->under_way = false;
    sweep_next(daemon);
}

/* Removes the note, unless the attempt was noted again meanwhile: then it is swept again, even
 * after a kill of the daemon. */
static int forget_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct checkpoint_sweep *sweep = data;

    return unswept_attempt_forget(connection, sweep->job, sweep->attempt, sweep->notes, error);
}

static void on_forgotten(void *data, int result, const struct error *error)
{
    (void)result; /* if it failed, the next start sweeps the attempt again */
    (void)error;
    sweep_end(data);
}

static void on_swept(uv_work_t *work, int status)
{
    struct checkpoint_sweep *sweep = work->data;

    (void)status; /* a failure only leaves files on the disk */
    if (sweep->notes > 0 && !sweep->daemon->checkpoint_sweeps->stopped)
        store_write_soon(sweep->daemon->store, forget_work, on_forgotten, sweep);
    else
        sweep_end(sweep);
}

static void on_needed(void *data, int result, const struct error *error)
{
    struct checkpoint_sweep *sweep = data;

    (void)error;
    if (result < 0 || sweep->daemon->checkpoint_sweeps->stopped)
        sweep_end(sweep);
    else
        daemon_queue_work(sweep->daemon, &sweep->work, folder_sweep, on_swept);
}

static void sweep_next(struct daemon *daemon)
{
    struct checkpoint_sweeps *sweeps = daemon->checkpoint_sweeps;
    struct checkpoint_sweep *sweep = sweeps->first;

    if (!sweep || sweeps->under_way || sweeps->stopped)
        return;
    sweeps->first = sweep->next;
    if (!sweeps->first)
        sweeps->last = &sweeps->first;
    sweeps->under_way = true;
    store_read(daemon->store, needed_read, on_needed, sweep);
}

void checkpoint_sweep(struct daemon *daemon, int64_t job, int64_t attempt)
{
    struct checkpoint_sweeps *sweeps = daemon->checkpoint_sweeps;
    struct checkpoint_sweep *sweep = memory_zero(sizeof *sweep);

    *sweep = (struct checkpoint_sweep){.daemon = daemon, .job = job, .attempt = attempt};
    sweep->work.data = sweep;
    *(sweeps->last ? sweeps->last : &sweeps->first) = sweep;
    sweeps->last = &sweep->next;
    sweep_next(daemon);
}

void checkpoint_sweeps_stop(struct daemon *daemon)
{
    struct checkpoint_sweeps *sweeps = daemon->checkpoint_sweeps;

    sweeps->stopped = true;
    for (struct checkpoint_sweep *sweep = sweeps->first, *next; sweep; sweep = next) {
        next = sweep->next;
        sweep_free(sweep);
    }
    sweeps->first = NULL;
    sweeps->last = NULL;
}

/* ---- what the database knows -------------------------------------------------------------- */

enum { RESUMED_MAX = 1000 }; /* the next start sweeps the others */

struct unswept {
    struct daemon *daemon;
    size_t count;
    struct {
        int64_t job, attempt;
    } attempts[RESUMED_MAX];
};

static void unswept_add(void *data, int64_t job, int64_t attempt)
{
    struct unswept *unswept = data;

    unswept->attempts[unswept->count].job = job;
    unswept->attempts[unswept->count++].attempt = attempt;
}

static int unswept_read(struct store_connection *connection, void *data, struct error *error)
{
    return unswept_attempts_read(connection, RESUMED_MAX, unswept_add, data, error);
}

static void on_unswept(void *data, int result, const struct error *error)
{
    struct unswept *unswept = data;
    bool stopped = unswept->daemon->checkpoint_sweeps->stopped;

    (void)error;
    for (size_t i = 0; i < unswept->count && result == 0 && !stopped; i++)
        checkpoint_sweep(unswept->daemon, unswept->attempts[i].job, unswept->attempts[i].attempt);
    free(unswept);
}

void checkpoint_sweeps_resume(struct daemon *daemon)
{
    struct unswept *unswept = memory_zero(sizeof *unswept);

    unswept->daemon = daemon;
    store_read(daemon->store, unswept_read, on_unswept, unswept);
}
