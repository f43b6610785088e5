/* processes.c: see processes.h. */
#include "daemon/attempts/processes.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/folder/job_cgroup.h"
#include "proto/attempt_files.h"
#include "proto/varlink.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENVIRONMENT_MAX = 256 * 1024, PROC_PATH_MAX = 300 };

/* ---- the shim -------------------------------------------------------------------------------- */

static void path_beside(const struct attempt_place *place, const char *suffix, char path[PATH_MAX])
{
    attempt_path_beside(path, place->state_directory, place->job, place->attempt, suffix);
}

/* 1: the attempt's lock is held; 0: it is not; negative errno: a later try may tell. */
static int look_at_lock(const struct attempt_place *place)
{
    AUTO_CLOSE int file = -1;
    char path[PATH_MAX];

    path_beside(place, ATTEMPT_CONFIG_SUFFIX, path);
    file = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return file_opens_later(-errno) ? -errno : 0;
    return flock(file, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

bool attempt_is_alive(const struct attempt_place *place)
{
    return look_at_lock(place) != 0;
}

/* Whether the attempt's log exists, 1 or 0. The shim makes it before anything of the job runs.
 * Negative errno: a later try may tell. */
static int look_for_log(const struct attempt_place *place)
{
    AUTO_CLOSE int folder =
        attempt_folder_open(place->state_directory, place->job, place->attempt, NULL);
    struct stat status;

    if (folder == -ENOENT || file_opens_later(folder))
        return folder == -ENOENT ? 0 : folder;
    return fstatat(folder, "log", &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

enum attempt_trace attempt_examine(const struct attempt_place *place, struct json_object **record)
{
    /* Look at the lock first and at the record second. A shim writes its record before it ends and
     * so lets go of the lock. */
    int result = look_at_lock(place);

    if (result != 0)
        return result > 0 ? ATTEMPT_ALIVE : ATTEMPT_UNKNOWN;
    result = attempt_read_beside(place->state_directory, place->job, place->attempt,
                                 ATTEMPT_RECORD_SUFFIX, record);
    if (result == 0)
        return ATTEMPT_RECORDED;
    if (!file_opens_later(result))
        result = look_for_log(place);
    return result < 0 ? ATTEMPT_UNKNOWN : result > 0 ? ATTEMPT_VANISHED : ATTEMPT_NEVER_STARTED;
}

int attempt_connect(const struct attempt_place *place, struct error *error)
{
    AUTO_CLOSE int descriptor = -1;
    char path[PATH_MAX];
    struct ucred peer;
    socklen_t size = sizeof peer;

    path_beside(place, ATTEMPT_SOCKET_SUFFIX, path);
    descriptor = varlink_socket_try(path, error);
    if (descriptor < 0)
        return descriptor;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid())
        return error_set(error, -EPERM, "%s is not served by the daemon's user", path);
    return TAKE_DESCRIPTOR(descriptor);
}

int attempt_shim_open(pid_t shim, int socket)
{
    AUTO_CLOSE int descriptor = shim > 0 ? pidfd_open(shim, 0) : -1;
    char byte;

    /* only the shim holds the other end, so an open connection means that it has not ended */
    if (descriptor < 0 || recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
        return -1;
    return TAKE_DESCRIPTOR(descriptor);
}

/* ---- processes in /proc ---------------------------------------------------------------------- */

/* Kills with SIGKILL each process for which `is_wanted` returns true, and returns how many. The
 * process's descriptor is opened first, so that the process that was checked is the one that is
 * killed. One that cannot be looked at for want of descriptors counts, too: the caller tries
 * again. */
static int kill_all_that(bool (*is_wanted)(int proc, const char *name, void *data), void *data)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int found = !proc && file_opens_later(-errno);

    while (proc && (entry = readdir(proc))) {
        AUTO_CLOSE int process = -1;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        process = pidfd_open((pid_t)atol(entry->d_name), 0);
        found += process < 0 && file_opens_later(-errno);
        if (process < 0 || !is_wanted(dirfd(proc), entry->d_name, data))
            continue;
        found++;
        pidfd_send_signal(process, SIGKILL, NULL, 0);
    }
    if (proc)
        closedir(proc);
    return found;
}

/* Reads a file of a process. Returns its size; 0: it is empty or cannot be read. */
static size_t process_read(int proc, const char *name, const char *file_name, char *text,
                           size_t capacity)
{
    char path[PROC_PATH_MAX];
    AUTO_CLOSE int file = -1;
    size_t size = 0;
    ssize_t got;

    snprintf(path, sizeof path, "%s/%s", name, file_name);
    file = openat(proc, path, O_RDONLY | O_CLOEXEC);
    while (file >= 0 && size < capacity && (got = read(file, text + size, capacity - size)) > 0)
        size += (size_t)got;
    return size;
}

/* The real user and group of a process. False: it does not live. */
static bool process_owner(int proc, const char *name, uid_t *uid, gid_t *gid)
{
    char text[4096];
    const char *state, *users, *groups;

    text[process_read(proc, name, "status", text, sizeof text - 1)] = '\0';
    state = strstr(text, "\nState:\t");
    users = strstr(text, "\nUid:\t");
    groups = strstr(text, "\nGid:\t");
    return state && state[8] != 'Z' && state[8] != 'X' && users && groups &&
           sscanf(users, "\nUid: %u", uid) == 1 && sscanf(groups, "\nGid: %u", gid) == 1;
}

/* ---- processes without a shim
 * -------------------------------------------------------------------- */

struct marked {
    uid_t uid;
    char *text; /* NAME=value with its closing NUL */
    size_t length;
    char *environment; /* ENVIRONMENT_MAX bytes */
};

/* Reads the environment of a process as the process's owner. Other users need CAP_SYS_PTRACE, which
 * a systemd service may lack. */
static size_t environment_read(int proc, const char *name, uid_t uid, gid_t gid, char *text)
{
    /* each thread has its own identity, but "dumpable" is a property of the whole process */
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    int dumpable;
    size_t size;

    if (geteuid() != 0 || uid == 0)
        return process_read(proc, name, "environ", text, ENVIRONMENT_MAX);
    pthread_mutex_lock(&one_at_a_time);
    dumpable = prctl(PR_GET_DUMPABLE);
    setfsgid(gid);
    setfsuid(uid);
    size = process_read(proc, name, "environ", text, ENVIRONMENT_MAX);
    setfsuid(geteuid());
    setfsgid(getegid());
    prctl(PR_SET_DUMPABLE, dumpable); /* the kernel clears it at each change of identity */
    pthread_mutex_unlock(&one_at_a_time);
    return size;
}

static bool is_marked(int proc, const char *name, void *data)
{
    const struct marked *marked = data;
    const char *entry, *end;
    uid_t uid;
    gid_t gid;

    if (!process_owner(proc, name, &uid, &gid) || uid != marked->uid)
        return false;
    end = marked->environment + environment_read(proc, name, uid, gid, marked->environment);
    for (entry = marked->environment; entry < end; entry++) {
        if ((size_t)(end - entry) >= marked->length &&
            memcmp(entry, marked->text, marked->length) == 0)
            return true;
        entry = memchr(entry, '\0', (size_t)(end - entry));
        if (!entry)
            break;
    }
    return false;
}

bool attempt_kill_processes(const struct attempt_place *place)
{
    struct marked marked = {.uid = place->uid};
    int in_group = job_cgroup_kill(place->job, place->attempt), found;
    char path[PATH_MAX];

    if (in_group >= 0)
        return in_group > 0;
    attempt_folder_path(path, place->state_directory, place->job, place->attempt);
    /* attempt_config.c puts the variable first, so it lies in the part that is read. The closing
     * NUL is compared too, so that attempt 1 does not match attempt 10. */
    marked.text = memory_format("TRAIND_ATTEMPT_DIRECTORY=%s", path);
    marked.environment = memory_allocate(ENVIRONMENT_MAX);
    marked.length = strlen(marked.text) + 1;
    found = kill_all_that(is_marked, &marked);
    free(marked.environment);
    free(marked.text);
    return found > 0;
}

/* Whether it is a process of the daemon's user whose command line is that of a shim of this
 * folder. */
static bool is_shim(int proc, const char *name, void *data)
{
    const char *folder = data;
    char line[PATH_MAX + 64];
    size_t size, length = strlen(folder);
    uid_t uid;
    gid_t gid;

    if (!process_owner(proc, name, &uid, &gid) || uid != getuid())
        return false;
    size = process_read(proc, name, "cmdline", line, sizeof line - 1);
    line[size] = '\0';
    return strstr(line, "traind-shim") && memmem(line, size, folder, length + 1);
}

void attempt_kill_shim(const struct attempt_place *place, int shim)
{
    char path[PATH_MAX];

    if (shim >= 0) {
        pidfd_send_signal(shim, SIGKILL, NULL, 0);
        return;
    }
    attempt_folder_path(path, place->state_directory, place->job, place->attempt);
    kill_all_that(is_shim, path);
}

static void group_clear(int64_t job, int64_t attempt, void *data)
{
    const struct attempt_place place = {.state_directory = data, .job = job, .attempt = attempt};

    if (!attempt_is_alive(&place) && job_cgroup_kill(job, attempt) == 0)
        job_cgroup_remove(job, attempt);
}

void attempts_clear_groups(const char *state_directory)
{
    job_cgroups_visit(group_clear, (char *)state_directory);
}
