/* snapshot.c: see snapshot.h. tar(1) copies the files, as the user, into a file that the daemon
 * made for it (BeginSnapshot). So the daemon reads nothing of a user's, and the copy is complete
 * and on the disk before the job is submitted. */
#include "client/submission/snapshot.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/submission/program.h"
#include "client/submission/snapshot_files.h"
#include "proto/job_spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const double PROGRESS_AFTER_SECONDS = 1, PROGRESS_EVERY_SECONDS = 0.5;

struct snapshot {
    struct snapshot_files files;
    bool git;
    char *commit; /* owned; NULL: there is none */
    bool changed;
    char path[PATH_MAX]; /* of the daemon's empty file */
    struct sha256 hash;
    char id[SHA256_HEX_SIZE];
};

static void snapshot_release(struct snapshot *snapshot)
{
    snapshot_files_release(&snapshot->files);
    free(snapshot->commit);
}

/* ---- what git says --------------------------------------------------------------------------- */

/* The commit that is checked out; none if the repository has none. */
static void commit_read(struct snapshot *snapshot)
{
    const char *const arguments[] = {"git",  "-C", snapshot->files.folder, "rev-parse", "--verify",
                                     "HEAD", NULL};
    AUTO_FREE char *output = NULL;
    size_t size;

    if (program_read(arguments, NULL, &output, &size, NULL) != 0)
        return;
    output[strcspn(output, "\n")] = '\0';
    snapshot->commit = TAKE_POINTER(output);
}

/* Copies the index of git to a file of its own; the caller removes it. NULL: there is none. */
static char *index_copy(const struct snapshot *snapshot)
{
    const char *const arguments[] = {
        "git", "-C", snapshot->files.folder, "rev-parse", "--git-path", "index", NULL};
    AUTO_FREE char *name = NULL, *content = NULL, *path = NULL, *copy = NULL;
    AUTO_CLOSE int file = -1;
    const char *folder = getenv("TMPDIR");
    size_t size;

    if (program_read(arguments, NULL, &name, &size, NULL) != 0)
        return NULL;
    name[strcspn(name, "\n")] = '\0';
    if (asprintf(&path, "%s%s%s", *name == '/' ? "" : snapshot->files.folder,
                 *name == '/' ? "" : "/", name) < 0 ||
        asprintf(&copy, "%s/trainctl-index.XXXXXX", folder ? folder : "/tmp") < 0 ||
        file_read(AT_FDCWD, path, SIZE_MAX / 2, &content, &size, NULL) < 0)
        return NULL;
    file = mkostemp(copy, O_CLOEXEC);
    if (file < 0)
        return NULL;
    if (file_write_all(file, content, size) < 0) {
        unlink(copy);
        return NULL;
    }
    return TAKE_POINTER(copy);
}

/* Takes submodules whose repository is gone out of the copy of the index: what lies there is new,
 * and git would not look at it. */
static void bare_modules_forget(const struct snapshot *snapshot, const char *variable)
{
    const char *const command[] = {
        "git", "-C", snapshot->files.folder, "update-index", "--force-remove", "--"};
    enum { WORDS = sizeof command / sizeof *command };
    const struct snapshot_files *files = &snapshot->files;
    AUTO_FREE const char **arguments =
        calloc(WORDS + files->bare_module_count + 1, sizeof *arguments);
    AUTO_FREE char *output = NULL;
    size_t unused;

    if (!arguments || files->bare_module_count == 0)
        return;
    memcpy(arguments, command, sizeof command);
    for (size_t i = 0; i < files->bare_module_count; i++)
        arguments[WORDS + i] = files->bare_modules[i];
    program_read(arguments, variable, &output, &unused, NULL);
}

/* Reads how the files differ from the commit, new files included: a copy of the index says of these
 * that they are to be added, so that the user's own index does not change. */
static int diff_read(const struct snapshot *snapshot, char **diff, size_t *size,
                     struct error *error)
{
    const char *folder = snapshot->files.folder;
    const char *const add[] = {"git",   "-C", folder, "add", "--intent-to-add",
                               "--all", "--", ".",    NULL};
    const char *const compare[] = {
        "git", "-C", folder, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", NULL};
    AUTO_FREE char *index = index_copy(snapshot), *variable = NULL, *output = NULL;
    size_t unused;
    int result;

    if (index && asprintf(&variable, "GIT_INDEX_FILE=%s", index) < 0)
        variable = NULL;
    if (variable)
        bare_modules_forget(snapshot, variable);
    if (variable)
        program_read(add, variable, &output, &unused, NULL);
    result = program_read(compare, variable, diff, size, error);
    if (result > 0)
        program_complain(compare, variable);
    if (index)
        unlink(index);
    if (result > 0)
        return error_set(error, -EINVAL,
                         "--snapshot: `git diff HEAD` failed in %s, for the reason "
                         "above; mend that, or name the folder to take, as in --snapshot=.",
                         folder);
    return result;
}

/* Writes the diff into the daemon's file. The id depends on it, too: the same files may be the
 * change of another commit. */
static int diff_write(struct snapshot *snapshot, struct error *error)
{
    AUTO_FREE char *diff = NULL, *path = NULL;
    AUTO_CLOSE int file = -1;
    size_t size = 0;
    int result = snapshot->commit ? diff_read(snapshot, &diff, &size, error) : 0;

    if (result < 0)
        return result;
    snapshot->changed = size > 0;
    sha256_begin(&snapshot->hash);
    if (snapshot->commit)
        sha256_add(&snapshot->hash, snapshot->commit, strlen(snapshot->commit));
    sha256_add(&snapshot->hash, diff, size);
    if (asprintf(&path, "%s.diff", snapshot->path) < 0)
        return error_no_memory(error, "a path");
    file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
    result = file < 0 ? -errno : file_write_all(file, diff, size);
    if (result == 0 && fsync(file) < 0)
        result = -errno;
    return result < 0 ? error_set_errno(error, result, "cannot write %s", path) : 0;
}

/* ---- the copy -------------------------------------------------------------------------------- */

/* The names, each with a NUL, as a file in memory. */
static int names_open(const struct snapshot_files *files, struct error *error)
{
    AUTO_CLOSE int file = memfd_create("names", MFD_CLOEXEC);
    int result = file < 0 ? -errno : 0;

    for (size_t i = 0; i < files->count && result == 0; i++)
        result = file_write_all(file, files->names[i], strlen(files->names[i]) + 1);
    if (result == 0 && lseek(file, 0, SEEK_SET) < 0)
        result = -errno;
    return result < 0 ? error_set_errno(error, result, "cannot list the files of a snapshot")
                      : TAKE_DESCRIPTOR(file);
}

/* On a terminal, redraws a line about a copy that takes long. */
static void progress_show(const struct snapshot *snapshot, uint64_t done, double begun,
                          double *shown)
{
    double now = clock_now();
    char copied[32], all[32];

    if (!isatty(STDERR_FILENO) || now - begun < PROGRESS_AFTER_SECONDS ||
        now - *shown < PROGRESS_EVERY_SECONDS)
        return;
    *shown = now;
    fprintf(stderr, "\r\033[Ksnapshot: %s of %s copied",
            text_format_bytes(done, copied, sizeof copied),
            text_format_bytes(snapshot->files.bytes, all, sizeof all));
}

/* Copies what comes out of `input` into `output`, and adds it to the hash. */
static int archive_copy(struct snapshot *snapshot, int input, int output, struct error *error)
{
    enum { BLOCK = 1 << 20 };
    AUTO_FREE char *block = malloc(BLOCK);
    double begun = clock_now(), shown = 0;
    uint64_t done = 0;
    int result = 0;

    if (!block)
        return error_no_memory(error, "a snapshot");
    while (result == 0) {
        ssize_t got = read(input, block, BLOCK);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            result = got < 0 ? -errno : 0;
            break;
        }
        sha256_add(&snapshot->hash, block, (size_t)got);
        result = file_write_all(output, block, (size_t)got);
        done += (uint64_t)got;
        progress_show(snapshot, done, begun, &shown);
    }
    if (shown > 0)
        fputs("\r\033[K", stderr);
    if (result == 0 && fsync(output) < 0)
        result = -errno;
    return result < 0
               ? error_set_errno(error, result, "cannot write the snapshot %s", snapshot->path)
               : 0;
}

static int archive_write(struct snapshot *snapshot, struct error *error)
{
    const char *const arguments[] = {"tar",
                                     "--create",
                                     "--directory",
                                     snapshot->files.folder,
                                     "--no-recursion",
                                     "--null",
                                     "--verbatim-files-from",
                                     "--files-from=-",
                                     "--hard-dereference",
                                     "--format=posix",
                                     "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/%f",
                                     "--owner=0",
                                     "--group=0",
                                     "--numeric-owner",
                                     "--mode=u+rwX",
                                     "--file=-",
                                     NULL};
    AUTO_CLOSE int names = names_open(&snapshot->files, error), input = -1, output = -1;
    pid_t pid;
    int result, status;

    if (names < 0)
        return names;
    output = open(snapshot->path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
    if (output < 0)
        return error_set_errno(error, -errno, "cannot write the snapshot %s", snapshot->path);
    result = program_start(arguments, "LC_ALL=C.UTF-8", names, false, &input, &pid, error);
    if (result < 0)
        return result;
    result = archive_copy(snapshot, input, output, error);
    close(TAKE_DESCRIPTOR(input));
    status = program_wait(pid);
    if (result == 0 && status)
        return error_set(error, -ESTALE,
                         "--snapshot: files of %s changed while they were copied; submit it again",
                         snapshot->files.folder);
    sha256_end(&snapshot->hash, snapshot->id);
    return result;
}

/* ---- what to take ---------------------------------------------------------------------------- */

/* The place of `directory` in the folder, "" for the folder itself; NULL: it lies elsewhere. */
static const char *place_in(const char *folder, const char *directory)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): folder_choose() has set it */
    size_t length = strlen(folder);

    if (strcmp(folder, "/") == 0)
        return directory + 1;
    if (strncmp(folder, directory, length) != 0 || (directory[length] && directory[length] != '/'))
        return NULL;
    return directory + length + (directory[length] == '/');
}

/* Finds the folder of the first job, and makes sure that all are commands that run in it. */
static int folder_choose(struct snapshot *snapshot, const char *named, struct json_object *specs,
                         struct error *error)
{
    for (size_t i = 0; i < json_object_array_length(specs); i++) {
        struct json_object *spec = json_object_array_get_idx(specs, i);
        const char *given = json_get_string(spec, "directory", NULL);
        AUTO_FREE char *directory = given ? realpath(given, NULL) : NULL;

        if (!json_get(spec, "command"))
            return error_set(error, -EINVAL,
                             "--snapshot freezes the code of a command; \"%.80s\" is a native job, "
                             "which has none",
                             json_get_string(spec, "name", "job"));
        if (!directory)
            return error_set_errno(error, given ? -errno : -EINVAL, "--snapshot: directory %s",
                                   given ? given : "is missing");
        if (!snapshot->files.folder)
            snapshot->files.folder =
                named ? realpath(named, NULL) : snapshot_git_folder(directory, error);
        if (!snapshot->files.folder)
            return named ? error_set_errno(error, -errno, "--snapshot=%s", named) : -EINVAL;
        if (!place_in(snapshot->files.folder, directory))
            return error_set(error, -EINVAL,
                             "--snapshot: the job runs in %s, which does not lie in %s; run it "
                             "there (--directory), or name a folder that has both",
                             directory, snapshot->files.folder);
        json_set_string(spec, "directory", directory);
    }
    return 0;
}

static int files_choose(struct snapshot *snapshot, struct invocation *invocation,
                        const char *directory, struct error *error)
{
    CLEANUP(varlink_reply_release) struct varlink_reply limits = {0};

    if (connection_call(invocation, "Limits", NULL, &limits))
        return -EIO; /* already printed */
    snapshot->files.bytes_max = (uint64_t)json_get_int(limits.parameters, "snapshot_bytes_max", 0);
    return snapshot_files_find(&snapshot->files, snapshot->git,
                               place_in(snapshot->files.folder, directory), error);
}

/* ---- what to tell ---------------------------------------------------------------------------- */

static void tell_names(const struct snapshot_names *names, const char *what)
{
    char text[512];

    if (names->count)
        fprintf(stderr, "snapshot: %s: %s\n", what,
                snapshot_names_format(names, text, sizeof text));
}

/* Whether the text names something below the folder by an absolute path. */
static bool names_folder(const char *text, const char *folder)
{
    size_t length = strlen(folder);

    for (const char *at = text; length > 1 && (at = strstr(at, folder)); at++)
        if ((at == text || strchr(":= ", at[-1])) && strchr("/: ", at[length]))
            return true;
    return false;
}

/* An absolute path leads out of the snapshot, to what may change. */
static void tell_absolute(const struct snapshot *snapshot, struct json_object *spec)
{
    struct json_object *command = json_get(spec, "command");
    const char *folder = snapshot->files.folder;
    const char *path = json_get_string(json_get(spec, "environment"), "PYTHONPATH", "");

    for (size_t i = 0; i < json_object_array_length(command); i++) {
        const char *word = json_object_get_string(json_object_array_get_idx(command, i));

        if (word && names_folder(word, folder))
            fprintf(stderr,
                    "snapshot: \"%s\" is an absolute path, so the job uses the present file and "
                    "not the copy: write it relative to its directory\n",
                    word);
    }
    if (names_folder(path, folder))
        fprintf(stderr,
                "snapshot: PYTHONPATH=%s leads to the present files and not to the copy: write it "
                "relative, or leave it out (--env PYTHONPATH=)\n",
                path);
}

static void tell(const struct snapshot *snapshot, struct json_object *specs)
{
    const struct snapshot_files *files = &snapshot->files;
    char bytes[32];

    fprintf(stderr, "snapshot: %zu file%s, %s, of %s", files->files, files->files == 1 ? "" : "s",
            text_format_bytes(files->bytes, bytes, sizeof bytes), files->folder);
    if (snapshot->commit)
        fprintf(stderr, " at commit %.10s%s", snapshot->commit,
                snapshot->changed ? " with changes" : "");
    fputc('\n', stderr);
    tell_names(&files->left_out, "left out, as they are no files");
    tell_names(&files->leading_out, "links lead out of it, so what they name may change");
    tell_names(&files->pointers, "pointers of Git LFS, whose content is not here (git lfs pull)");
    tell_names(&files->empty_modules, "submodules that are not checked out are empty");
    for (size_t i = 0; i < json_object_array_length(specs); i++)
        tell_absolute(snapshot, json_object_array_get_idx(specs, i));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum exit_status refuse(const struct error *error)
{
    if (error->code)
        complain("%s", error->text);
    return EXIT_STATUS_FAILED;
}

/* Asks the daemon for the files to write into. */
static enum exit_status upload_begin(struct invocation *invocation, struct snapshot *snapshot)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set_int(parameters, "bytes", (int64_t)snapshot->files.bytes);
    status = connection_call(invocation, "BeginSnapshot", parameters, &reply);
    if (!status)
        snprintf(snapshot->path, sizeof snapshot->path, "%s",
                 json_get_string(reply.parameters, "path", ""));
    return status;
}

static enum exit_status upload_keep(struct invocation *invocation, const struct snapshot *snapshot)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();

    json_set_string(parameters, "path", snapshot->path);
    json_set_string(parameters, "id", snapshot->id);
    return connection_call(invocation, "KeepSnapshot", parameters, &reply);
}

static void spec_add(const struct snapshot *snapshot, struct json_object *spec)
{
    struct json_object *member = json_object_new_object();

    json_set_string(member, "id", snapshot->id);
    json_set_string(member, "folder", snapshot->files.folder);
    json_set_string(member, "commit", snapshot->commit);
    if (snapshot->commit)
        json_set_bool(member, "changed", snapshot->changed);
    json_set_int(member, "files", (int64_t)snapshot->files.files);
    json_set_int(member, "bytes", (int64_t)snapshot->files.bytes);
    json_set(spec, "snapshot", member);
}

enum exit_status snapshot_add(struct invocation *invocation, struct json_object *specs)
{
    CLEANUP(snapshot_release) struct snapshot snapshot = {0};
    const char *named = invocation_option(invocation, "snapshot");
    struct error error = {0};
    enum exit_status status;
    size_t count = json_object_array_length(specs);

    if (!invocation_flag(invocation, "snapshot") || count == 0)
        return EXIT_STATUS_DONE;
    snapshot.git = !named;
    if (folder_choose(&snapshot, named, specs, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (files_choose(&snapshot, invocation,
                     json_get_string(json_object_array_get_idx(specs, 0), "directory", "/"),
                     &error) < 0)
        return refuse(&error);
    if (snapshot.git)
        commit_read(&snapshot);
    status = upload_begin(invocation, &snapshot);
    if (status)
        return status;
    if (diff_write(&snapshot, &error) < 0 || archive_write(&snapshot, &error) < 0)
        return refuse(&error);
    status = upload_keep(invocation, &snapshot);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        spec_add(&snapshot, json_object_array_get_idx(specs, i));
    tell(&snapshot, specs);
    return EXIT_STATUS_DONE;
}
