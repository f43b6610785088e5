/* launch_user.c: see launch_user.h. */
#include "daemon/attempts/launch_user.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { USER_KEPT_SECONDS = 5 };

static int user_look_up(uid_t uid, struct launch_user *user, struct error *error)
{
    char buffer[16384];
    struct passwd entry, *found;
    int code = getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);

    if (!found && code == 0 && geteuid() != 0) { /* a daemon that is not root needs no entry */
        snprintf(user->name, sizeof user->name, "%u", (unsigned)uid);
        snprintf(user->home, sizeof user->home, "%s", getenv("HOME") ? getenv("HOME") : "/");
        snprintf(user->shell, sizeof user->shell, "/bin/sh");
        user->gid = getegid();
        return 0;
    }
    if (!found)
        return error_set_errno(error, code ? -code : -ENOENT,
                               "cannot look up user %u, whom the job belongs to", (unsigned)uid);
    snprintf(user->name, sizeof user->name, "%s", entry.pw_name);
    snprintf(user->home, sizeof user->home, "%s", entry.pw_dir);
    snprintf(user->shell, sizeof user->shell, "%s", entry.pw_shell[0] ? entry.pw_shell : "/bin/sh");
    user->gid = entry.pw_gid;
    user->group_count = LAUNCH_GROUPS_MAX;
    if (geteuid() == 0 && getgrouplist(user->name, user->gid, user->groups, &user->group_count) < 0)
        return error_set(error, -E2BIG, "user %s is in more than %d groups", user->name,
                         LAUNCH_GROUPS_MAX);
    return 0;
}

int launch_user_find(uid_t uid, struct launch_user *user, struct error *error)
{
    /* a user may start hundreds of jobs a second */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct launch_user last;
    static uid_t last_uid;
    static time_t looked_up; /* 0: never */
    struct timespec now;
    int result;

    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&lock);
    if (looked_up && last_uid == uid && now.tv_sec - looked_up < USER_KEPT_SECONDS) {
        *user = last;
        pthread_mutex_unlock(&lock);
        return 0;
    }
    pthread_mutex_unlock(&lock);
    result = user_look_up(uid, user, error);
    if (result < 0)
        return result;
    pthread_mutex_lock(&lock);
    last = *user;
    last_uid = uid;
    looked_up = now.tv_sec ? now.tv_sec : 1;
    pthread_mutex_unlock(&lock);
    return 0;
}
