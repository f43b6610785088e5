/* shim_identity.c: from the daemon's privileges to the job's user, with no way back. */
#include "worker/shim.h"

#include <errno.h>
#include <grp.h>
#include <unistd.h>

static int identity_verify(const struct shim_config *config, struct error *error)
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

int shim_identity_drop(const struct shim_config *config, struct error *error)
{
    if (geteuid() != 0) {
        if (config->uid != geteuid())
            return error_set(error, -EPERM,
                             "the job belongs to user %u and the daemon runs as user %u, which "
                             "cannot start processes of others; run traind as root for that",
                             (unsigned)config->uid, (unsigned)geteuid());
        return 0;
    }
    /* the folder stays the daemon's until attempt.json was read: see shim_config_read() */
    if (config->uid != 0 && chown(".", config->uid, config->gid) < 0)
        return error_set_errno(error, -errno, "cannot give the attempt's folder to user %u",
                               (unsigned)config->uid);
    if (setgroups(config->group_count, config->groups) < 0)
        return error_set_errno(error, -errno, "cannot set the supplementary groups");
    if (setresgid(config->gid, config->gid, config->gid) < 0)
        return error_set_errno(error, -errno, "cannot become group %u", (unsigned)config->gid);
    if (setresuid(config->uid, config->uid, config->uid) < 0)
        return error_set_errno(error, -errno, "cannot become user %u", (unsigned)config->uid);
    return identity_verify(config, error);
}
