/* checkpoint_folder.c: see checkpoint_folder.h. What lies in such a folder is the user's, who may
 * change it at any moment: nothing is followed, and nothing is read that is another user's. */
#include "daemon/folder/checkpoint_folder.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/folder/attempt_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Beyond SYNCED_MAX files one syncfs() is faster than the flushes of each, also for others. */
enum { DEPTH_MAX = 64, ENTRIES_MAX = 1000000, BLOCK = 1 << 20, SYNCED_MAX = 16 };

struct folder_copy {
    int64_t from;
    uid_t uid;
    int64_t entries;
    int64_t written; /* files and folders */
};

static int copy_folder(struct folder_copy *copy, int from, int to, int depth, struct error *error);

static int fail(const struct folder_copy *copy, int result, const char *name, struct error *error)
{
    return error_set_errno(error, result, "cannot copy %s, which job %lld has saved", name,
                           (long long)copy->from);
}

/* Gives the copy the owner, the rights and the times of the original. */
static int adopt_status(int file, const struct stat *status)
{
    const struct timespec times[] = {status->st_atim, status->st_mtim};

    if (geteuid() == 0 && fchown(file, status->st_uid, status->st_gid) < 0)
        return -errno;
    if (fchmod(file, status->st_mode & 0777) < 0 || futimens(file, times) < 0)
        return -errno;
    return 0;
}

/* Copies as many bytes as there were at first, so that a file which grows meanwhile ends. */
static int copy_bytes(int from, int to, int64_t size)
{
    AUTO_FREE char *block = NULL;

    if (ioctl(to, FICLONE, from) == 0) /* the file system shares the blocks */
        return 0;
    block = malloc(BLOCK);
    if (!block)
        return -ENOMEM;
    for (int64_t done = 0; done < size;) {
        ssize_t got =
            file_read_at(from, block, size - done < BLOCK ? (size_t)(size - done) : BLOCK, done);
        int result = got < 0 ? (int)got : file_write_all(to, block, (size_t)got);

        if (result < 0)
            return result;
        if (got == 0) /* it was cut */
            return 0;
        done += got;
    }
    return 0;
}

/* Makes the copy durable, or leaves that to copy_finish(). */
static int copy_sync(struct folder_copy *copy, int file)
{
    return copy->written++ < SYNCED_MAX && fsync(file) < 0 ? -errno : 0;
}

static int copy_finish(const struct folder_copy *copy, int folder)
{
    return (copy->written > SYNCED_MAX ? syncfs(folder) : fsync(folder)) < 0 ? -errno : 0;
}

static int copy_file(struct folder_copy *copy, int from_folder, int to_folder, const char *name,
                     struct error *error)
{
    /* O_NONBLOCK: a pipe that takes the file's place must not wait for a writer */
    AUTO_CLOSE int from = folder_open_beneath(from_folder, name, O_RDONLY | O_NONBLOCK), to = -1;
    struct stat status;
    int result = from < 0 ? from : fstat(from, &status) < 0 ? -errno : 0;

    if (result == 0 && (!S_ISREG(status.st_mode) || status.st_uid != copy->uid))
        return error_set(error, -EPERM, "%s, which job %lld has saved, is not its user's file",
                         name, (long long)copy->from);
    if (result == 0) {
        to = openat(to_folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        result = to < 0 ? -errno : copy_bytes(from, to, status.st_size);
    }
    if (result == 0)
        result = adopt_status(to, &status);
    if (result == 0)
        result = copy_sync(copy, to);
    return result < 0 ? fail(copy, result, name, error) : 0;
}

static int copy_link(const struct folder_copy *copy, int from, int to, const char *name,
                     const struct stat *status, struct error *error)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(from, name, target, sizeof target - 1);

    if (length >= 0)
        target[length] = '\0';
    if (length < 0 || symlinkat(target, to, name) < 0 ||
        (geteuid() == 0 &&
         fchownat(to, name, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW) < 0))
        return fail(copy, -errno, name, error);
    return 0;
}

static int copy_inner(struct folder_copy *copy, int from_folder, int to_folder, const char *name,
                      int depth, struct error *error)
{
    AUTO_CLOSE int from = folder_open_beneath(from_folder, name, O_RDONLY | O_DIRECTORY), to = -1;
    struct stat status;
    int result = from < 0 ? from : fstat(from, &status) < 0 ? -errno : 0;

    if (result == 0 && status.st_uid != copy->uid)
        result = -EPERM;
    if (result == 0 && depth > DEPTH_MAX)
        result = -ELOOP;
    if (result == 0) {
        if (mkdirat(to_folder, name, 0700) < 0)
            result = -errno;
        else
            result = to = folder_open_beneath(to_folder, name, O_RDONLY | O_DIRECTORY);
    }
    if (result < 0)
        return fail(copy, result, name, error);
    result = copy_folder(copy, from, to, depth, error);
    if (result < 0)
        return result;
    result = adopt_status(to, &status);
    if (result == 0)
        result = copy_sync(copy, to);
    return result < 0 ? fail(copy, result, name, error) : 0;
}

static int copy_entry(struct folder_copy *copy, int from, int to, const char *name, int depth,
                      struct error *error)
{
    struct stat status;

    if (copy->entries++ >= ENTRIES_MAX)
        return error_set(error, -E2BIG, "job %lld has saved more than %d files",
                         (long long)copy->from, ENTRIES_MAX);
    if (fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail(copy, -errno, name, error);
    if (S_ISREG(status.st_mode))
        return copy_file(copy, from, to, name, error);
    if (S_ISLNK(status.st_mode))
        return copy_link(copy, from, to, name, &status, error);
    if (S_ISDIR(status.st_mode))
        return copy_inner(copy, from, to, name, depth + 1, error);
    return 0;
}

static int copy_folder(struct folder_copy *copy, int from, int to, int depth, struct error *error)
{
    int listed = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
    DIR *listing = listed < 0 ? NULL : fdopendir(listed);
    struct dirent *entry;

    if (!listing) {
        result = -errno;
        if (listed >= 0)
            close(listed);
        return fail(copy, result, "a folder", error);
    }
    while (result == 0 && (entry = readdir(listing)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = copy_entry(copy, from, to, entry->d_name, depth, error);
    closedir(listing);
    return result;
}

/* Copies into the folder `name` of `group`, which is new, and gives it to the user. */
static int copy_all(struct folder_copy *copy, int from, int group, const char *name,
                    struct error *error)
{
    AUTO_CLOSE int to = -1;
    struct stat status;
    int result = folder_entry_remove(group, name); /* of a daemon that was killed */

    if (result == 0 && mkdirat(group, name, 0700) < 0)
        result = -errno;
    if (result == 0)
        result = to = folder_open_beneath(group, name, O_RDONLY | O_DIRECTORY);
    if (result < 0)
        return error_set_errno(error, result, "cannot make the folder %s", name);
    result = copy_folder(copy, from, to, 0, error);
    if (result < 0)
        return result;
    if (copy->entries == 0)
        return error_set(error, -ENOENT,
                         "job %lld has saved nothing below TRAIND_CHECKPOINT_DIRECTORY",
                         (long long)copy->from);
    result = fstat(from, &status) < 0 ? -errno : adopt_status(to, &status);
    if (result == 0)
        result = copy_finish(copy, to);
    return result < 0 ? error_set_errno(error, result, "cannot finish the folder %s", name) : 0;
}

static int group_open(const char *state_directory, int64_t job, struct error *error)
{
    char path[PATH_MAX];
    int group;

    job_group_path(path, state_directory, job);
    group = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return group < 0 ? error_set_errno(error, -errno, "cannot open %s", path) : group;
}

int checkpoint_folder_copy(const char *state_directory, int64_t from, int64_t to, uid_t uid,
                           struct error *error)
{
    AUTO_CLOSE int from_group = group_open(state_directory, from, error), to_group = -1;
    AUTO_CLOSE int source = -1;
    struct folder_copy copy = {.from = from, .uid = uid};
    char name[64], fresh[sizeof name + sizeof ".new"];
    int result;

    to_group = from_group < 0 ? from_group : group_open(state_directory, to, error);
    if (to_group < 0)
        return to_group;
    snprintf(name, sizeof name, "%lld.checkpoints", (long long)from);
    source = folder_open_beneath(from_group, name, O_RDONLY | O_DIRECTORY);
    if (source < 0)
        return error_set_errno(error, source, "cannot open the folder %s", name);
    snprintf(name, sizeof name, "%lld.checkpoints", (long long)to);
    snprintf(fresh, sizeof fresh, "%s.new", name);
    result = copy_all(&copy, source, to_group, fresh, error);
    if (result == 0 && renameat2(to_group, fresh, to_group, name, RENAME_EXCHANGE) < 0 &&
        (errno != ENOENT || renameat2(to_group, fresh, to_group, name, RENAME_NOREPLACE) < 0))
        result = error_set_errno(error, -errno, "cannot put the folder %s in its place", fresh);
    if (result == 0 && fsync(to_group) < 0)
        result = error_set_errno(error, -errno, "cannot put the folder %s in its place", fresh);
    folder_entry_remove(to_group, fresh);
    return result;
}
