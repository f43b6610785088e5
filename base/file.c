/* file.c: see file.h. */
#include "base/file.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_read(int directory, const char *path, size_t limit, char **content, size_t *size,
              struct error *error)
{
    /* O_NONBLOCK: opening a pipe would wait for its writer */
    AUTO_CLOSE int descriptor = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    AUTO_FREE char *buffer = NULL;
    struct stat status;
    size_t length = 0;

    if (descriptor < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    if (fstat(descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot read %s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is not a regular file", path);
    if ((uintmax_t)status.st_size > limit)
        return error_set(error, -EFBIG, "%s has %jd bytes, more than the %zu that are accepted",
                         path, (intmax_t)status.st_size, limit);
    buffer = malloc((size_t)status.st_size + 1);
    if (!buffer)
        return error_no_memory(error, "%s", path);
    while (length < (size_t)status.st_size) {
        ssize_t got = read(descriptor, buffer + length, (size_t)status.st_size - length);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(error, -errno, "cannot read %s", path);
        if (got == 0)
            break;
        length += (size_t)got;
    }
    buffer[length] = '\0';
    *content = TAKE_POINTER(buffer);
    if (size)
        *size = length;
    return 0;
}

ssize_t file_read_at(int descriptor, void *buffer, size_t size, int64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got =
            pread(descriptor, (char *)buffer + done, size - done, (off_t)(offset + (int64_t)done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int file_write_all(int descriptor, const void *content, size_t size)
{
    const char *position = content;

    while (size > 0) {
        ssize_t written = write(descriptor, position, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        position += written;
        size -= (size_t)written;
    }
    return 0;
}

bool file_opens_later(int result)
{
    return result == -EMFILE || result == -ENFILE || result == -ENOMEM;
}

int file_sync_folder(int directory, const char *path)
{
    char folder[PATH_MAX];
    char *slash;

    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
        return -ENAMETOOLONG;
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    AUTO_CLOSE int descriptor =
        openat(directory, slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 || fsync(descriptor) < 0)
        return -errno;
    return 0;
}

int file_replace(int directory, const char *path, const void *content, size_t size, mode_t mode,
                 int durable, struct error *error)
{
    AUTO_CLOSE int descriptor = -1;
    char temporary[PATH_MAX];
    int result;

    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
        return error_set(error, -ENAMETOOLONG, "the path %s is too long", path);
    descriptor = openat(directory, temporary,
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
    if (descriptor < 0)
        return error_set_errno(error, -errno, "cannot create %s", temporary);
    result = file_write_all(descriptor, content, size);
    if (result == 0 && durable && fsync(descriptor) < 0)
        result = -errno;
    if (result == 0 && renameat(directory, temporary, directory, path) < 0)
        result = -errno;
    if (result == 0 && durable)
        result = file_sync_folder(directory, path);
    if (result < 0) {
        unlinkat(directory, temporary, 0);
        return error_set_errno(error, result, "cannot write %s", path);
    }
    return 0;
}

int file_check_replaceable(const char *path, struct error *error)
{
    struct stat status;

    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is not a regular file: give the name of a file", path);
    return 0;
}

/* Whether a file can be made beside where `path` is to be. */
static int file_check_folder(const char *path, struct error *error)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *folder = slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup("./");

    if (!folder)
        return error_no_memory(error, "the name of a folder");
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0)
        return 0;
    return error_set(error, -errno,
                     errno == ENOENT ? "cannot write %s: there is no folder %s; make it, or give "
                                       "another name"
                                     : "cannot write %s: no file can be made in the folder %s "
                                       "(%s); give a name in another one",
                     path, folder, strerror(errno));
}

int file_check_result(const char *path, const char *source, struct error *error)
{
    struct stat status, of_source;
    int result;

    if (!*path)
        return error_set(error, -EINVAL, "the name of the file to write is empty");
    if (source && stat(path, &status) == 0 && stat(source, &of_source) == 0 &&
        status.st_dev == of_source.st_dev && status.st_ino == of_source.st_ino)
        return error_set(error, -EINVAL,
                         "the result would overwrite %s, from which it is made: give another name",
                         path);
    result = file_check_replaceable(path, error);
    return result < 0 ? result : file_check_folder(path, error);
}

int file_write_result(const char *path, const void *content, size_t size, struct error *error)
{
    int result = file_check_replaceable(path, error);

    return result < 0 ? result : file_replace(AT_FDCWD, path, content, size, 0666, 1, error);
}

char *file_beside_program(const char *name)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash, *path;

    if (length < 0)
        return NULL;
    program[length] = '\0';
    slash = strrchr(program, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return asprintf(&path, "%s/%s", program, name) < 0 ? NULL : path;
}

void file_fill_standard(void)
{
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

static const char archive_ending[] = ".npz";

bool file_is_archive(const char *path)
{
    size_t length = strlen(path), ending = sizeof archive_ending - 1;

    return length > ending && strcmp(path + length - ending, archive_ending) == 0;
}

char *file_archive_member(char *path)
{
    char *colon = strrchr(path, ':');
    bool is_member;

    if (!colon || !colon[1])
        return NULL;
    *colon = '\0';
    is_member = file_is_archive(path);
    *colon = ':';
    return is_member ? colon + 1 : NULL;
}
