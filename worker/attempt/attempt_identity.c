/* attempt_identity.c: sets the users that the shim and the trainee act as.
 *
 * In the file system the shim acts as the job's user: it can create, open or write only what that
 * user may. In all else it stays the daemon's user, so that no process of the job can stop, kill,
 * trace or slow it: kill(2), ptrace(2) and sched_setattr(2) check only the real, effective and
 * saved user. The trainee becomes the job's user for good. */
#include "worker/attempt/attempt_identity.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NO_CHANGE = -1 }; /* with it setfsuid(2) changes nothing and returns the present user */

static int identity_verify(const struct attempt_config *config, struct error *error)
{
    uid_t real_user, effective_user, saved_user;
    gid_t real_group, effective_group, saved_group;

    if (getresuid(&real_user, &effective_user, &saved_user) < 0 ||
        getresgid(&real_group, &effective_group, &saved_group) < 0)
        return error_set_errno(error, -errno, "cannot verify the job's user");
    if (real_user != config->uid || effective_user != config->uid || saved_user != config->uid ||
        real_group != config->gid || effective_group != config->gid || saved_group != config->gid)
        return error_set(error, -EPERM, "the switch to user %u, group %u did not take",
                         (unsigned)config->uid, (unsigned)config->gid);
    if (config->uid != 0 && setuid(0) == 0)
        return error_set(error, -EPERM, "privileges could be regained after they were dropped");
    return 0;
}

static int files_as(uid_t uid, struct error *error)
{
    setfsuid(uid);
    if ((uid_t)setfsuid((uid_t)NO_CHANGE) != uid)
        return error_set(error, -EPERM, "cannot open files as user %u", (unsigned)uid);
    return 0;
}

int attempt_identity_assume(const struct attempt_config *config, struct error *error)
{
    if (geteuid() != 0) {
        if (config->uid != geteuid())
            return error_set(error, -EPERM,
                             "the job belongs to user %u and the daemon runs as user %u, which "
                             "cannot start processes of others; run traind as root for that",
                             (unsigned)config->uid, (unsigned)geteuid());
        return 0;
    }
    if (config->uid != 0 && chown(".", config->uid, config->gid) < 0)
        return error_set_errno(error, -errno, "cannot give the attempt's folder to user %u",
                               (unsigned)config->uid);
    if (setgroups(config->group_count, config->groups) < 0)
        return error_set_errno(error, -errno, "cannot set the supplementary groups");
    if (setresgid(config->gid, config->gid, config->gid) < 0)
        return error_set_errno(error, -errno, "cannot become group %u", (unsigned)config->gid);
    if (config->uid != 0 && prctl(PR_SET_DUMPABLE, 0) < 0) /* hides its memory and /proc/PID */
        return error_set_errno(error, -errno, "cannot hide the shim from the job");
    return files_as(config->uid, error);
}

int attempt_identity_files_own(struct error *error)
{
    return geteuid() == 0 ? files_as(0, error) : 0;
}

int attempt_identity_files_user(const struct attempt_config *config, struct error *error)
{
    return geteuid() == 0 ? files_as(config->uid, error) : 0;
}

int attempt_identity_drop(const struct attempt_config *config, struct error *error)
{
    if (geteuid() != 0)
        return 0;
    if (setresuid(config->uid, config->uid, config->uid) < 0)
        return error_set_errno(error, -errno, "cannot become user %u", (unsigned)config->uid);
    return identity_verify(config, error);
}

void attempt_identity_adjust_oom_score(const struct attempt_config *config)
{
    AUTO_CLOSE int file = -1;
    char text[16];
    int length = snprintf(text, sizeof text, "%d", config->oom_score_adjust);

    if (config->oom_score_adjust == 0)
        return;
    file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0 && write(file, text, (size_t)length) < 0)
        log_debug("the score for want of memory stays as it is: %s", strerror(errno));
}

void attempt_identity_limit_descriptors(const struct attempt_config *config)
{
    struct rlimit limit;

    if (config->descriptors_max == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
        limit.rlim_cur <= (rlim_t)config->descriptors_max)
        return;
    limit.rlim_cur = (rlim_t)config->descriptors_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_debug("the limit of open files stays as it is: %s", strerror(errno));
}
