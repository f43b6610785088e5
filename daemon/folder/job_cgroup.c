/* job_cgroup.c: see job_cgroup.h. */
#include "daemon/folder/job_cgroup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CONTROLLERS_MAX = 4096,
    EVENTS_MAX = 512,
    TASKS_MAX_PERCENT = 15, /* DefaultTasksMax= of systemd-system.conf(5) */
    TASKS_MAX_SECONDS = 10  /* for which the machine's limit is taken to be as it was read */
};

/* The group that contains the jobs' groups; NULL: there is none. */
static const char *cgroup_root(void)
{
    const char *root = getenv("TRAIND_WORKERS_CGROUP");

    return root && *root == '/' && access(root, W_OK | X_OK) == 0 ? root : NULL;
}

const char *job_cgroup_shortcoming(void)
{
    const char *root = cgroup_root();
    char path[PATH_MAX], controllers[CONTROLLERS_MAX] = "";
    AUTO_CLOSE int descriptor = -1;

    if (!root)
        return "jobs have no control groups, so limits of their memory and processes are not "
               "enforced: only the systemd service with traind-workers.service sets them up";
    if (snprintf(path, sizeof path, "%s/cgroup.subtree_control", root) < (int)sizeof path)
        descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0 && read(descriptor, controllers, sizeof controllers - 1) < 0)
        controllers[0] = '\0';
    if (!strstr(controllers, "memory"))
        return "the memory controller is missing here, so memory limits of jobs are not enforced";
    if (!strstr(controllers, "pids"))
        return "the pids controller is missing here, so the processes of a job are not limited";
    return NULL;
}

static int64_t read_number(const char *path)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    char number[32];
    ssize_t length = file < 0 ? 0 : read(file, number, sizeof number - 1);

    number[length > 0 ? length : 0] = '\0';
    return strtoll(number, NULL, 10);
}

int64_t job_tasks_max(int64_t configured)
{
    static int64_t share;
    static double read_at = -INFINITY; /* an administrator may change the kernel's limits */
    int64_t identifiers, threads;

    if (configured >= 0)
        return configured;
    if (clock_monotonic() - read_at > TASKS_MAX_SECONDS) {
        identifiers = read_number("/proc/sys/kernel/pid_max");
        threads = read_number("/proc/sys/kernel/threads-max");
        share = (identifiers < threads ? identifiers : threads) * TASKS_MAX_PERCENT / 100;
        read_at = clock_monotonic();
    }
    return share;
}

bool job_cgroup_path(int64_t job, int64_t attempt, char *path, size_t size)
{
    const char *root = cgroup_root();

    return root && snprintf(path, size, "%s/job-%lld-%lld", root, (long long)job,
                            (long long)attempt) < (int)size;
}

/* Reads a small file of the group; "" if it cannot be read. */
static void group_read(int folder, const char *name, char *text, size_t size)
{
    AUTO_CLOSE int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t length = file < 0 ? 0 : read(file, text, size - 1);

    text[length > 0 ? length : 0] = '\0';
}

int job_cgroup_kill(int64_t job, int64_t attempt)
{
    AUTO_CLOSE int folder = -1, file = -1;
    char path[PATH_MAX], events[EVENTS_MAX];

    if (!job_cgroup_path(job, attempt, path, sizeof path))
        return -ENOENT;
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0)
        return -ENOENT;
    group_read(folder, "cgroup.events", events, sizeof events);
    if (strstr(events, "populated 0"))
        return 0;
    file = openat(folder, "cgroup.kill", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 || write(file, "1", 1) < 0)
        log_warning("cannot kill the processes of the control group %s: %s", path, strerror(errno));
    return 1;
}

void job_cgroup_remove(int64_t job, int64_t attempt)
{
    char path[PATH_MAX];

    if (job_cgroup_path(job, attempt, path, sizeof path) && rmdir(path) < 0 && errno != ENOENT)
        log_warning("cannot remove the control group %s: %s", path, strerror(errno));
}

void job_cgroups_visit(void (*visit)(int64_t job, int64_t attempt, void *data), void *data)
{
    const char *root = cgroup_root();
    DIR *folder = root ? opendir(root) : NULL;
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        long long job, attempt;

        if (sscanf(entry->d_name, "job-%lld-%lld", &job, &attempt) == 2)
            visit(job, attempt, data);
    }
    if (folder)
        closedir(folder);
}
