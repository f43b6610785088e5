/* cache_folder.c: the folder of cached data sets: where it is, how much it may hold, and its
 * locks. */
#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

enum { PARTS_KEPT_SECONDS = 7 * 24 * 3600 };
static const char limit_variable[] = "TRAIND_CACHE_LIMIT";

/* ---- the folder ---- */

/* Opens the folder `name` below `*path`, which it makes if necessary, and appends it to the
 * path. */
static int folder_enter(int *folder, char **path, const char *name, struct error *error)
{
    char *longer = NULL;
    int next;

    if (asprintf(&longer, "%s/%s", *path, name) < 0)
        return error_set(error, -ENOMEM, "not enough memory to name the cache folder");
    free(*path);
    *path = longer;
    if (mkdirat(*folder, name, 0700) < 0 && errno != EEXIST)
        return error_set_errno(error, -errno, "cannot make the cache folder %s", *path);
    next = openat(*folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (next < 0)
        return error_set_errno(error, -errno, "cannot open the cache folder %s", *path);
    close(*folder);
    *folder = next;
    return 0;
}

static int folder_open_at(const char *base, bool home, char **path, struct error *error)
{
    static const char *const names[] = {".cache", "traind", "datasets"};
    AUTO_CLOSE int folder = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    int r = 0;

    *path = strdup(base);
    if (!*path)
        return error_set(error, -ENOMEM, "not enough memory to name the cache folder");
    if (folder < 0)
        return error_set_errno(error, -errno, "cannot open the folder %s", base);
    for (int i = home ? 0 : 1; r == 0 && i < 3; i++)
        r = folder_enter(&folder, path, names[i], error);
    if (r < 0)
        return r;
    if (fstat(folder, &status) < 0)
        return error_set_errno(error, -errno, "cannot look at the cache folder %s", *path);
    if (status.st_uid != geteuid())
        return error_set(error, -EPERM, "the cache folder %s belongs to another user", *path);
    return TAKE_DESCRIPTOR(folder);
}

int cache_folder_open(char **path, struct error *error)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int r;

    *path = NULL;
    if (cache && cache[0] == '/') {
        if (mkdir(cache, 0700) < 0 && errno != EEXIST)
            return error_set_errno(error, -errno, "cannot make the folder %s", cache);
        r = folder_open_at(cache, false, path, error);
    } else if (home && home[0] == '/') {
        r = folder_open_at(home, true, path, error);
    } else {
        r = error_set(error, -ENOENT, "neither HOME nor XDG_CACHE_HOME says where a cache may be");
    }
    if (r < 0)
        free(TAKE_POINTER(*path));
    return r;
}

/* ---- room ---- */

struct listed {
    char name[CACHE_NAME_SIZE];
    uint64_t bytes;
    struct timespec used;
};

static bool has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), wanted = strlen(suffix);

    return length > wanted && length < CACHE_NAME_SIZE &&
           strcmp(name + length - wanted, suffix) == 0;
}

/* Removes what a killed worker has left. A worker that is still writing holds the lock. */
static void remove_abandoned(int folder, const char *name)
{
    AUTO_CLOSE int descriptor = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
}

/* Returns how many finished parts the folder has. Deletes all files if `deletes` is set. */
static int parts_walk(int descriptor, bool deletes)
{
    int copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), finished = 0;
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;

    if (!stream) {
        if (copy >= 0)
            close(copy);
        return 0;
    }
    while ((entry = readdir(stream))) {
        finished += has_suffix(entry->d_name, CACHE_PART_SUFFIX);
        if (deletes)
            unlinkat(copy, entry->d_name, 0);
    }
    closedir(stream);
    return finished;
}

static int parts_open(int folder, const char *name)
{
    return openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

void cache_folder_remove_parts(int folder, const char *name)
{
    AUTO_CLOSE int descriptor = parts_open(folder, name);

    if (descriptor < 0)
        return;
    parts_walk(descriptor, true);
    unlinkat(folder, name, AT_REMOVEDIR);
}

/* Removes a folder of parts that a command was generating and that no run will use. */
static void remove_abandoned_parts(int folder, const char *name)
{
    AUTO_CLOSE int descriptor = parts_open(folder, name);
    struct stat status;

    if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) < 0 ||
        fstat(descriptor, &status) < 0)
        return;
    if (parts_walk(descriptor, false) == 0 || time(NULL) - status.st_mtime > PARTS_KEPT_SECONDS)
        cache_folder_remove_parts(folder, name);
}

static int compare_use(const void *a, const void *b)
{
    const struct listed *left = a, *right = b;

    if (left->used.tv_sec != right->used.tv_sec)
        return left->used.tv_sec < right->used.tv_sec ? -1 : 1;
    return (left->used.tv_nsec > right->used.tv_nsec) - (left->used.tv_nsec < right->used.tv_nsec);
}

/* Lists the finished files, the one unused for the longest time first. The caller frees the
 * list. */
static int list_files(int folder, struct listed **files, size_t *count, struct error *error)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    size_t capacity = 0;

    *files = NULL;
    *count = 0;
    if (!stream) {
        int code = -errno;

        if (copy >= 0)
            close(copy);
        return error_set_errno(error, code, "cannot list the cache folder");
    }
    while ((entry = readdir(stream))) {
        struct stat status;

        if (has_suffix(entry->d_name, ".tmp"))
            remove_abandoned(folder, entry->d_name);
        if (strncmp(entry->d_name, CACHE_PARTS_PREFIX, strlen(CACHE_PARTS_PREFIX)) == 0)
            remove_abandoned_parts(folder, entry->d_name);
        if (!has_suffix(entry->d_name, ".data") ||
            fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(status.st_mode))
            continue;
        if (*count == capacity) {
            struct listed *grown;

            capacity = capacity ? 2 * capacity : 16;
            grown = reallocarray(*files, capacity, sizeof *grown);
            if (!grown) {
                closedir(stream);
                return error_set(error, -ENOMEM, "not enough memory to list the cache folder");
            }
            *files = grown;
        }
        struct listed *file = &(*files)[(*count)++];
        *file = (struct listed){.bytes = (uint64_t)status.st_size, .used = status.st_mtim};
        snprintf(file->name, sizeof file->name, "%.*s", CACHE_NAME_SIZE - 1, entry->d_name);
    }
    closedir(stream);
    if (*count)
        qsort(*files, *count, sizeof **files, compare_use);
    return 0;
}

/* $TRAIND_CACHE_LIMIT, else half of what the cache holds and the file system has free, together. */
static int limit_find(int folder, uint64_t held, uint64_t *limit, struct error *error)
{
    const char *text = getenv(limit_variable);
    struct statvfs room;

    if (text && *text) {
        if (text_parse_bytes(text, limit) < 0)
            return error_set(error, -EINVAL, "%s is \"%.40s\", which is no size such as \"20 GiB\"",
                             limit_variable, text);
        return 0;
    }
    if (fstatvfs(folder, &room) < 0)
        return error_set_errno(error, -errno, "cannot find out how much room the cache has");
    *limit = (held + (uint64_t)room.f_bavail * room.f_frsize) / 2;
    return 0;
}

int cache_folder_make_room(int folder, uint64_t bytes, struct error *error)
{
    AUTO_FREE struct listed *files = NULL;
    size_t count;
    uint64_t held = 0, limit;
    char needed[32], allowed[32];
    int r = list_files(folder, &files, &count, error);

    for (size_t i = 0; i < count; i++)
        held += files[i].bytes;
    if (r == 0)
        r = limit_find(folder, held, &limit, error);
    if (r < 0)
        return r;
    if (bytes > limit)
        return error_set(error, -EFBIG, "they take %s, but the cache may hold %s (%s)",
                         text_format_bytes(bytes, needed, sizeof needed),
                         text_format_bytes(limit, allowed, sizeof allowed), limit_variable);
    for (size_t i = 0; i < count && held + bytes > limit; i++) {
        unlinkat(folder, files[i].name, 0); /* processes that have it mapped keep it */
        held -= files[i].bytes;
    }
    return 0;
}

/* ---- the lock ---- */

/* Whether the name still leads to this file. The process that held the lock before may have renamed
 * or deleted the file. */
static bool is_still_named(int folder, const char *name, int descriptor)
{
    struct stat own, named;

    return fstat(descriptor, &own) == 0 &&
           fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && own.st_ino == named.st_ino &&
           own.st_dev == named.st_dev;
}

int cache_folder_try_lock(int folder, const char *name, int *descriptor, struct error *error)
{
    for (;;) {
        AUTO_CLOSE int opened =
            openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (opened < 0)
            return error_set_errno(error, -errno, "cannot write to the cache");
        if (flock(opened, LOCK_EX | LOCK_NB) < 0) {
            if (errno == EWOULDBLOCK)
                return 1;
            return error_set_errno(error, -errno, "cannot lock a file of the cache");
        }
        if (!is_still_named(folder, name, opened))
            continue;
        if (ftruncate(opened, 0) < 0)
            return error_set_errno(error, -errno, "cannot write to the cache");
        *descriptor = TAKE_DESCRIPTOR(opened);
        return 0;
    }
}
