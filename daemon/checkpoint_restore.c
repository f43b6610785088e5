/* checkpoint_restore.c: the job's last checkpoint out of the database, or out of an earlier
 * attempt's folder, for a retry. */
#include "base/log.h"
#include "base/sha256.h"
#include "daemon/spool_store.h"
#include "daemon/supervisor_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COPY_SIZE = 1024 * 1024 };

/* Reads until the buffer is full or the file ends. */
static ssize_t read_full(int file, char *buffer, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got = read(file, buffer + done, size - done);

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

struct stored_checkpoint {
    struct checkpoint_position position;
    int64_t attempt, bytes;
    bool in_database;
    char digest[SHA256_HEX_SIZE], path[4096];
};

/* The newest one before `last`, or the best one if it is before that; INT64_MAX is behind all. */
static int stored_checkpoint_find(struct store_connection *connection, int64_t job, bool best,
                                  struct stored_checkpoint *last, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        best ? "SELECT id, attempt, step, bytes, location, digest, path FROM checkpoint "
               "WHERE job = ?1 AND best AND (step, id) < (?2, ?3)"
             : "SELECT id, attempt, step, bytes, location, digest, path FROM checkpoint "
               "WHERE job = ?1 AND (step, id) < (?2, ?3) ORDER BY step DESC, id DESC LIMIT 1",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_int(statement, 2, last->position.step);
    store_bind_int(statement, 3, last->position.id);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : -ENOENT;
    last->position.id = sqlite3_column_int64(statement, 0);
    last->attempt = sqlite3_column_int64(statement, 1);
    last->position.step = sqlite3_column_int64(statement, 2);
    last->bytes = sqlite3_column_int64(statement, 3);
    last->in_database = strcmp((const char *)sqlite3_column_text(statement, 4), "database") == 0;
    snprintf(last->digest, sizeof last->digest, "%s", sqlite3_column_text(statement, 5));
    snprintf(last->path, sizeof last->path, "%s", sqlite3_column_text(statement, 6));
    return 0;
}

static int write_full(int file, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t written = write(file, (const char *)bytes + done, size - done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        done += (size_t)written;
    }
    return 0;
}

static int chunks_restore(struct store_connection *connection, int64_t checkpoint, int output,
                          struct sha256 *hash, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, "SELECT data FROM checkpoint_chunk WHERE checkpoint = ? ORDER BY number",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, checkpoint);
    while ((result = store_statement_next(statement, error)) > 0) {
        const void *bytes = sqlite3_column_blob(statement, 0);
        size_t size = (size_t)sqlite3_column_bytes(statement, 0);

        sha256_add(hash, bytes, size);
        result = write_full(output, bytes, size);
        if (result < 0)
            return error_set_errno(error, result, "cannot write the checkpoint to resume from");
    }
    return result;
}

static int file_restore(const char *state_directory, int64_t job, uid_t uid,
                        const struct stored_checkpoint *last, int output, struct sha256 *hash,
                        struct error *error)
{
    AUTO_CLOSE int file =
        attempt_open_file(state_directory, job, last->attempt, uid, last->path, error);
    AUTO_FREE char *buffer = malloc(COPY_SIZE);
    struct stat status;
    ssize_t size;
    int result = 0;

    if (file < 0) /* the user has removed or replaced it */
        return file == -EMFILE || file == -ENFILE || file == -ENOMEM ? file
                                                                     : (error->code = -EUCLEAN);
    if (!buffer)
        return error_set(error, -ENOMEM, "not enough memory to copy a checkpoint");
    /* a file that was made larger meanwhile would fill the disk */
    if (fstat(file, &status) < 0 || status.st_size != last->bytes)
        return error_set(error, -EUCLEAN, "%s has another size than it had", last->path);
    if (checkpoint_file_has_holes(file, &status))
        return error_set(error, -EUCLEAN, "%s has holes", last->path);
    for (int64_t left = last->bytes; result == 0; left -= size) {
        size = read_full(file, buffer, left < COPY_SIZE ? (size_t)left : COPY_SIZE);
        if (size <= 0)
            break;
        sha256_add(hash, buffer, (size_t)size);
        result = write_full(output, buffer, (size_t)size);
    }
    if (result == 0 && size < 0)
        return error_set(error, -EUCLEAN, "%s cannot be read: %s", last->path,
                         strerror((int)-size));
    return result < 0 ? error_set_errno(error, result, "cannot copy the checkpoint to resume from")
                      : 0;
}

/* Copies one checkpoint to `output`. -EUCLEAN when it is not what was stored any more. */
static int checkpoint_copy(struct store_connection *connection, const char *state_directory,
                           int64_t job, uid_t uid, const struct stored_checkpoint *last, int output,
                           struct error *error)
{
    char digest[SHA256_HEX_SIZE];
    struct sha256 hash;
    int result;

    if (ftruncate(output, 0) < 0 || lseek(output, 0, SEEK_SET) < 0)
        return error_set_errno(error, -errno, "cannot write the checkpoint to resume from");
    sha256_begin(&hash);
    result = last->in_database
                 ? chunks_restore(connection, last->position.id, output, &hash, error)
                 : file_restore(state_directory, job, uid, last, output, &hash, error);
    sha256_end(&hash, digest);
    if (result == 0 && strcmp(digest, last->digest) != 0)
        result = error_set(error, -EUCLEAN, "its content does not have its digest any more");
    return result;
}

int checkpoint_restore(struct store_connection *connection, const char *state_directory,
                       int64_t job, uid_t uid, const char *path,
                       struct checkpoint_position *restored, struct error *error)
{
    struct stored_checkpoint last = {.position = {INT64_MAX, INT64_MAX}};
    AUTO_CLOSE int output = -1;
    int result;

    unlink(path);
    while ((result = stored_checkpoint_find(connection, job, false, &last, error)) == 0) {
        if (output < 0)
            output = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (output < 0)
            return error_set_errno(error, -errno, "cannot make %s", path);
        result = checkpoint_copy(connection, state_directory, job, uid, &last, output, error);
        if (result != -EUCLEAN)
            break;
        log_warning("job %lld: the checkpoint of step %lld is passed over: %s", (long long)job,
                    (long long)last.position.step, error->text);
    }
    if (result < 0)
        unlink(path);
    *restored = last.position;
    return result;
}

int checkpoint_restore_best(struct store_connection *connection, const char *state_directory,
                            int64_t job, uid_t uid, const char *path,
                            const struct checkpoint_position *restored, struct error *error)
{
    struct stored_checkpoint best = {.position = *restored};
    AUTO_CLOSE int output = -1;
    int result;

    unlink(path);
    result = stored_checkpoint_find(connection, job, true, &best, error);
    if (result < 0)
        return result;
    output = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (output < 0)
        return error_set_errno(error, -errno, "cannot make %s", path);
    result = checkpoint_copy(connection, state_directory, job, uid, &best, output, error);
    if (result < 0)
        unlink(path);
    return result;
}
