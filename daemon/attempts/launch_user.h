/* launch_user.h: the user that a job belongs to, as the system describes it. */
#pragma once

#include "base/error.h"

#include <sys/types.h>

enum { LAUNCH_GROUPS_MAX = 256 };

struct launch_user {
    char name[64], home[512], shell[256];
    gid_t gid, groups[LAUNCH_GROUPS_MAX];
    int group_count;
};

/* Looks the user up, at most once in five seconds for the same one; blocks. For a daemon that is
 * not root, a user without an entry is the daemon's own. -ENOENT and -E2BIG with a sentence. */
int launch_user_find(uid_t uid, struct launch_user *user, struct error *error);
