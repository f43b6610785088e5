/* job_cgroup.c: see job_cgroup.h. */
#include "daemon/job_cgroup.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTROLLERS_MAX = 4096 };

/* The group that holds those of the jobs; NULL without one. */
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
        return "jobs have no control groups, so their memory limits are not enforced: only the "
               "systemd service with traind-workers.service sets them up";
    if (snprintf(path, sizeof path, "%s/cgroup.subtree_control", root) < (int)sizeof path)
        descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0 && read(descriptor, controllers, sizeof controllers - 1) < 0)
        controllers[0] = '\0';
    if (!strstr(controllers, "memory"))
        return "the memory controller is missing here, so memory limits of jobs are not enforced";
    return NULL;
}

bool job_cgroup_path(int64_t job, int64_t attempt, char *path, size_t size)
{
    const char *root = cgroup_root();

    return root && snprintf(path, size, "%s/job-%lld-%lld", root, (long long)job,
                            (long long)attempt) < (int)size;
}

void job_cgroup_remove(int64_t job, int64_t attempt)
{
    char path[PATH_MAX];

    if (job_cgroup_path(job, attempt, path, sizeof path) && rmdir(path) < 0 && errno != ENOENT)
        log_warning("cannot remove the control group %s: %s", path, strerror(errno));
}
