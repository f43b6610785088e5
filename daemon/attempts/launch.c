/* launch.c: makes an attempt's folder and starts its shim. This runs on the thread pool, because
 * looking up a user and making files may take a while.
 *
 * The folder belongs to the daemon until the shim gives it to the job's user. The shim's
 * instructions lie beside the folder (proto/attempt_files.h), where the user cannot change them. */
#include "daemon/attempts/launch.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "daemon/attempts/launch_description.h"
#include "daemon/attempts/launch_shim.h"
#include "daemon/attempts/launch_user.h"
#include "daemon/attempts/processes.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/work/job_preemption.h"
#include "proto/attempt_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

static int folder_write_text(int folder, const char *name, const char *text, size_t length,
                             mode_t mode, int *kept, struct error *error)
{
    AUTO_CLOSE int file =
        openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    int result;

    if (file < 0)
        return error_set_errno(error, -errno, "cannot make %s of the attempt", name);
    result = file_write_all(file, text, length);
    if (result < 0)
        return error_set_errno(error, result, "cannot write %s of the attempt", name);
    if (kept)
        *kept = TAKE_DESCRIPTOR(file);
    return 0;
}

static int folder_write(int folder, const char *name, struct json_object *object, mode_t mode,
                        int *kept, struct error *error)
{
    size_t length;
    const char *text = json_text(object, &length);

    return folder_write_text(folder, name, text, length, mode, kept, error);
}

/* Moves the file into the folder and gives it to the job's user; does nothing if `file` is NULL.
 * Only root gives files away: a daemon of an ordinary user may not even have that user's group. */
static int folder_put_checkpoint(const struct attempt_launch *launch,
                                 const struct launch_user *user, const char *file, int folder,
                                 const char *name, struct error *error)
{
    if (file && (renameat(AT_FDCWD, file, folder, name) < 0 ||
                 (geteuid() == 0 && fchownat(folder, name, launch->uid, user->gid, 0) < 0)))
        return error_set_errno(error, -errno, "cannot put the checkpoint %s into the job's folder",
                               name);
    return 0;
}

static int folder_put_checkpoints(const struct attempt_launch *launch,
                                  const struct launch_user *user, int folder, struct error *error)
{
    const struct {
        const char *file, *name;
    } files[] = {{launch->files.resume, ATTEMPT_RESUME_FILE},
                 {launch->files.best, ATTEMPT_BEST_FILE},
                 {launch->files.weights, ATTEMPT_WEIGHTS_FILE}};
    int result = 0;

    for (size_t i = 0; i < sizeof files / sizeof *files && result == 0; i++)
        result = folder_put_checkpoint(launch, user, files[i].file, folder, files[i].name, error);
    return result;
}

static int folder_fill(const struct attempt_launch *launch, const struct launch_user *user,
                       const char *path, int *lock, struct error *error)
{
    JSON_AUTO struct json_object *attempt = launch_describe(launch, user, path);
    char config[PATH_MAX];
    AUTO_CLOSE int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result;

    if (folder < 0)
        return error_set_errno(error, -errno, "cannot open the folder %s", path);
    if (launch->kind == JOB_NATIVE) {
        result = folder_write(folder, "spec.json", launch->spec, 0644, NULL, error);
        if (result == 0 && launch->calibration)
            result = folder_write_text(folder, "calibration.json", launch->calibration,
                                       strlen(launch->calibration), 0644, NULL, error);
        if (result < 0)
            return result;
    }
    result = folder_put_checkpoints(launch, user, folder, error);
    if (result < 0)
        return result;
    attempt_path_beside(config, launch->state_directory, launch->job, launch->attempt,
                        ATTEMPT_CONFIG_SUFFIX);
    result = folder_write(AT_FDCWD, config, attempt, 0600, lock, error);
    if (result < 0)
        return result;
    /* The shim inherits this open file, so the lock is held until the shim has ended. */
    if (flock(*lock, LOCK_EX | LOCK_NB) < 0)
        return error_set_errno(error, -errno, "cannot lock %s", config);
    return 0;
}

/* Whether a later attempt may go on from what this attempt saves. */
static bool launch_goes_on(const struct attempt_launch *launch)
{
    return launch->kind == JOB_COMMAND &&
           (job_preemption_read(launch->spec, launch->kind).possible ||
            json_get_int(json_get(launch->spec, "retry"), "limit", 0) > 0);
}

/* Ends the planning run of an earlier daemon, which may still run; the new run replaces it. */
static void end_predecessor(const struct attempt_launch *launch)
{
    const struct attempt_place place = {.state_directory = launch->state_directory,
                                        .job = launch->job,
                                        .attempt = launch->attempt,
                                        .uid = launch->uid};

    if (!launch->planning || !attempt_is_alive(&place))
        return;
    attempt_kill_processes(&place);
    attempt_kill_shim(&place, -1);
}

/* The folders that all attempts of the job have in common. */
static int job_folders_make(struct attempt_launch *launch, const struct launch_user *user,
                            struct error *error)
{
    char path[PATH_MAX];
    int result = 0;

    if (launch_goes_on(launch)) {
        result = checkpoint_folder_make(launch->state_directory, launch->job, launch->uid,
                                        user->gid, path, error);
        launch->checkpoints = result == 0 ? memory_copy_text(path) : NULL;
    }
    if (result == 0 && launch_snapshot(launch)) {
        result = snapshot_folder_make(launch->state_directory, launch->job, launch->uid, user->gid,
                                      path, error);
        launch->snapshot = result == 0 ? memory_copy_text(path) : NULL;
    }
    return result;
}

int attempt_launch_run(struct attempt_launch *launch, struct error *error)
{
    AUTO_CLOSE int lock = -1, ours = -1, theirs = -1;
    char path[PATH_MAX];
    struct launch_user user = {.gid = 0};
    int pair[2], result;

    result = launch_user_find(launch->uid, &user, error);
    if (result == 0)
        end_predecessor(launch);
    if (result == 0)
        result =
            attempt_folder_make(launch->state_directory, launch->job, launch->attempt, path, error);
    if (result == 0)
        result = job_folders_make(launch, &user, error);
    if (result == 0)
        result = folder_fill(launch, &user, path, &lock, error);
    if (result < 0)
        return result;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set_errno(error, -errno, "cannot make a socket pair");
    ours = pair[0];
    theirs = pair[1];
    result = launch_shim_find(launch, path, theirs, lock, error);
    if (result < 0)
        return result;
    launch->socket = TAKE_DESCRIPTOR(ours);
    return 0;
}

void attempt_launch_release(struct attempt_launch *launch)
{
    json_object_put(launch->spec);
    free(launch->calibration);
    free(launch->also);
    free(launch->checkpoints);
    free(launch->snapshot);
    free(launch->files.resume);
    free(launch->files.best);
    free(launch->files.weights);
    free(launch->sharing_folder);
}
