/* state_directory.c: making and locking the folder that holds everything the daemon keeps. */
#include "daemon/state_directory.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

int directory_make(const char *path, unsigned mode, struct error *error)
{
    AUTO_FREE char *copy = strdup(path);

    if (!copy)
        return error_no_memory(error, "the path %s", path);
    for (char *slash = copy + 1; slash;) {
        slash = strchr(slash, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
            return error_set_errno(error, -errno, "cannot make the folder %s", copy);
        if (slash)
            *slash++ = '/';
    }
    return 0;
}

/* Refuses a folder that others may write to: they could replace the database. */
static int check_owner(const char *path, struct error *error)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return error_set_errno(error, -errno, "cannot look at %s", path);
    if (!S_ISDIR(status.st_mode))
        return error_set(error, -ENOTDIR, "%s is not a folder; give another --state-dir", path);
    if (status.st_uid != geteuid() || (status.st_mode & 022))
        return error_set(error, -EPERM,
                         "%s belongs to another user, or others may write to it: traind keeps its "
                         "state only where it alone may write. chmod go-w it or give another "
                         "--state-dir",
                         path);
    return 0;
}

/* Takes a lock of the process (fcntl), not of the open file (flock). A child that a killed daemon
 * had just forked holds its descriptors until the exec, so a flock() would survive and block a
 * daemon that starts at once. A process loses an fcntl lock when it closes any descriptor of the
 * file, but only this function opens it. */
static int lock_folder(const char *path, int *lock, struct error *error)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    AUTO_FREE char *name = NULL;
    AUTO_CLOSE int descriptor = -1;
    char pid[32] = "";

    if (asprintf(&name, "%s/lock", path) < 0)
        return error_no_memory(error, "the path %s", path);
    descriptor = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        return error_set_errno(error, -errno, "cannot open %s", name);
    if (fcntl(descriptor, F_SETLK, &whole) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            return error_set_errno(error, -errno, "cannot lock %s", name);
        ssize_t size = pread(descriptor, pid, sizeof pid - 1, 0);
        pid[size > 0 ? strcspn(pid, "\n") : 0] = '\0';
        return error_set(error, -EBUSY,
                         "another traind%s%s uses the state in %s already; stop it or give another "
                         "--state-dir",
                         *pid ? " with process id " : "", pid, path);
    }
    int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(descriptor, 0) < 0 || pwrite(descriptor, pid, (size_t)length, 0) < 0)
        return error_set_errno(error, -errno, "cannot write %s", name);
    *lock = TAKE_DESCRIPTOR(descriptor);
    return 0;
}

/* Tells ext4 to spread the folders inside this one over the disk, as it does with the folders of a
 * disk's root. Near files that were deleted in the last minutes, an ext4 without a journal checks
 * each of them whenever it creates a file, which made a job's start milliseconds slower. Other file
 * systems ignore the attribute. */
static void directory_spread(const char *path)
{
    AUTO_CLOSE int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int attributes;

    if (folder < 0 || ioctl(folder, FS_IOC_GETFLAGS, &attributes) < 0)
        return;
    attributes |= FS_TOPDIR_FL;
    ioctl(folder, FS_IOC_SETFLAGS, &attributes);
}

int state_directory_open(const char *path, int *lock, struct error *error)
{
    AUTO_FREE char *jobs = NULL;
    int result = directory_make(path, 0711, error);

    if (result == 0)
        result = check_owner(path, error);
    if (result == 0 && asprintf(&jobs, "%s/jobs", path) < 0)
        result = error_no_memory(error, "the path %s", path);
    if (result == 0)
        result = directory_make(jobs, 0711, error);
    if (result == 0)
        directory_spread(jobs);
    return result < 0 ? result : lock_folder(path, lock, error);
}
