/* supervisor_folder.c: opening, examining and removing what lies in an attempt's folder. */
#include "daemon/supervisor_folder.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "proto/varlink.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

enum { JOBS_IN_GROUP = 1000, GROUP_FOLDER_MODE = 0711 };

static void sleep_milliseconds(long milliseconds)
{
    struct timespec pause = {.tv_nsec = milliseconds * 1000000};

    nanosleep(&pause, NULL);
}

static int open_beneath(int folder, const char *name, int flags)
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

/* Makes jobs/<job / 1000>. ext4 chooses a new folder's place on the disk by its name (see
 * state_directory.c), so a random one is given first: two states would have theirs in one place. */
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
    mkdir(path, GROUP_FOLDER_MODE); /* another thread may have made it: the caller will see */
}

int attempt_folder_make(const char *state_directory, int64_t job, int64_t attempt,
                        char path[PATH_MAX], struct error *error)
{
    int made;

    attempt_folder_path(path, state_directory, job, attempt);
    made = mkdir(path, 0700);
    if (made < 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');

        *slash = '\0';
        group_folder_make(path);
        *slash = '/';
        made = mkdir(path, 0700);
    }
    /* left by a daemon that was killed before its shim started: see jobs_recovery.c */
    if (made < 0 && errno == EEXIST && attempt_folder_remove(state_directory, job, attempt) == 0)
        made = mkdir(path, 0700);
    return made < 0 ? error_set_errno(error, -errno, "cannot make the folder %s", path) : 0;
}

int checkpoint_folder_make(const char *state_directory, int64_t job, uid_t uid, gid_t gid,
                           char path[PATH_MAX], struct error *error)
{
    snprintf(path, PATH_MAX, "%s/jobs/%lld/%lld.checkpoints", state_directory,
             (long long)(job / JOBS_IN_GROUP), (long long)job);
    if (mkdir(path, 0700) < 0)
        return errno == EEXIST ? 0 : error_set_errno(error, -errno, "cannot make %s", path);
    if (geteuid() == 0 && lchown(path, uid, gid) < 0)
        return error_set_errno(error, -errno, "cannot give %s to the job's user", path);
    return 0;
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
    /* O_NONBLOCK: opening a pipe that was put there must not wait for its writer */
    AUTO_CLOSE int descriptor = open_beneath(folder, name, O_RDONLY | O_NONBLOCK);
    struct stat status;

    if (descriptor < 0)
        return error_set_errno(error, descriptor, "cannot open %s of the attempt", name);
    if (fstat(descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot look at %s of the attempt", name);
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
    inner = open_beneath(folder, parent, O_RDONLY | O_DIRECTORY);
    if (inner < 0)
        return inner;
    return unlinkat(inner, slash + 1, 0) < 0 ? -errno : 0;
}

/* Whether somebody holds the shim's lock. */
static bool shim_holds_lock(int folder)
{
    AUTO_CLOSE int file = open_beneath(folder, "attempt.json", O_RDONLY | O_NONBLOCK);

    return file >= 0 && flock(file, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int attempt_folder_read(int folder, const char *name, uid_t uid, struct json_object **object)
{
    AUTO_CLOSE int file = attempt_folder_open_file(folder, name, uid, NULL);
    AUTO_FREE char *text = NULL;
    struct stat status;
    ssize_t size;
    int result;

    if (file < 0)
        return file;
    if (fstat(file, &status) < 0 || status.st_size > ATTEMPT_FILE_MAX)
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

enum attempt_trace attempt_folder_examine(int folder, uid_t uid, struct json_object **record)
{
    struct stat status;

    /* first the lock, then the record: a shim that leaves in between has written it before */
    if (shim_holds_lock(folder))
        return ATTEMPT_ALIVE;
    if (attempt_folder_read(folder, "exit.json", uid, record) == 0)
        return ATTEMPT_RECORDED;
    return fstatat(folder, "log", &status, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT
               ? ATTEMPT_NEVER_STARTED
               : ATTEMPT_VANISHED;
}

int attempt_folder_connect(int folder, uid_t uid, struct error *error)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d/worker.sock", folder);
    for (int tries = 0;; tries++) {
        AUTO_CLOSE int descriptor = varlink_socket_open(path, 0, error);
        struct ucred peer;
        socklen_t size = sizeof peer;

        if (descriptor >= 0) {
            if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
                peer.uid != uid)
                return error_set(error, -EPERM, "worker.sock is not served by the job's user");
            return TAKE_DESCRIPTOR(descriptor);
        }
        if (tries == 500 || !shim_holds_lock(folder))
            return descriptor;
        sleep_milliseconds(10);
    }
}

/* Kills the processes with `marker` in their environment; how many there were. */
static int kill_marked(const char *marker, size_t length, char *environment, size_t capacity)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int found = 0;

    if (!proc)
        return 0;
    while ((entry = readdir(proc))) {
        char path[300];
        ssize_t size = 0, got;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%s/environ", entry->d_name);
        AUTO_CLOSE int file = openat(dirfd(proc), path, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            continue;
        while ((got = read(file, environment + size, capacity - (size_t)size)) > 0)
            size += got;
        if (size && memmem(environment, (size_t)size, marker, length)) {
            found++;
            kill((pid_t)atol(entry->d_name), SIGKILL);
        }
    }
    closedir(proc);
    return found;
}

int attempt_kill_leftovers(const char *state_directory, int64_t job, int64_t attempt)
{
    enum { ENVIRONMENT_MAX = 256 * 1024, PASSES = 50 };
    AUTO_FREE char *environment = malloc(ENVIRONMENT_MAX), *marker = NULL;
    char path[PATH_MAX];
    int found = 0, length;

    /* shim_config.c puts the marker first, so that it lies in the part that is read */
    attempt_folder_path(path, state_directory, job, attempt);
    length = asprintf(&marker, "TRAIND_ATTEMPT_DIRECTORY=%s", path);
    if (length < 0 || !environment) {
        marker = NULL;
        return 0;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        /* the closing NUL counts: attempt 1 is not attempt 10 */
        found = kill_marked(marker, (size_t)length + 1, environment, ENVIRONMENT_MAX);
        if (found == 0)
            break;
        sleep_milliseconds(10);
    }
    return found;
}

/* Kills the user's process whose command line is that of a shim of this folder. */
static void kill_shim(const char *folder_path, uid_t uid)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    while (proc && (entry = readdir(proc))) {
        char path[300], line[PATH_MAX + 64];
        struct stat status;
        ssize_t size;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%s/cmdline", entry->d_name);
        AUTO_CLOSE int file = openat(dirfd(proc), path, O_RDONLY | O_CLOEXEC);
        size = file < 0 || fstat(file, &status) < 0 || status.st_uid != uid
                   ? 0
                   : read(file, line, sizeof line);
        if (size > 0 && memmem(line, (size_t)size, "traind-shim", sizeof "traind-shim") &&
            memmem(line, (size_t)size, folder_path, strlen(folder_path) + 1))
            kill((pid_t)atol(entry->d_name), SIGKILL);
    }
    if (proc)
        closedir(proc);
}

void attempt_kill_by_force(const char *state_directory, int64_t job, int64_t attempt, uid_t uid)
{
    char path[PATH_MAX];
    AUTO_CLOSE int folder = attempt_folder_open(state_directory, job, attempt, NULL);

    attempt_kill_leftovers(state_directory, job, attempt);
    for (int tries = 0; tries < 50; tries++) { /* a shim that lives tells the end itself */
        if (folder >= 0 && !shim_holds_lock(folder))
            return;
        sleep_milliseconds(10);
    }
    attempt_folder_path(path, state_directory, job, attempt);
    kill_shim(path, uid);
}

static int remove_content(int folder, int depth)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int result = 0;

    if (!listing)
        return -errno;
    while ((entry = readdir(listing))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(folder, entry->d_name, 0) == 0)
            continue;
        if (errno != EISDIR || depth == 0) {
            result = -errno;
            continue;
        }
        AUTO_CLOSE int inner = open_beneath(folder, entry->d_name, O_RDONLY | O_DIRECTORY);
        if (inner < 0 || remove_content(inner, depth - 1) < 0 ||
            unlinkat(folder, entry->d_name, AT_REMOVEDIR) < 0)
            result = -ENOTEMPTY;
    }
    closedir(listing);
    return result;
}

int attempt_folder_remove(const char *state_directory, int64_t job, int64_t attempt)
{
    enum { DEPTH_MAX = 64 };
    char path[PATH_MAX];
    AUTO_CLOSE int folder = attempt_folder_open(state_directory, job, attempt, NULL);

    if (folder < 0)
        return folder == -ENOENT ? 0 : folder;
    attempt_folder_path(path, state_directory, job, attempt);
    remove_content(folder, DEPTH_MAX);
    return rmdir(path) < 0 ? -errno : 0;
}
