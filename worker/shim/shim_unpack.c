/* shim_unpack.c: traind-shim --unpack ARCHIVE FOLDER INNER COMMAND…, the first program of a command
 * whose code is frozen. It unpacks the archive into FOLDER/tree, unless an earlier attempt did,
 * changes to FOLDER/tree/INNER and becomes the command. It runs as the job's user in the job's
 * control group, so unpacking can be stopped and counts against the job's limits. Why it fails is
 * told in an `error` record. A full disk may not take that, so the exit status tells it, too. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "worker/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

enum {
    NOT_FOUND = 127, /* as shells exit */
    NOT_STARTED = 126,
    NO_ROOM = EX_IOERR,
    COMPLAINT_MAX = 4096
};

/* Copies what the program says to the log. `said` keeps its beginning. */
static void complaint_copy(int source, char said[COMPLAINT_MAX])
{
    char rest[COMPLAINT_MAX];
    size_t length = 0;
    ssize_t got;

    while ((got = read(source, rest, sizeof rest)) > 0 || (got < 0 && errno == EINTR)) {
        size_t kept = got > 0 ? (size_t)got : 0;

        if (kept > 0 && write(STDERR_FILENO, rest, kept) < 0) {
            /* the log has no room, either */
        }
        if (kept > COMPLAINT_MAX - 1 - length)
            kept = COMPLAINT_MAX - 1 - length;
        memcpy(said + length, rest, kept);
        length += kept;
    }
    said[length] = '\0';
}

/* Whether a program in the C locale has said that. tar(1) says of a disk that becomes full amid a
 * write that it "Wrote only 512 of 10240 bytes". */
static bool complains_of(const char *said, int code)
{
    return strstr(said, strerror(code)) != NULL;
}

/* Runs a program until its end. Returns 0, -ENOSPC or -EDQUOT if it complains of that, or another
 * negative errno, with its first complaint. */
static int program_run(char *const *arguments, struct error *error)
{
    static char *const environment[] = {
        (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        (char *)"LC_ALL=C.UTF-8", NULL};
    posix_spawn_file_actions_t actions;
    char said[COMPLAINT_MAX];
    int ends[2], status = 0, code;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(error, -errno, "cannot make a pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    code = posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (code == 0)
        complaint_copy(ends[0], said);
    close(ends[0]);
    if (code)
        return error_set_errno(error, -code, "cannot start %s", arguments[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set_errno(error, -errno, "cannot wait for %s", arguments[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    code = complains_of(said, ENOSPC) || strstr(said, ": Wrote only ") ? -ENOSPC
           : complains_of(said, EDQUOT)                                ? -EDQUOT
                                                                       : -EIO;
    said[strcspn(said, "\n")] = '\0';
    return error_set(error, code, "%s", *said ? said : "its program was killed");
}

/* Writes all files in `folder` to disk. They may be many, so their whole file system is asked: that
 * is one write of its journal, not one for each. */
static int sync_files(const char *folder, struct error *error)
{
    AUTO_CLOSE int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (descriptor < 0 || syncfs(descriptor) < 0)
        return error_set_errno(error, -errno, "cannot write %s to disk", folder);
    return 0;
}

/* A kill in between leaves `fresh`, which the next attempt replaces. The files are on disk before
 * they get their name, so a power cut leaves all of them or none. */
static int unpack(char *archive, char *fresh, const char *tree, struct error *error)
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
    int result = program_run(remove, error);

    if (result < 0)
        return result;
    if (mkdir(fresh, 0755) < 0)
        return error_set_errno(error, -errno, "cannot make %s", fresh);
    result = program_run(extract, error);
    if (result == 0)
        result = sync_files(fresh, error);
    if (result < 0) {
        struct error other;

        program_run(remove, &other); /* it may have filled the disk */
        return result;
    }
    if (rename(fresh, tree) < 0)
        return error_set_errno(error, -errno, "cannot make %s", tree);
    result = file_sync_folder(AT_FDCWD, tree);
    return result < 0 ? error_set_errno(error, result, "cannot write %s to disk", tree) : 0;
}

/* Says it in the log, and in a record that becomes the reason of the job's failure. Returns the
 * exit status. */
static int unpack_fail(const struct error *error)
{
    bool full = error->code == -ENOSPC || error->code == -EDQUOT;
    JSON_AUTO struct json_object *record = json_object_new_object();
    const char *text;
    size_t length;

    log_error("%s", error->text);
    json_set_int(record, "n", 1);
    json_set_double(record, "time", clock_now());
    json_set_string(record, "type", "error");
    json_set_string(record, "kind", full ? "disk_full" : "data");
    json_set_string(record, "message", error->text);
    text = json_text(record, &length);
    dprintf(ATTEMPT_METRICS_DESCRIPTOR, "%.*s\n", (int)length, text);
    return full ? NO_ROOM : NOT_STARTED;
}

static void tree_path(char tree[PATH_MAX], const char *folder)
{
    snprintf(tree, PATH_MAX, "%.*s/tree", PATH_MAX - 32, folder);
}

bool shim_unpack_lacked_room(const struct attempt_config *config, int status)
{
    char tree[PATH_MAX];

    if (!WIFEXITED(status) || WEXITSTATUS(status) != NO_ROOM || !config->arguments[0] ||
        !config->arguments[1] || strcmp(config->arguments[1], SHIM_UNPACK) != 0 ||
        !config->arguments[2] || !config->arguments[3])
        return false;
    tree_path(tree, config->arguments[3]);
    return access(tree, F_OK) < 0; /* else the command itself ended so */
}

int shim_unpack(char *archive, const char *folder, const char *inner, char **command)
{
    char fresh[PATH_MAX], tree[PATH_MAX], directory[2 * PATH_MAX];
    struct error error;

    snprintf(fresh, sizeof fresh, "%.*s/tree.unpacked", PATH_MAX - 32, folder);
    tree_path(tree, folder);
    snprintf(directory, sizeof directory, "%s/%s", tree, inner);
    if (access(tree, F_OK) < 0 && unpack(archive, fresh, tree, &error) < 0) {
        error_prefix(&error, "the job's snapshot could not be unpacked");
        return unpack_fail(&error);
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
