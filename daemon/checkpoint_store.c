/* checkpoint_store.c: checkpoints move from the attempt's folder into checkpoints.db, in chunks
 * with digests, and out again for a retry. */
#include "base/log.h"
#include "base/sha256.h"
#include "base/string_table.h"
#include "daemon/spool_store.h"
#include "daemon/supervisor_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK_SIZE = 1024 * 1024 };

static int obsolete_add(struct spool_store *request, int64_t attempt, const char *path)
{
    struct obsolete_file *grown =
        realloc(request->obsolete, (request->obsolete_count + 1) * sizeof *grown);

    if (!grown)
        return -ENOMEM;
    request->obsolete = grown;
    grown[request->obsolete_count] = (struct obsolete_file){attempt, strdup(path)};
    if (!grown[request->obsolete_count].path)
        return -ENOMEM;
    request->obsolete_count++;
    return 0;
}

static int row_delete(struct store_connection *connection, int64_t job, const char *path,
                      struct error *error)
{
    sqlite3_stmt *statement =
        store_statement(connection, "DELETE FROM checkpoint WHERE job = ? AND path = ?", error);

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_text(statement, 2, path);
    return store_statement_run(statement, error);
}

/* The checkpoint's row; what was there for this step (a replay, or an earlier attempt) goes first,
 * its chunks with it. The best checkpoint stays beside one that was written within the next
 * update's accumulation, which is not the best. */
static int row_insert(struct store_connection *connection, const struct spool_store *request,
                      const struct spool_record *record, bool in_database, int64_t *id,
                      struct error *error)
{
    struct json_object *object = record->object, *metrics = json_get(object, "metrics");
    int64_t step = json_get_int(object, "step", 0);
    bool best = json_get_bool(object, "best", false);
    sqlite3_stmt *statement;
    int result;

    statement = store_statement(
        connection, "DELETE FROM checkpoint WHERE job = ? AND step = ? AND (? OR NOT best)", error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, step);
    store_bind_int(statement, 3, best);
    result = store_statement_run(statement, error);
    if (result < 0)
        return result;
    if (best) {
        statement = store_statement(connection,
                                    "UPDATE checkpoint SET best = 0 WHERE job = ? AND best", error);
        if (!statement)
            return error->code;
        store_bind_int(statement, 1, request->job);
        result = store_statement_run(statement, error);
        if (result < 0)
            return result;
    }
    statement = store_statement(connection,
                                "INSERT INTO checkpoint (job, attempt, step, epoch, time, bytes, "
                                "digest, best, location, path, metrics) VALUES (?, ?, ?, ?, ?, ?, "
                                "?, ?, ?, ?, ?)",
                                error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, request->attempt);
    store_bind_int(statement, 3, step);
    store_bind_double(statement, 4, json_get_double(object, "epoch", NAN));
    store_bind_double(statement, 5, record->time);
    store_bind_int(statement, 6, json_get_int(object, "bytes", 0));
    store_bind_text(statement, 7, json_get_string(object, "digest", ""));
    store_bind_int(statement, 8, best);
    store_bind_text(statement, 9, in_database ? "database" : "file");
    store_bind_text(statement, 10, json_get_string(object, "path", ""));
    store_bind_text(statement, 11, metrics ? json_text(metrics, NULL) : "{}");
    result = store_statement_run(statement, error);
    *id = sqlite3_last_insert_rowid(store_database(connection));
    return result;
}

static int chunk_insert(struct store_connection *connection, int64_t checkpoint, int64_t number,
                        const void *bytes, size_t size, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "INSERT INTO checkpoint_chunk (checkpoint, number, digest, data) VALUES (?, ?, ?, ?)",
        error);
    char digest[SHA256_HEX_SIZE];
    struct sha256 hash;

    if (!statement)
        return error->code;
    sha256_begin(&hash);
    sha256_add(&hash, bytes, size);
    sha256_end(&hash, digest);
    store_bind_int(statement, 1, checkpoint);
    store_bind_int(statement, 2, number);
    store_bind_text(statement, 3, digest);
    sqlite3_bind_blob(statement, 4, bytes, (int)size, SQLITE_STATIC);
    return store_statement_run(statement, error);
}

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

/* Copies the file; `digest` receives that of what was copied. */
static int chunks_insert(struct store_connection *connection, int64_t checkpoint, int file,
                         int64_t expected, char digest[SHA256_HEX_SIZE], struct error *error)
{
    AUTO_FREE char *buffer = malloc(CHUNK_SIZE);
    struct sha256 hash;
    int64_t copied = 0;

    if (!buffer)
        return error_set(error, -ENOMEM, "not enough memory to copy a checkpoint");
    sha256_begin(&hash);
    for (int64_t number = 0; copied <= expected; number++) {
        ssize_t size = read_full(file, buffer, CHUNK_SIZE);
        int result;

        if (size < 0)
            return error_set_errno(error, (int)size, "cannot read a checkpoint");
        if (size == 0)
            break;
        sha256_add(&hash, buffer, (size_t)size);
        result = chunk_insert(connection, checkpoint, number, buffer, (size_t)size, error);
        if (result < 0)
            return result;
        copied += size;
    }
    sha256_end(&hash, digest);
    return 0;
}

/* What the trainee dropped: the row goes in this transaction, a file after it. */
static int removals_store(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, struct error *error)
{
    struct json_object *remove = json_get(record->object, "remove");

    if (!remove || !json_object_is_type(remove, json_type_array))
        return 0;
    for (size_t i = 0; i < json_object_array_length(remove); i++) {
        const char *path = json_object_get_string(json_object_array_get_idx(remove, i));
        int result = path ? row_delete(connection, request->job, path, error) : 0;

        if (result == 0 && path)
            result = obsolete_add(request, request->attempt, path);
        if (result < 0)
            return result;
    }
    return 0;
}

static int complain(struct store_connection *connection, const struct spool_store *request,
                    const struct spool_record *record, const char *why, struct error *error)
{
    char message[ERROR_TEXT_MAX];

    snprintf(message, sizeof message, "the checkpoint of step %lld was not taken: %.800s",
             (long long)json_get_int(record->object, "step", 0), why);
    log_warning("job %lld: %s", (long long)request->job, message);
    return warning_store(connection, request->job, request->attempt, record->time, message, error);
}

static int savepoint(struct store_connection *connection, const char *command, struct error *error)
{
    return sqlite3_exec(store_database(connection), command, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : store_error(store_database(connection), error);
}

static int content_store(struct store_connection *connection, struct spool_store *request,
                         const struct spool_record *record, int file, struct error *error)
{
    char digest[SHA256_HEX_SIZE];
    int64_t id, bytes = json_get_int(record->object, "bytes", 0);
    int result = savepoint(connection, "SAVEPOINT checkpoint_content", error);

    if (result == 0)
        result = row_insert(connection, request, record, true, &id, error);
    if (result == 0)
        result = chunks_insert(connection, id, file, bytes, digest, error);
    if (result < 0)
        return result;
    if (strcmp(digest, json_get_string(record->object, "digest", "")) != 0) {
        result = savepoint(connection, "ROLLBACK TO checkpoint_content; RELEASE checkpoint_content",
                           error);
        return result < 0 ? result
                          : complain(connection, request, record,
                                     "its content does not have the announced digest", error);
    }
    result = savepoint(connection, "RELEASE checkpoint_content", error);
    return result < 0 ? result
                      : obsolete_add(request, request->attempt,
                                     json_get_string(record->object, "path", ""));
}

/* Deletes the row `id` of an earlier attempt; a file that it stands for goes after the commit. */
static int earlier_delete(struct store_connection *connection, struct spool_store *request,
                          int64_t id, int64_t attempt, const char *path, struct error *error)
{
    sqlite3_stmt *statement =
        store_statement(connection, "DELETE FROM checkpoint WHERE id = ?", error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = store_statement_run(statement, error);
    if (result == 0 && path)
        result = obsolete_add(request, attempt, path);
    return result;
}

/* Deletes what `query` (id, attempt, path of a file or null; parameters ?1 job, ?2 attempt, ?3
 * step) finds. */
static int earlier_delete_all(struct store_connection *connection, struct spool_store *request,
                              const char *query, int64_t step, struct error *error)
{
    for (;;) { /* one at a time: a statement must not be read while its table changes */
        sqlite3_stmt *statement = store_statement(connection, query, error);
        AUTO_FREE char *path = NULL;
        int64_t id, attempt;
        int result;

        if (!statement)
            return error->code;
        store_bind_int(statement, 1, request->job);
        store_bind_int(statement, 2, request->attempt);
        if (sqlite3_bind_parameter_count(statement) > 2)
            store_bind_int(statement, 3, step);
        result = store_statement_next(statement, error);
        if (result <= 0)
            return result;
        id = sqlite3_column_int64(statement, 0);
        attempt = sqlite3_column_int64(statement, 1);
        if (sqlite3_column_type(statement, 2) != SQLITE_NULL)
            path = strdup((const char *)sqlite3_column_text(statement, 2));
        result = earlier_delete(connection, request, id, attempt, path, error);
        if (result < 0)
            return result;
    }
}

int checkpoints_supersede(struct store_connection *connection, struct spool_store *request,
                          int64_t step, struct error *error)
{
    return earlier_delete_all(connection, request,
                              "SELECT id, attempt, CASE location WHEN 'file' THEN path END FROM "
                              "checkpoint WHERE job = ?1 AND attempt < ?2 AND step > ?3 LIMIT 1",
                              step, error);
}

/* A trainee drops its own checkpoints beyond the last `keep` and the best; it knows nothing of what
 * the attempts before it have left. A command has no `keep`: nothing of it is dropped here. */
static int earlier_retain(struct store_connection *connection, struct spool_store *request,
                          struct error *error)
{
    return earlier_delete_all(
        connection, request,
        "SELECT id, attempt, CASE location WHEN 'file' THEN path END FROM checkpoint "
        "WHERE job = ?1 AND attempt < ?2 AND NOT best AND step < (SELECT step FROM checkpoint "
        "WHERE job = ?1 ORDER BY step DESC LIMIT 1 OFFSET (SELECT "
        "coalesce(json_extract(" STORE_JSON(
            "spec") ", '$.checkpoint.keep') - 1, 1 << 40) FROM job WHERE id = ?1)) "
                    "LIMIT 1",
        0, error);
}

static bool says_removed(const struct spool_record *record, const char *path)
{
    struct json_object *remove =
        record->type == SPOOL_CHECKPOINT ? json_get(record->object, "remove") : NULL;

    if (!remove || !json_object_is_type(remove, json_type_array))
        return false;
    for (size_t i = 0; i < json_object_array_length(remove); i++) {
        const char *removed = json_object_get_string(json_object_array_get_idx(remove, i));

        if (removed && strcmp(removed, path) == 0)
            return true;
    }
    return false;
}

/* Whether a later record says that the trainee dropped the file itself: then it has been faster
 * than us, and nothing is lost. It says so before it does it, so that the record is in the spool by
 * now, if not in this batch. */
static bool removed_later(const struct spool_store *request, const struct spool_record *record,
                          const char *path)
{
    const struct spool_record *end = request->batch->records + request->batch->count;
    AUTO_CLOSE int spool = -1;
    struct spool_batch next = {0};
    bool found = false;

    for (const struct spool_record *later = record + 1; later < end && !found; later++)
        found = says_removed(later, path);
    if (found)
        return true;
    spool = attempt_folder_open_file(request->folder, "spool", request->uid, NULL);
    if (spool < 0 || spool_read(spool, &request->batch->after, false, &next, NULL) < 0)
        return false;
    for (size_t i = 0; i < next.count && !found; i++)
        found = says_removed(&next.records[i], path);
    spool_batch_release(&next);
    return found;
}

int checkpoint_store(struct store_connection *connection, struct spool_store *request,
                     const struct spool_record *record, struct error *error)
{
    const char *path = json_get_string(record->object, "path", "");
    struct error reason = {0};
    AUTO_CLOSE int file = attempt_folder_open_file(request->folder, path, request->uid, &reason);
    struct stat status;
    int64_t id;
    int result;

    if (file == -ENOENT && removed_later(request, record, path))
        result = 0;
    else if (file < 0 || fstat(file, &status) < 0)
        result = complain(connection, request, record, reason.text, error);
    else if (status.st_size != json_get_int(record->object, "bytes", -1))
        result = complain(connection, request, record, "its file has another size than announced",
                          error);
    else if ((uint64_t)status.st_size <= request->database_limit)
        result = content_store(connection, request, record, file, error);
    else
        result = row_insert(connection, request, record, false, &id, error);
    if (result == 0)
        result = removals_store(connection, request, record, error);
    return result < 0 ? result : earlier_retain(connection, request, error);
}

/* ---- for a retry ----------------------------------------------------------------------------- */

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
    AUTO_FREE char *buffer = malloc(CHUNK_SIZE);
    ssize_t size;
    int result = 0;

    if (file < 0) /* the user has removed or replaced it */
        return file == -EMFILE || file == -ENFILE || file == -ENOMEM ? file
                                                                     : (error->code = -EUCLEAN);
    if (!buffer)
        return error_set(error, -ENOMEM, "not enough memory to copy a checkpoint");
    while (result == 0 && (size = read_full(file, buffer, CHUNK_SIZE)) > 0) {
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
