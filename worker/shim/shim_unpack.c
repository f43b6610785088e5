/* shim_unpack.c: traind-shim --unpack ARCHIVE FOLDER INNER COMMAND…, the first program of a command
 * whose code is frozen. It unpacks the archive into FOLDER/tree, unless an earlier attempt did,
 * changes to FOLDER/tree/INNER and becomes the command. It runs as the job's user in the job's
 * control group, so unpacking can be stopped and counts against the job's limits. */
#include "base/log.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127, NOT_STARTED = 126 }; /* as shells exit */

/* Runs a program until its end; whether it succeeded. */
static bool program_run(char *const *arguments)
{
    static char *const environment[] = {
        (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        (char *)"LC_ALL=C.UTF-8", NULL};
    pid_t pid;
    int status, code;

    code = posix_spawnp(&pid, arguments[0], NULL, NULL, arguments, environment);
    if (code) {
        log_error("cannot start %s: %s", arguments[0], strerror(code));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A kill in between leaves `fresh`, which the next attempt replaces. */
static bool unpack(char *archive, char *fresh, const char *tree)
{
    char *remove[] = {(char *)"rm", (char *)"-rf", (char *)"--", fresh, NULL};
    char *extract[] = {(char *)"tar",
                       (char *)"--extract",
                       (char *)"--no-same-owner",
                       (char *)"--preserve-permissions",
                       (char *)"--file",
                       archive,
                       (char *)"--directory",
                       fresh,
                       NULL};

    if (!program_run(remove))
        return false;
    if (mkdir(fresh, 0755) < 0) {
        log_error("cannot make %s: %s", fresh, strerror(errno));
        return false;
    }
    if (!program_run(extract)) {
        program_run(remove); /* it may have filled the disk */
        return false;
    }
    return rename(fresh, tree) == 0;
}

int shim_unpack(char *archive, const char *folder, const char *inner, char **command)
{
    char fresh[PATH_MAX], tree[PATH_MAX], directory[2 * PATH_MAX];

    snprintf(fresh, sizeof fresh, "%.*s/tree.unpacked", PATH_MAX - 32, folder);
    snprintf(tree, sizeof tree, "%.*s/tree", PATH_MAX - 32, folder);
    snprintf(directory, sizeof directory, "%s/%s", tree, inner);
    if (access(tree, F_OK) < 0 && !unpack(archive, fresh, tree)) {
        log_error("the job's snapshot %s could not be unpacked", archive);
        return NOT_STARTED;
    }
    if (chdir(directory) < 0) {
        log_error("cannot change to %s of the job's snapshot: %s", *inner ? inner : "the folder",
                  strerror(errno));
        return NOT_STARTED;
    }
    execvp(command[0], command);
    log_error(
        "cannot execute %s: %s; --snapshot takes what git tracks, and what it does not ignore",
        command[0], strerror(errno));
    return errno == ENOENT ? NOT_FOUND : NOT_STARTED;
}
