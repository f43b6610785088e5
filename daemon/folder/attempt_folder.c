/* attempt_folder.c: see attempt_folder.h. */
#include "daemon/folder/attempt_folder.h"

#include "base/cleanup.h"
#include "proto/attempt_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
    JOBS_IN_GROUP = 1000,
    GROUP_FOLDER_MODE = 0711,
    PASSES_MAX = 64,    /* passes over a folder after the last entry came up from a deeper one */
    LEVELS_MAX = 100000 /* passes in total, for nested folders */
};

int folder_open_beneath(int folder, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    long descriptor = syscall(SYS_openat2, folder, name, &how, sizeof how);

    return descriptor < 0 ? -errno : (int)descriptor;
}

void attempt_folder_path(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt)
{
    snprintf(path, PATH_MAX, "%s/jobs/%lld/%lld.%lld", state_directory,
             (long long)(job / JOBS_IN_GROUP), (long long)job, (long long)attempt);
}

void attempt_path_beside(char path[PATH_MAX], const char *state_directory, int64_t job,
                         int64_t attempt, const char *suffix)
{
    attempt_folder_path(path, state_directory, job, attempt);
    strncat(path, suffix, PATH_MAX - strlen(path) - 1);
}

/* Makes jobs/<job / 1000>. ext4 derives a new folder's place on the disk from its name (see
 * state_directory.c). So the folder gets a random name first: otherwise two daemons' state folders
 * would use the same place. */
static void group_folder_make(const char *path)
{
    AUTO_FREE char *fresh = NULL;
    bool named;

    if (asprintf(&fresh, "%s.XXXXXX", path) < 0)
        fresh = NULL;
    named = fresh && mkdtemp(fresh) && chmod(fresh, GROUP_FOLDER_MODE) == 0 &&
            renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE) == 0;
    if (named)
        return;
    if (fresh)
        rmdir(fresh);
    mkdir(path, GROUP_FOLDER_MODE); /* if another thread made it meanwhile, the caller's mkdir()
                                     * succeeds */
}

static int folder_make(const char *path)
{
    return mkdir(path, 0700) < 0 ? -errno : 0;
}

int attempt_folder_make(const char *state_directory, int64_t job, int64_t attempt,
                        char path[PATH_MAX], struct error *error)
{
    int result;

    attempt_folder_path(path, state_directory, job, attempt);
    result = folder_make(path);
    if (result == -ENOENT) {
        char *slash = strrchr(path, '/');

        *slash = '\0';
        group_folder_make(path);
        *slash = '/';
        result = folder_make(path);
    }
    /* an earlier daemon left it, which was killed before its shim started: see jobs/recovery.c */
    if (result == -EEXIST) {
        result = attempt_folder_remove(state_directory, job, attempt);
        if (result == 0)
            result = folder_make(path);
    }
    return result < 0 ? error_set_errno(error, result, "cannot make the folder %s", path) : 0;
}

/* Makes STATE/jobs/<job / 1000>/<job>.<name>, owned by the user, if it does not exist. */
static int job_folder_make(const char *state_directory, int64_t job, const char *name, uid_t uid,
                           gid_t gid, char path[PATH_MAX], struct error *error)
{
    snprintf(path, PATH_MAX, "%s/jobs/%lld/%lld.%s", state_directory,
             (long long)(job / JOBS_IN_GROUP), (long long)job, name);
    if (mkdir(path, 0700) < 0)
        return errno == EEXIST ? 0 : error_set_errno(error, -errno, "cannot make %s", path);
    if (geteuid() == 0 && lchown(path, uid, gid) < 0)
        return error_set_errno(error, -errno, "cannot give %s to the job's user", path);
    return 0;
}

int checkpoint_folder_make(const char *state_directory, int64_t job, uid_t uid, gid_t gid,
                           char path[PATH_MAX], struct error *error)
{
    return job_folder_make(state_directory, job, "checkpoints", uid, gid, path, error);
}

int snapshot_folder_make(const char *state_directory, int64_t job, uid_t uid, gid_t gid,
                         char path[PATH_MAX], struct error *error)
{
    return job_folder_make(state_directory, job, "snapshot", uid, gid, path, error);
}

int attempt_folder_open(const char *state_directory, int64_t job, int64_t attempt,
                        struct error *error)
{
    char path[PATH_MAX];
    int folder;

    attempt_folder_path(path, state_directory, job, attempt);
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return folder < 0 ? error_set_errno(error, -errno, "cannot open %s", path) : folder;
}

int attempt_folder_open_file(int folder, const char *name, uid_t uid, struct error *error)
{
    /* O_NONBLOCK: opening a pipe that the user put there must not wait for a writer */
    AUTO_CLOSE int descriptor = folder_open_beneath(folder, name, O_RDONLY | O_NONBLOCK);
    struct stat status;

    if (descriptor < 0)
        return error_set_errno(error, descriptor, "cannot open %s of the attempt", name);
    if (fstat(descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot look at %s of the attempt", name);
    if (status.st_nlink == 0) /* for example by the trainee, which keeps only some checkpoints */
        return error_set(error, -ENOENT, "%s of the attempt was removed", name);
    if (!S_ISREG(status.st_mode) || status.st_uid != uid || status.st_nlink != 1)
        return error_set(error, -EPERM, "%s of the attempt is not a regular file of the job's user",
                         name);
    return TAKE_DESCRIPTOR(descriptor);
}

int attempt_open_file(const char *state_directory, int64_t job, int64_t attempt, uid_t uid,
                      const char *name, struct error *error)
{
    AUTO_CLOSE int folder = attempt_folder_open(state_directory, job, attempt, error);

    return folder < 0 ? folder : attempt_folder_open_file(folder, name, uid, error);
}

int attempt_folder_remove_file(int folder, const char *name)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(name, '/');
    AUTO_CLOSE int inner = -1;

    if (!slash)
        return unlinkat(folder, name, 0) < 0 ? -errno : 0;
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - name), name);
    inner = folder_open_beneath(folder, parent, O_RDONLY | O_DIRECTORY);
    if (inner < 0)
        return inner;
    return unlinkat(inner, slash + 1, 0) < 0 ? -errno : 0;
}

int attempt_read_beside(const char *state_directory, int64_t job, int64_t attempt,
                        const char *suffix, struct json_object **object)
{
    AUTO_CLOSE int file = -1;
    AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    struct stat status;
    ssize_t size;
    int result;

    attempt_path_beside(path, state_directory, job, attempt, suffix);
    file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
        return -EPERM;
    if (status.st_size > ATTEMPT_FILE_MAX)
        return -EFBIG;
    text = malloc((size_t)status.st_size + 1);
    if (!text)
        return -ENOMEM;
    size = read(file, text, (size_t)status.st_size);
    if (size < 0)
        return -errno;
    result = json_parse(text, (size_t)size, object, NULL);
    if (result == 0 && !json_object_is_type(*object, json_type_object)) {
        json_object_put(TAKE_POINTER(*object));
        result = -EINVAL;
    }
    return result;
}

/* Gives the folder to root, so that processes that have it open can add nothing more. Without root
 * the daemon's user owns it already. */
static void take_over(int folder)
{
    if (geteuid() == 0 && fchown(folder, 0, 0) == 0)
        fchmod(folder, 0700);
}

/* Empties a folder inside `folder`. Folders inside it are moved up into `folder`, to be emptied in
 * turn, so that depth costs neither stack nor descriptors. */
static int empty_inner(int folder, const char *name, unsigned long *moved)
{
    AUTO_CLOSE int inner = folder_open_beneath(folder, name, O_RDONLY | O_DIRECTORY);
    int copy = inner < 0 ? -1 : openat(inner, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;

    if (!listing)
        return -errno;
    take_over(inner);
    while ((entry = readdir(listing))) {
        char above[64];

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            unlinkat(inner, entry->d_name, 0) == 0 ||
            unlinkat(inner, entry->d_name, AT_REMOVEDIR) == 0)
            continue;
        do
            snprintf(above, sizeof above, ".leaving-%lu", (*moved)++);
        while (renameat2(inner, entry->d_name, folder, above, RENAME_NOREPLACE) < 0 &&
               errno == EEXIST);
    }
    closedir(listing);
    return unlinkat(folder, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Removes entries until the folder is empty or nothing more can be removed. A process may add
 * entries faster than they are removed, so the number of passes is limited. */
static int remove_content(int folder)
{
    unsigned long moved = 0, known = 0;
    bool removed = true, left = true;
    int passes = 0, levels = 0;

    take_over(folder);
    while (removed && left && passes++ < PASSES_MAX && levels++ < LEVELS_MAX) {
        int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *listing = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry;

        if (!listing)
            return -errno;
        removed = left = false;
        while ((entry = readdir(listing))) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            left = true;
            removed |= unlinkat(folder, entry->d_name, 0) == 0 ||
                       unlinkat(folder, entry->d_name, AT_REMOVEDIR) == 0 ||
                       empty_inner(folder, entry->d_name, &moved) == 0;
        }
        closedir(listing);
        passes = moved > known ? 0 : passes;
        known = moved;
    }
    return left ? -ENOTEMPTY : 0;
}

int folder_entry_remove(int folder, const char *name)
{
    AUTO_CLOSE int inner = -1;

    if (unlinkat(folder, name, 0) == 0)
        return 0;
    inner = folder_open_beneath(folder, name, O_RDONLY | O_DIRECTORY);
    if (inner < 0)
        return inner == -ENOENT ? 0 : inner;
    remove_content(inner);
    return unlinkat(folder, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

void job_group_path(char path[PATH_MAX], const char *state_directory, int64_t job)
{
    snprintf(path, PATH_MAX, "%s/jobs/%lld", state_directory, (long long)(job / JOBS_IN_GROUP));
}

int attempt_folder_remove(const char *state_directory, int64_t job, int64_t attempt)
{
    static const char *const beside[] = {ATTEMPT_CONFIG_SUFFIX, ATTEMPT_SOCKET_SUFFIX,
                                         ATTEMPT_RECORD_SUFFIX};
    char path[PATH_MAX];
    AUTO_CLOSE int folder = attempt_folder_open(state_directory, job, attempt, NULL);

    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        attempt_path_beside(path, state_directory, job, attempt, beside[i]);
        unlink(path);
    }
    if (folder < 0)
        return folder == -ENOENT ? 0 : folder;
    attempt_folder_path(path, state_directory, job, attempt);
    remove_content(folder);
    return rmdir(path) < 0 ? -errno : 0;
}
