/* snapshot_files.c: see snapshot_files.h. */
#include "client/submission/snapshot_files.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "client/submission/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES_MAX = 1000000,
    DEPTH_MAX = 128,        /* of submodules, or of folders */
    LFS_POINTER_MAX = 1024, /* bytes of a file that Git LFS stands for another one with */
    LARGE_PART = 10,        /* a file of more than this part of the limit is named */
};

static int look(struct snapshot_files *files, bool git, const char *name, int depth,
                struct error *error);

/* ---- names ----------------------------------------------------------------------------------- */

static void names_add(struct snapshot_names *names, const char *name)
{
    if (names->count < SNAPSHOT_NAMED_MAX)
        names->names[names->count] = strdup(name);
    names->count++;
}

char *snapshot_names_format(const struct snapshot_names *names, char *output, size_t size)
{
    size_t used = 0, shown = 0;
    char escaped[PATH_MAX];

    *output = '\0';
    for (; shown < names->count && shown < SNAPSHOT_NAMED_MAX && used + 64 < size; shown++) {
        if (names->names[shown])
            text_escape_controls(names->names[shown], escaped, sizeof escaped);
        else
            strcpy(escaped, "?");
        used += (size_t)snprintf(output + used, size - used, "%s%.*s", shown ? ", " : "",
                                 (int)(size - used - 40), escaped);
    }
    if (names->count > shown)
        snprintf(output + used, size - used, " and %zu others", names->count - shown);
    return text_make_utf8(output);
}

static void names_release(struct snapshot_names *names)
{
    for (size_t i = 0; i < names->count && i < SNAPSHOT_NAMED_MAX; i++)
        free(names->names[i]);
}

void snapshot_files_release(struct snapshot_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->names[i]);
    for (size_t i = 0; i < files->bare_module_count; i++)
        free(files->bare_modules[i]);
    free(files->bare_modules);
    free(files->plain);
    free(files->names);
    free(files->folder);
    names_release(&files->left_out);
    names_release(&files->unreadable);
    names_release(&files->leading_out);
    names_release(&files->pointers);
    names_release(&files->empty_modules);
    names_release(&files->largest);
}

static int take(struct snapshot_files *files, const char *name, struct error *error)
{
    if (files->count >= FILES_MAX)
        return error_set(error, -E2BIG,
                         "the snapshot of %s has more than %d files; ignore what is no code, or "
                         "name a smaller folder",
                         files->folder, FILES_MAX);
    if (files->count == files->room) {
        size_t room = files->room ? 2 * files->room : 256;
        char **grown = reallocarray(files->names, room, sizeof *grown);

        if (!grown)
            return error_no_memory(error, "%zu names of files", room);
        files->names = grown;
        files->room = room;
    }
    files->names[files->count] = strdup(name);
    return files->names[files->count++] ? 0 : error_no_memory(error, "a file's name");
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Whether a relative link, from the folder of `name`, stays in the snapshot. */
static bool link_stays(const char *name, const char *target)
{
    int depth = 0;

    if (*target == '/')
        return false;
    for (const char *at = name; *at; at++)
        depth += *at == '/';
    for (const char *at = target; *at;) {
        size_t length = strcspn(at, "/");

        if (length == 2 && at[0] == '.' && at[1] == '.')
            depth--;
        else if (length > 0 && !(length == 1 && *at == '.'))
            depth++;
        if (depth < 0)
            return false;
        at += length;
        at += *at == '/';
    }
    return true;
}

static bool is_lfs_pointer(const char *path)
{
    static const char begin[] = "version https://git-lfs.github.com/spec/";
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[sizeof begin];

    return file >= 0 && read(file, text, sizeof begin - 1) == (ssize_t)sizeof begin - 1 &&
           memcmp(text, begin, sizeof begin - 1) == 0;
}

static int too_large(const struct snapshot_files *files, struct error *error)
{
    char most[32], names[512];

    return error_set(error, -EDQUOT,
                     "the snapshot of %s would have more than %s, which is the most that is taken "
                     "(BytesPerSnapshot)%s%s. Ignore what is no code (.gitignore), name a smaller "
                     "folder, or run without --snapshot; nothing was copied",
                     files->folder, text_format_bytes(files->bytes_max, most, sizeof most),
                     files->largest.count ? "; large are " : "",
                     snapshot_names_format(&files->largest, names, sizeof names));
}

static int take_regular(struct snapshot_files *files, const char *name, const char *path,
                        const struct stat *status, struct error *error)
{
    uint64_t size = (uint64_t)status->st_size;

    if (access(path, R_OK) < 0) {
        names_add(&files->unreadable, name);
        return 0;
    }
    if (status->st_size > 0 && status->st_size <= LFS_POINTER_MAX && is_lfs_pointer(path))
        names_add(&files->pointers, name);
    if (files->bytes_max && size > files->bytes_max / LARGE_PART) {
        char bytes[32];
        AUTO_FREE char *named = NULL;

        if (asprintf(&named, "%s (%s)", name, text_format_bytes(size, bytes, sizeof bytes)) >= 0)
            names_add(&files->largest, named);
    }
    files->files++;
    files->bytes += size;
    if (files->bytes_max && files->bytes > files->bytes_max)
        return too_large(files, error);
    return take(files, name, error);
}

static int take_link(struct snapshot_files *files, const char *name, const char *path,
                     struct error *error)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);

    if (length < 0)
        return error_set_errno(error, -errno, "cannot read the link %s", path);
    target[length] = '\0';
    if (!link_stays(name, target))
        names_add(&files->leading_out, name);
    files->files++;
    return take(files, name, error);
}

/* ---- folders --------------------------------------------------------------------------------- */

static int folder_list(struct snapshot_files *files, const char *name, const char *path, int depth,
                       struct error *error)
{
    DIR *listing = opendir(path);
    struct dirent *entry;
    int result = *name ? take(files, name, error) : 0;

    if (!listing) {
        names_add(&files->unreadable, *name ? name : ".");
        return result;
    }
    while (result == 0 && (entry = readdir(listing))) {
        AUTO_FREE char *inner = NULL;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strcmp(entry->d_name, ".git") == 0)
            continue;
        if (asprintf(&inner, "%s%s%s", name, *name ? "/" : "", entry->d_name) < 0)
            result = error_no_memory(error, "a file's name");
        else
            result = look(files, false, inner, depth + 1, error);
    }
    closedir(listing);
    return result;
}

/* ---- what git does not list ------------------------------------------------------------------ */

/* A working tree whose pipes, sockets and devices are looked for. */
struct special_search {
    struct snapshot_files *files;
    const char *name; /* of the tree in the snapshot; "": it is the snapshot's folder */
    const char *path;
    const char *variable; /* for git */
    char *ignored; /* folders that git ignores, each with a slash and a NUL behind it; owned */
    size_t ignored_size;
};

static bool folder_is_ignored(const struct special_search *search, const char *inner)
{
    size_t length = strlen(inner);

    for (size_t at = 0; at < search->ignored_size; at += strlen(search->ignored + at) + 1) {
        const char *folder = search->ignored + at;

        if (strncmp(folder, inner, length) == 0 && strcmp(folder + length, "/") == 0)
            return true;
    }
    return false;
}

static bool special_is_ignored(const struct special_search *search, const char *inner)
{
    const char *const arguments[] = {"git",     "-C", search->path, "check-ignore",
                                     "--quiet", "--", inner,        NULL};
    AUTO_FREE char *output = NULL;
    size_t size;

    return program_read(arguments, search->variable, &output, &size, NULL) == 0;
}

/* Whether another search looks at the folder: it is a repository, or was one. */
static bool folder_is_apart(const struct special_search *search, const char *inner)
{
    const struct snapshot_files *files = search->files;
    AUTO_FREE char *own = NULL, *named = NULL;

    if (asprintf(&own, "%s/%s/.git", search->path, inner) < 0 ||
        asprintf(&named, "%s%s%s", search->name, *search->name ? "/" : "", inner) < 0 ||
        access(own, F_OK) == 0)
        return true;
    for (size_t i = 0; i < files->bare_module_count; i++)
        if (strcmp(files->bare_modules[i], named) == 0)
            return true;
    return false;
}

static void special_look(const struct special_search *search, const char *inner, int type,
                         int depth);

/* Looks below a folder of the tree that is no repository of its own. */
static void specials_of_folder(const struct special_search *search, const char *inner, int depth)
{
    AUTO_FREE char *path = NULL;
    struct dirent *entry;
    DIR *listing;

    if (asprintf(&path, "%s/%s", search->path, inner) < 0 || !(listing = opendir(path)))
        return;
    while ((entry = readdir(listing))) {
        AUTO_FREE char *name = NULL;

        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, ".git") != 0 &&
            asprintf(&name, "%s%s%s", inner, *inner ? "/" : "", entry->d_name) >= 0)
            special_look(search, name, entry->d_type, depth);
    }
    closedir(listing);
}

static void special_look(const struct special_search *search, const char *inner, int type,
                         int depth)
{
    AUTO_FREE char *named = NULL;

    if (type == DT_DIR) {
        if (depth < DEPTH_MAX && !folder_is_apart(search, inner) &&
            !folder_is_ignored(search, inner))
            specials_of_folder(search, inner, depth + 1);
        return;
    }
    if (type != DT_FIFO && type != DT_SOCK && type != DT_CHR && type != DT_BLK)
        return;
    if (special_is_ignored(search, inner) ||
        asprintf(&named, "%s%s%s", search->name, *search->name ? "/" : "", inner) < 0)
        return;
    names_add(&search->files->left_out, named);
}

/* Names what git leaves out without a word, but for what it is told to ignore. */
static void specials_name(struct snapshot_files *files, const char *name, const char *path,
                          const char *variable)
{
    const char *const arguments[] = {"git",         "-C",       path,        "ls-files",
                                     "-z",          "--others", "--ignored", "--exclude-standard",
                                     "--directory", NULL};
    struct special_search search = {
        .files = files, .name = name, .path = path, .variable = variable};

    if (program_read(arguments, variable, &search.ignored, &search.ignored_size, NULL) == 0)
        specials_of_folder(&search, "", 0);
    free(search.ignored);
}

/* Takes what git lists below the working tree `name` ("": that of the folder itself). `variable`:
 * see program_read(). */
static int git_list(struct snapshot_files *files, const char *name, const char *path,
                    const char *variable, int depth, struct error *error)
{
    const char *const arguments[] = {
        "git", "-C", path, "ls-files", "-z", "--cached", "--others", "--exclude-standard", NULL};
    AUTO_FREE char *output = NULL;
    size_t size = 0;
    int result = program_read(arguments, variable, &output, &size, error);

    if (result < 0)
        return result;
    if (result > 0) {
        program_complain(arguments, variable);
        return error_set(error, -EINVAL,
                         "--snapshot: `git ls-files` failed in %s, for the reason "
                         "above; mend that, or name the folder to take, as in --snapshot=.",
                         path);
    }
    for (size_t at = 0; at < size && result == 0; at += strlen(output + at) + 1) {
        AUTO_FREE char *inner = NULL;
        size_t length = strlen(output + at);

        if (length && output[at + length - 1] == '/') /* a repository that is not a submodule */
            length--;
        if (asprintf(&inner, "%s%s%.*s", name, *name ? "/" : "", (int)length, output + at) < 0)
            result = error_no_memory(error, "a file's name");
        else
            result = look(files, true, inner, depth + 1, error);
    }
    if (result == 0)
        specials_name(files, name, path, variable);
    return result;
}

static bool folder_is_empty(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool is_empty = folder != NULL;

    while (is_empty && (entry = readdir(folder)))
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (folder)
        closedir(folder);
    return is_empty;
}

/* Whether git has the folder in its index as a submodule. */
static bool is_submodule(const char *path)
{
    static const char mode[] = "160000 ";
    const char *base = strrchr(path, '/') + 1;
    AUTO_FREE char *parent = strndup(path, (size_t)(base - path)), *output = NULL;
    const char *const arguments[] = {
        "git", "--literal-pathspecs", "-C", parent, "ls-files", "-z", "--stage", "--", base, NULL};
    size_t size = 0;

    return parent && program_read(arguments, "GIT_OPTIONAL_LOCKS=0", &output, &size, NULL) == 0 &&
           strncmp(output, mode, sizeof mode - 1) == 0;
}

/* Takes a submodule that is no repository: it has not been checked out, or its `.git` has been
 * removed to keep the files as they are. Git lists nothing below one that is in its index. */
static int take_bare_module(struct snapshot_files *files, const char *name, const char *path,
                            int depth, struct error *error)
{
    int result = take(files, name, error);
    char **grown;

    if (result < 0)
        return result;
    if (folder_is_empty(path)) {
        names_add(&files->empty_modules, name);
        return 0;
    }
    grown = reallocarray(files->bare_modules, files->bare_module_count + 1, sizeof *grown);
    if (!grown)
        return error_no_memory(error, "a submodule's name");
    files->bare_modules = grown;
    grown[files->bare_module_count] = strdup(name);
    if (!grown[files->bare_module_count])
        return error_no_memory(error, "a submodule's name");
    files->bare_module_count++;
    return git_list(files, name, path, "GIT_INDEX_FILE=/dev/none/index", depth, error);
}

/* A folder that git lists is another repository, which is a submodule or lies in this one, or has
 * taken the place of a file: then git lists what is in it, too. */
static int take_folder(struct snapshot_files *files, bool git, const char *name, const char *path,
                       int depth, struct error *error)
{
    AUTO_FREE char *own = NULL;

    if (depth > DEPTH_MAX)
        return error_set(error, -ELOOP, "%s lies more than %d folders deep", path, DEPTH_MAX);
    if (!git)
        return folder_list(files, name, path, depth, error);
    if (asprintf(&own, "%s/.git", path) < 0)
        return error_no_memory(error, "a file's name");
    if (access(own, F_OK) == 0)
        return git_list(files, name, path, "GIT_OPTIONAL_LOCKS=0", depth, error);
    if (is_submodule(path))
        return take_bare_module(files, name, path, depth, error);
    return take(files, name, error);
}

/* Whether a link has taken the place of one of the file's folders: then git has not been told yet
 * that it was removed, and what lies behind the link is another file. */
static bool is_behind_link(struct snapshot_files *files, const char *name)
{
    const char *last = strrchr(name, '/');
    size_t length = last ? (size_t)(last - name) : 0;

    if (length == 0 || (files->plain && strlen(files->plain) == length &&
                        strncmp(files->plain, name, length) == 0))
        return false;
    for (const char *slash = name; (slash = strchr(slash, '/')); slash++) {
        AUTO_FREE char *path = NULL;
        struct stat status;

        if (asprintf(&path, "%s/%.*s", files->folder, (int)(slash - name), name) >= 0 &&
            lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
            return true;
    }
    free(files->plain);
    files->plain = strndup(name, length);
    return false;
}

static int look(struct snapshot_files *files, bool git, const char *name, int depth,
                struct error *error)
{
    AUTO_FREE char *path = NULL;
    struct stat status;

    if (git && is_behind_link(files, name))
        return 0;
    if (asprintf(&path, "%s/%s", files->folder, name) < 0)
        return error_no_memory(error, "a file's name");
    if (lstat(path, &status) < 0) {
        if (errno == ENOENT || errno == ENOTDIR) /* removed, which git has not been told */
            return 0;
        names_add(&files->unreadable, name);
        return 0;
    }
    if (S_ISREG(status.st_mode))
        return take_regular(files, name, path, &status, error);
    if (S_ISLNK(status.st_mode))
        return take_link(files, name, path, error);
    if (S_ISDIR(status.st_mode))
        return take_folder(files, git, name, path, depth, error);
    names_add(&files->left_out, name);
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Whether there is something of git at the folder, or at one above it. */
static bool git_is_there(const char *directory)
{
    AUTO_FREE char *folder = strdup(directory);
    char *slash;

    if (getenv("GIT_DIR"))
        return true;
    while (folder && *folder) {
        AUTO_FREE char *path = NULL;

        if (asprintf(&path, "%s/.git", folder) >= 0 && access(path, F_OK) == 0)
            return true;
        slash = strrchr(folder, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    return false;
}

char *snapshot_git_folder(const char *directory, struct error *error)
{
    const char *const arguments[] = {"git", "-C", directory, "rev-parse", "--show-toplevel", NULL};
    AUTO_FREE char *output = NULL;
    size_t size = 0;
    int result = program_read(arguments, NULL, &output, &size, error);

    if (result == 0 && size > 1) {
        output[size - 1] = '\0';
        return TAKE_POINTER(output);
    }
    if (result > 0 && git_is_there(directory)) { /* the tree is another user's, or damaged */
        program_complain(arguments, NULL);
        error_set(error, -EINVAL,
                  "--snapshot: git refuses the working tree of %s, for the reason "
                  "above; mend that, or name the folder to take, as in --snapshot=.",
                  directory);
    } else if (result >= 0) {
        error_set(error, -EINVAL,
                  "--snapshot: %s lies in no working tree of git; name the folder to take, as in "
                  "--snapshot=.",
                  directory);
    }
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files in conflict are listed several times by git. */
static void sort_names(struct snapshot_files *files)
{
    size_t kept = 0;

    if (files->count)
        qsort(files->names, files->count, sizeof *files->names, compare_names);
    for (size_t i = 0; i < files->count; i++)
        if (kept && strcmp(files->names[kept - 1], files->names[i]) == 0)
            free(files->names[i]);
        else
            files->names[kept++] = files->names[i];
    files->count = kept;
}

int snapshot_files_find(struct snapshot_files *files, bool git, const char *inner,
                        struct error *error)
{
    char names[512];
    int result = *inner ? take(files, inner, error) : 0;

    if (result == 0)
        result = git ? git_list(files, "", files->folder, "GIT_OPTIONAL_LOCKS=0", 0, error)
                     : folder_list(files, "", files->folder, 0, error);
    if (result < 0)
        return result;
    sort_names(files);
    if (files->unreadable.count)
        return error_set(error, -EACCES,
                         "--snapshot: you may not read %s in %s; make it readable, ignore it, or "
                         "name another folder",
                         snapshot_names_format(&files->unreadable, names, sizeof names),
                         files->folder);
    return 0;
}
