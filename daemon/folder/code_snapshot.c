/* code_snapshot.c: see code_snapshot.h. */
#include "daemon/folder/code_snapshot.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define UPLOAD_PREFIX "upload-"

enum {
    KEPT_SECONDS = 3600,         /* what is younger is never removed: its job may be on its way */
    UPLOADS_MAX = 64,            /* of a user at once */
    YOUNG_MAX = 10000,           /* files of a user that are too young to be removed */
    ARCHIVE_OVERHEAD = 64 << 20, /* of an archive beyond its files' bytes: headers, padding */
    FREE_BYTES_LEFT = 64 << 20   /* of the disk, for the daemon itself */
};

/* Removing what nobody names must not overtake code_snapshot_check(), after which somebody names
 * it. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

bool code_snapshot_id_is_valid(const char *id)
{
    return strlen(id) == CODE_SNAPSHOT_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == strlen(id);
}

static void user_folder_path(char path[PATH_MAX], const char *state_directory, uid_t uid)
{
    snprintf(path, PATH_MAX, "%s/snapshots/%u", state_directory, (unsigned)uid);
}

void code_snapshot_path(char path[PATH_MAX], const char *state_directory, uid_t uid, const char *id)
{
    snprintf(path, PATH_MAX, "%s/snapshots/%u/%s.tar", state_directory, (unsigned)uid, id);
}

static int user_folder_open(const char *state_directory, uid_t uid)
{
    char path[PATH_MAX];
    int folder;

    user_folder_path(path, state_directory, uid);
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return folder < 0 ? -errno : folder;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static int user_folder_make(const char *state_directory, uid_t uid, struct error *error)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/snapshots", state_directory);
    if (mkdir(path, 0711) < 0 && errno != EEXIST)
        return error_set_errno(error, -errno, "cannot make %s", path);
    user_folder_path(path, state_directory, uid);
    if (mkdir(path, 0711) < 0 && errno != EEXIST)
        return error_set_errno(error, -errno, "cannot make %s", path);
    return 0;
}

static bool is_upload(const char *name)
{
    return strncmp(name, UPLOAD_PREFIX, strlen(UPLOAD_PREFIX)) == 0;
}

/* What a user's snapshots have, those under way included. */
struct usage {
    uint64_t bytes;
    size_t uploads, young; /* files */
};

/* Removes uploads that were given up, and counts the rest. */
static struct usage user_usage(const char *state_directory, uid_t uid)
{
    int folder = user_folder_open(state_directory, uid);
    DIR *listing = folder < 0 ? NULL : fdopendir(folder);
    time_t old = time(NULL) - KEPT_SECONDS;
    struct usage usage = {0};
    struct dirent *entry;
    struct stat status;

    while (listing && (entry = readdir(listing))) {
        if (fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(status.st_mode))
            continue;
        if (is_upload(entry->d_name) && status.st_ctime < old &&
            unlinkat(dirfd(listing), entry->d_name, 0) == 0)
            continue;
        usage.bytes += (uint64_t)status.st_size;
        usage.uploads += is_upload(entry->d_name);
        usage.young += status.st_ctime >= old;
    }
    if (listing)
        closedir(listing);
    return usage;
}

static int check_limits(const char *state_directory, uid_t uid, uint64_t bytes,
                        const struct code_snapshot_limits *limits, struct error *error)
{
    struct usage usage = user_usage(state_directory, uid);
    uint64_t used = usage.bytes;
    char has[32], most[32], kept[32];

    if (usage.uploads >= 2 * UPLOADS_MAX) /* an archive and a diff each */
        return error_set(error, -EDQUOT,
                         "you have begun %d snapshots that are not complete; try again when some "
                         "are. Those that were given up go after an hour",
                         UPLOADS_MAX);
    if (usage.young >= YOUNG_MAX)
        return error_set(error, -EDQUOT,
                         "you have taken %d snapshots within an hour, which is the most; jobs of "
                         "the same code can have one: `trainctl resubmit`, or several in one call",
                         YOUNG_MAX / 2);
    text_format_bytes(bytes, has, sizeof has);
    if (limits->bytes_per_snapshot && bytes > limits->bytes_per_snapshot)
        return error_set(error, -EDQUOT,
                         "the snapshot has %s, and at most %s are taken (BytesPerSnapshot); "
                         "ignore what is no code, or name a smaller folder",
                         has, text_format_bytes(limits->bytes_per_snapshot, most, sizeof most));
    if (limits->bytes_per_user &&
        (used > limits->bytes_per_user || bytes > limits->bytes_per_user - used))
        return error_set(error, -EDQUOT,
                         "the snapshot has %s, and your others have %s of the %s that a user may "
                         "have (BytesPerUser); remove jobs that you need no more: `trainctl clean`",
                         has, text_format_bytes(used, kept, sizeof kept),
                         text_format_bytes(limits->bytes_per_user, most, sizeof most));
    return 0;
}

static int check_room(const char *state_directory, uint64_t bytes, struct error *error)
{
    struct statvfs disk;
    uint64_t left;
    char has[32], room[32], kept[32];

    if (statvfs(state_directory, &disk) < 0)
        return 0; /* writing will tell */
    left = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (bytes <= UINT64_MAX - FREE_BYTES_LEFT && left >= bytes + FREE_BYTES_LEFT)
        return 0;
    return error_set(error, -ENOSPC,
                     "the snapshot has %s, and the disk of %s has %s free, of which %s stay free "
                     "for the daemon's own data",
                     text_format_bytes(bytes, has, sizeof has), state_directory,
                     text_format_bytes(left, room, sizeof room),
                     text_format_bytes(FREE_BYTES_LEFT, kept, sizeof kept));
}

static int upload_file_give(int file, const char *path, uid_t uid, struct error *error)
{
    if (file < 0 || (geteuid() == 0 && fchown(file, uid, (gid_t)-1) < 0))
        return error_set_errno(error, -errno, "cannot make %s", path);
    return 0;
}

int code_snapshot_begin(const char *state_directory, uid_t uid, uint64_t bytes,
                        const struct code_snapshot_limits *limits, char path[PATH_MAX],
                        struct error *error)
{
    AUTO_CLOSE int archive = -1, diff = -1;
    char diff_path[PATH_MAX + 8];
    int result = check_limits(state_directory, uid, bytes, limits, error);

    if (result == 0)
        result = check_room(state_directory, bytes, error);
    if (result == 0)
        result = user_folder_make(state_directory, uid, error);
    if (result < 0)
        return result;
    snprintf(path, PATH_MAX, "%s/snapshots/%u/" UPLOAD_PREFIX "XXXXXX", state_directory,
             (unsigned)uid);
    archive = mkostemp(path, O_CLOEXEC);
    result = upload_file_give(archive, path, uid, error);
    if (result == 0) {
        snprintf(diff_path, sizeof diff_path, "%s.diff", path);
        diff = open(diff_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        result = upload_file_give(diff, diff_path, uid, error);
    }
    return result;
}

/* ---- keep ------------------------------------------------------------------------------------ */

/* The name of an upload in its user's folder; NULL: the path is no such. */
static const char *upload_name(const char *state_directory, uid_t uid, const char *path)
{
    char folder[PATH_MAX];
    size_t length;

    user_folder_path(folder, state_directory, uid);
    length = strlen(folder);
    if (strncmp(path, folder, length) != 0 || path[length] != '/' || !is_upload(path + length + 1))
        return NULL;
    path += length + 1;
    return strlen(path) == strlen(UPLOAD_PREFIX "XXXXXX") && !strpbrk(path, "/.") ? path : NULL;
}

/* Whether more was written than was said at the beginning. */
static bool is_too_large(int folder, const char *name, const struct code_snapshot_limits *limits)
{
    struct stat status;

    return limits->bytes_per_snapshot && fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           (uint64_t)status.st_size > limits->bytes_per_snapshot + ARCHIVE_OVERHEAD;
}

/* Gives a file of an upload its final name, if that is free. */
static int upload_rename(int folder, const char *from, const char *id, const char *suffix)
{
    char name[CODE_SNAPSHOT_ID_SIZE + 8];

    snprintf(name, sizeof name, "%s%s", id, suffix);
    if (renameat2(folder, from, folder, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW); /* it counts as new */
    return unlinkat(folder, from, 0) < 0 ? -errno : 0;
}

int code_snapshot_keep(const char *state_directory, uid_t uid, const char *path, const char *id,
                       const struct code_snapshot_limits *limits, struct error *error)
{
    const char *name = upload_name(state_directory, uid, path);
    AUTO_CLOSE int folder = user_folder_open(state_directory, uid);
    char diff[64];
    struct stat status;
    int result;

    if (!name || folder < 0 || fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(status.st_mode) || status.st_uid != uid)
        return error_set(error, -EINVAL, "%s is no snapshot that you have begun", path);
    if (!code_snapshot_id_is_valid(id))
        return error_set(error, -EINVAL, "\"%.80s\" is no id of a snapshot", id);
    snprintf(diff, sizeof diff, "%s.diff", name);
    if (is_too_large(folder, name, limits) || is_too_large(folder, diff, limits)) {
        unlinkat(folder, name, 0);
        unlinkat(folder, diff, 0);
        return error_set(error, -EDQUOT,
                         "the snapshot, or how it differs from its commit, is larger than it may "
                         "be (BytesPerSnapshot)");
    }
    pthread_mutex_lock(&names_lock);
    result = upload_rename(folder, diff, id, ".diff");
    if (result == 0)
        result = upload_rename(folder, name, id, ".tar");
    if (result == 0 && fsync(folder) < 0)
        result = -errno;
    pthread_mutex_unlock(&names_lock);
    return result < 0 ? error_set_errno(error, result, "cannot keep the snapshot %s", path) : 0;
}

int code_snapshot_check(const char *state_directory, uid_t uid, const char *id, struct error *error)
{
    char path[PATH_MAX], diff[PATH_MAX];
    int result;

    code_snapshot_path(path, state_directory, uid, id);
    snprintf(diff, sizeof diff, "%s/snapshots/%u/%s.diff", state_directory, (unsigned)uid, id);
    pthread_mutex_lock(&names_lock);
    result = utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    utimensat(AT_FDCWD, diff, NULL, AT_SYMLINK_NOFOLLOW); /* it counts as new, too */
    pthread_mutex_unlock(&names_lock);
    if (result == -ENOENT)
        return error_set(error, -ENOENT,
                         "snapshot.id: there is no snapshot %.12s… of yours; it goes with the last "
                         "job that has it. Take a new one with --snapshot",
                         id);
    return result < 0 ? error_set_errno(error, result, "cannot look at %s", path) : 0;
}

int code_snapshot_read_diff(const char *state_directory, uid_t uid, const char *id, char **diff,
                            bool *complete, struct error *error)
{
    AUTO_CLOSE int folder = user_folder_open(state_directory, uid), file = -1;
    char name[CODE_SNAPSHOT_ID_SIZE + 8];
    struct stat status;
    ssize_t size;

    snprintf(name, sizeof name, "%s.diff", id);
    if (folder >= 0)
        file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 || fstat(file, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != uid)
        return error_set(error, -ENOENT, "the snapshot %.12s… is not kept any more", id);
    *diff = malloc(CODE_SNAPSHOT_DIFF_MAX + 1);
    if (!*diff)
        return error_no_memory(error, "a diff");
    size = file_read_at(file, *diff, CODE_SNAPSHOT_DIFF_MAX, 0);
    (*diff)[size < 0 ? 0 : size] = '\0';
    *complete = status.st_size <= CODE_SNAPSHOT_DIFF_MAX;
    return size < 0 ? error_set_errno(error, (int)size, "cannot read %s", name) : 0;
}

/* ---- tidy ------------------------------------------------------------------------------------ */

int code_snapshot_use_compare(const void *a, const void *b)
{
    const struct code_snapshot_use *left = a, *right = b;

    if (left->uid != right->uid)
        return left->uid < right->uid ? -1 : 1;
    return strcmp(left->id, right->id);
}

static void user_folder_tidy(const char *state_directory, uid_t uid,
                             const struct code_snapshot_use *uses, size_t count)
{
    int folder = user_folder_open(state_directory, uid);
    DIR *listing = folder < 0 ? NULL : fdopendir(folder);
    time_t now = time(NULL);
    struct dirent *entry;

    while (listing && (entry = readdir(listing))) {
        struct code_snapshot_use key = {.uid = uid};
        struct stat status;

        snprintf(key.id, sizeof key.id, "%.*s", (int)strcspn(entry->d_name, "."), entry->d_name);
        if (entry->d_name[0] == '.' ||
            bsearch(&key, uses, count, sizeof *uses, code_snapshot_use_compare))
            continue;
        pthread_mutex_lock(&names_lock);
        if (fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            status.st_ctime < now - KEPT_SECONDS)
            unlinkat(dirfd(listing), entry->d_name, 0);
        pthread_mutex_unlock(&names_lock);
    }
    if (listing)
        closedir(listing);
}

void code_snapshot_files_tidy(const char *state_directory, const struct code_snapshot_use *uses,
                              size_t count)
{
    char path[PATH_MAX];
    DIR *listing;
    struct dirent *entry;

    snprintf(path, sizeof path, "%s/snapshots", state_directory);
    listing = opendir(path);
    while (listing && (entry = readdir(listing)))
        if (entry->d_name[0] != '.')
            user_folder_tidy(state_directory, (uid_t)strtoul(entry->d_name, NULL, 10), uses, count);
    if (listing)
        closedir(listing);
}
