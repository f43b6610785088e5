/* checkpoint_store.c: checkpoints move from the attempt's folder into checkpoints.db, in chunks
 * with digests.
 *
 * Content is copied a slice per transaction, so that nobody waits for a large file. Until all of it
 * is there and has the announced digest its row belongs to the job with the negative number, which
 * no query looks for: what a crash leaves of it is replaced by the next copy, or goes at a start.
 * What is dropped goes as checkpoint_purge.h has it.
 */
#include "base/log.h"
#include "base/sha256.h"
#include "base/string_table.h"
#include "daemon/checkpoint_removals.h"
#include "daemon/spool_store.h"
#include "daemon/supervisor_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK_SIZE = 1024 * 1024, SLICE_CHUNKS = 4 };

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

/* Runs what drops checkpoints. */
static int drop_run(struct store_connection *connection, struct spool_store *request,
                    sqlite3_stmt *statement, struct error *error)
{
    int result = store_statement_run(statement, error);

    request->dropped |= result == 0 && sqlite3_changes(store_database(connection)) > 0;
    return result;
}

/* What an earlier attempt wrote under the same name is another file. */
static int row_drop(struct store_connection *connection, struct spool_store *request,
                    const char *path, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, CHECKPOINTS_DROP "WHERE job = ? AND attempt = ? AND path = ?", error);

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, request->attempt);
    store_bind_text(statement, 3, path);
    return drop_run(connection, request, statement, error);
}

/* What was there for this step (a replay, or an earlier attempt) goes, its chunks with it, but for
 * the best checkpoint beside one that was written within the next update's accumulation, which is
 * not the best. Only one of a job is that. */
static int predecessors_drop(struct store_connection *connection, struct spool_store *request,
                             int64_t job, int64_t step, bool best, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, CHECKPOINTS_DROP "WHERE job = ? AND step = ? AND (? OR NOT best)", error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_int(statement, 2, step);
    store_bind_int(statement, 3, best);
    result = drop_run(connection, request, statement, error);
    if (result < 0 || !best)
        return result;
    statement =
        store_statement(connection, "UPDATE checkpoint SET best = 0 WHERE job = ? AND best", error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    return store_statement_run(statement, error);
}

/* A row for `job`, which is negative while its content is being copied. */
static int row_insert(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, int64_t job, bool in_database, int64_t *id,
                      struct error *error)
{
    struct json_object *object = record->object, *metrics = json_get(object, "metrics");
    int64_t step = json_get_int(object, "step", 0);
    bool best = json_get_bool(object, "best", false);
    sqlite3_stmt *statement;
    int result = predecessors_drop(connection, request, job, step, best, error);

    if (result < 0)
        return result;
    statement = store_statement(connection,
                                "INSERT INTO checkpoint (job, attempt, step, epoch, time, bytes, "
                                "digest, best, location, path, metrics, uid) VALUES (?, ?, ?, ?, "
                                "?, ?, ?, ?, ?, ?, ?, ?)",
                                error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
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
    store_bind_int(statement, 12, request->uid);
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

/* What the trainee dropped: the row goes in this transaction, a file after it. */
static int removals_store(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, struct error *error)
{
    struct json_object *remove = json_get(record->object, "remove");

    if (!remove || !json_object_is_type(remove, json_type_array))
        return 0;
    for (size_t i = 0; i < json_object_array_length(remove); i++) {
        const char *path = json_object_get_string(json_object_array_get_idx(remove, i));
        int result = path ? row_drop(connection, request, path, error) : 0;

        if (result == 0 && path)
            result = obsolete_add(request, request->attempt, path);
        if (result < 0)
            return result;
    }
    return 0;
}

/* Why a checkpoint was not taken, for the user and the log: so often for one attempt. */
static int complain(struct store_connection *connection, struct spool_store *request,
                    const struct spool_record *record, const char *why, struct error *error)
{
    char message[ERROR_TEXT_MAX];

    if (request->complaints >= SPOOL_COMPLAINTS_MAX)
        return 0;
    request->complaints++;
    snprintf(message, sizeof message, "the checkpoint of step %lld was not taken: %.800s%s",
             (long long)json_get_int(record->object, "step", 0), why,
             request->complaints == SPOOL_COMPLAINTS_MAX ? "; no more of this is reported" : "");
    log_warning("job %lld: %s", (long long)request->job, message);
    return warning_store(connection, request->job, request->attempt, record->time, message, error);
}

/* Drops the row `id` of an earlier attempt; a file that it stands for goes after the commit. */
static int earlier_drop(struct store_connection *connection, struct spool_store *request,
                        int64_t id, int64_t attempt, const char *path, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, CHECKPOINTS_DROP "WHERE id = ?", error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = drop_run(connection, request, statement, error);
    if (result == 0 && path)
        result = obsolete_add(request, attempt, path);
    return result;
}

/* Drops what `query` (id, attempt, path of a file or null; parameters ?1 job, ?2 attempt, ?3
 * step) finds. */
static int earlier_drop_all(struct store_connection *connection, struct spool_store *request,
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
        result = earlier_drop(connection, request, id, attempt, path, error);
        if (result < 0)
            return result;
    }
}

int checkpoints_supersede(struct store_connection *connection, struct spool_store *request,
                          int64_t step, struct error *error)
{
    return earlier_drop_all(connection, request,
                            "SELECT id, attempt, CASE location WHEN 'file' THEN path END FROM "
                            "checkpoint WHERE job = ?1 AND attempt < ?2 AND step > ?3 LIMIT 1",
                            step, error);
}

/* A trainee drops its own checkpoints beyond the last `keep` and the best; it knows nothing of what
 * the attempts before it have left. A command has no `keep`: nothing of it is dropped here. */
static int earlier_retain(struct store_connection *connection, struct spool_store *request,
                          struct error *error)
{
    return earlier_drop_all(
        connection, request,
        "SELECT id, attempt, CASE location WHEN 'file' THEN path END FROM checkpoint "
        "WHERE job = ?1 AND attempt < ?2 AND NOT best AND step < (SELECT step FROM checkpoint "
        "WHERE job = ?1 ORDER BY step DESC LIMIT 1 OFFSET (SELECT "
        "coalesce(json_extract(" STORE_JSON(
            "spec") ", '$.checkpoint.keep') - 1, 1 << 40) FROM job WHERE id = ?1)) "
                    "LIMIT 1",
        0, error);
}

/* ---- what is taken --------------------------------------------------------------------------- */

/* Another record of a checkpoint that is stored, as when the last step is one of the regular ones
 * too: only what is said of it changes. Of one that stays a file the record must name that file. 1
 * when there is one. */
static int known_update(struct store_connection *connection, const struct spool_store *request,
                        const struct spool_record *record, struct error *error)
{
    struct json_object *object = record->object, *metrics = json_get(object, "metrics");
    bool best = json_get_bool(object, "best", false);
    sqlite3_stmt *statement = store_statement(
        connection,
        "UPDATE checkpoint SET epoch = ?6, time = ?7, best = max(best, ?8), metrics = ?9 WHERE job "
        "= ?1 AND step = ?2 AND attempt = ?3 AND bytes = ?4 AND digest = ?5 AND "
        "(location = 'database' OR path = ?10)",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, json_get_int(object, "step", 0));
    store_bind_int(statement, 3, request->attempt);
    store_bind_int(statement, 4, json_get_int(object, "bytes", 0));
    store_bind_text(statement, 5, json_get_string(object, "digest", ""));
    store_bind_double(statement, 6, json_get_double(object, "epoch", NAN));
    store_bind_double(statement, 7, record->time);
    store_bind_int(statement, 8, best);
    store_bind_text(statement, 9, metrics ? json_text(metrics, NULL) : "{}");
    store_bind_text(statement, 10, json_get_string(object, "path", ""));
    result = store_statement_run(statement, error);
    if (result < 0 || sqlite3_changes(store_database(connection)) == 0)
        return result;
    if (!best)
        return 1;
    statement = store_statement(
        connection, "UPDATE checkpoint SET best = 0 WHERE job = ? AND best AND step <> ?", error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, json_get_int(object, "step", 0));
    result = store_statement_run(statement, error);
    return result < 0 ? result : 1;
}

struct sum {
    int64_t count;
    uint64_t bytes;
};

static int sum_read(sqlite3_stmt *statement, struct sum *sum, struct error *error)
{
    int result = store_statement_next(statement, error);

    *sum = (struct sum){0};
    if (result > 0) {
        sum->count = sqlite3_column_int64(statement, 0);
        sum->bytes = (uint64_t)sqlite3_column_double(statement, 1);
    }
    return result < 0 ? result : 0;
}

static bool sum_exceeds(const struct sum *sum, int64_t count_limit, uint64_t bytes,
                        uint64_t bytes_limit)
{
    return (count_limit > 0 && sum->count >= count_limit) ||
           (bytes_limit > 0 && (sum->bytes > bytes_limit || bytes > bytes_limit - sum->bytes));
}

/* Whether a further one of `bytes` is within the limits; else `why` is the sentence. */
static int limits_check(struct store_connection *connection, const struct spool_store *request,
                        uint64_t bytes, const char **why, struct error *error)
{
    const struct checkpoint_limits *limits = &request->limits;
    sqlite3_stmt *of_attempt = store_statement(
        connection, "SELECT count(*), total(bytes) FROM checkpoint WHERE job = ? AND attempt = ?",
        error);
    sqlite3_stmt *of_user = store_statement(
        connection, "SELECT count(*), total(bytes) FROM checkpoint WHERE uid = ?", error);
    struct sum sum;
    int result;

    *why = NULL;
    if (!of_attempt || !of_user)
        return error->code;
    store_bind_int(of_attempt, 1, request->job);
    store_bind_int(of_attempt, 2, request->attempt);
    store_bind_int(of_user, 1, request->uid);
    result = sum_read(of_attempt, &sum, error);
    if (result == 0 && sum_exceeds(&sum, limits->per_attempt, bytes, limits->bytes_per_attempt))
        *why = "the attempt holds as many checkpoints, or bytes of them, as the configuration "
               "allows (CheckpointsPerAttempt, CheckpointBytesPerAttempt); remove some";
    if (result < 0 || *why)
        return result;
    result = sum_read(of_user, &sum, error);
    if (result == 0 && sum_exceeds(&sum, limits->per_user, bytes, limits->bytes_per_user))
        *why = "the user's jobs hold as many checkpoints, or bytes of them, as the configuration "
               "allows (CheckpointsPerUser, CheckpointBytesPerUser); remove some";
    return result;
}

/* ---- content, slice by slice ----------------------------------------------------------------- */

static ssize_t read_at(int file, char *buffer, size_t size, int64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got = pread(file, buffer + done, size - done, (off_t)(offset + (int64_t)done));

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

/* The next slice. 1 when that was the last. */
static int content_copy(struct store_connection *connection, struct checkpoint_copy *copy,
                        int64_t expected, struct error *error)
{
    AUTO_FREE char *buffer = malloc(CHUNK_SIZE);

    if (!buffer)
        return error_set(error, -ENOMEM, "not enough memory to copy a checkpoint");
    for (int i = 0; i < SLICE_CHUNKS && copy->copied <= expected; i++) {
        ssize_t size = read_at(copy->file, buffer, CHUNK_SIZE, copy->copied);
        int result;

        if (size <= 0) /* what cannot be read has not the digest */
            return 1;
        sha256_add(&copy->hash, buffer, (size_t)size);
        result = chunk_insert(connection, copy->id, copy->copied / CHUNK_SIZE, buffer, (size_t)size,
                              error);
        if (result < 0)
            return result;
        copy->copied += size;
        if (size < CHUNK_SIZE)
            return 1;
    }
    return copy->copied >= expected;
}

static int copy_drop(struct store_connection *connection, struct spool_store *request,
                     struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, CHECKPOINTS_DROP "WHERE id = ?", error);

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->copy.id);
    return drop_run(connection, request, statement, error);
}

/* All of it is there: the row becomes the job's. */
static int copy_adopt(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, struct error *error)
{
    sqlite3_stmt *statement;
    int result = predecessors_drop(connection, request, request->job,
                                   json_get_int(record->object, "step", 0),
                                   json_get_bool(record->object, "best", false), error);

    if (result < 0)
        return result;
    statement = store_statement(connection, "UPDATE checkpoint SET job = ? WHERE id = ?", error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, request->copy.id);
    return store_statement_run(statement, error);
}

/* Goes on with the copy that is under way. 1 while there is more of it. */
static int copy_go_on(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, struct error *error)
{
    struct checkpoint_copy *copy = &request->copy;
    int64_t expected = json_get_int(record->object, "bytes", 0);
    char digest[SHA256_HEX_SIZE];
    int result = content_copy(connection, copy, expected, error);

    if (result <= 0)
        return result < 0 ? result : 1;
    sha256_end(&copy->hash, digest);
    copy->under_way = false;
    if (copy->copied == expected &&
        strcmp(digest, json_get_string(record->object, "digest", "")) == 0) {
        result = copy_adopt(connection, request, record, error);
        return result < 0 ? result
                          : obsolete_add(request, request->attempt,
                                         json_get_string(record->object, "path", ""));
    }
    result = copy_drop(connection, request, error);
    return result < 0 ? result
                      : complain(connection, request, record,
                                 "its content does not have the announced digest", error);
}

static bool same_file(const struct checkpoint_copy *copy, const struct stat *status)
{
    return copy->device == status->st_dev && copy->inode == status->st_ino &&
           copy->changed.tv_sec == status->st_ctim.tv_sec &&
           copy->changed.tv_nsec == status->st_ctim.tv_nsec;
}

/* Begins to copy the file, which it takes over. 1 while there is more of it. */
static int copy_begin(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, int file, const struct stat *status,
                      struct error *error)
{
    struct checkpoint_copy *copy = &request->copy;
    int result;

    if (same_file(copy, status)) {
        close(file);
        return complain(connection, request, record, "an earlier record named the same file",
                        error);
    }
    checkpoint_copy_close(copy);
    *copy = (struct checkpoint_copy){.file = file,
                                     .under_way = true,
                                     .device = status->st_dev,
                                     .inode = status->st_ino,
                                     .changed = status->st_ctim};
    sha256_begin(&copy->hash);
    result = row_insert(connection, request, record, -request->job, true, &copy->id, error);
    return result < 0 ? result : copy_go_on(connection, request, record, error);
}

void checkpoint_copy_close(struct checkpoint_copy *copy)
{
    if (copy->file >= 0)
        close(copy->file);
    copy->file = -1;
}

/* ---- files that stay ------------------------------------------------------------------------- */

/* A checkpoint of an optimizer whose states are still zeros may be zeros for the most part. */
enum { HOLES_PART_MIN = 8 };

bool checkpoint_file_has_holes(int file, const struct stat *status)
{
    bool holes = lseek(file, 0, SEEK_HOLE) < status->st_size;

    lseek(file, 0, SEEK_SET); /* whoever asks reads it next */
    /* a file system that compresses leaves long zeros out by itself: it is not asked for more */
    return holes && (int64_t)status->st_blocks * 512 < status->st_size / HOLES_PART_MIN;
}

/* Whether it is the only name of its file, which rows are looked for by. */
static bool path_is_plain(const char *path)
{
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");

        if (length == 0 || (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.'))))
            return false;
        part += length;
        if (!*part)
            return true;
    }
}

/* A row of the attempt that stands for the same file goes when the file was written anew since:
 * what the row tells of is gone. `why` is the sentence when it was not. */
static int kept_file_check(struct store_connection *connection, struct spool_store *request,
                           const char *path, const struct stat *status, const char **why,
                           struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT time FROM checkpoint WHERE job = ? AND attempt = ? AND path = ? AND "
        "location = 'file' ORDER BY time DESC LIMIT 1",
        error);
    double changed = (double)status->st_ctim.tv_sec + (double)status->st_ctim.tv_nsec / 1e9;
    int result;

    *why = NULL;
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, request->attempt);
    store_bind_text(statement, 3, path);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result;
    if (sqlite3_column_double(statement, 0) < changed)
        return row_drop(connection, request, path, error);
    *why = "an earlier record named the same file";
    return 0;
}

static int kept_file_store(struct store_connection *connection, struct spool_store *request,
                           const struct spool_record *record, const struct stat *status,
                           struct error *error)
{
    const char *path = json_get_string(record->object, "path", ""), *why;
    int64_t id;
    int result;

    if (!path_is_plain(path))
        return complain(connection, request, record,
                        "the path of a file that stays one holds //, . or ..; leave them out",
                        error);
    result = kept_file_check(connection, request, path, status, &why, error);
    if (result < 0)
        return result;
    return why ? complain(connection, request, record, why, error)
               : row_insert(connection, request, record, request->job, false, &id, error);
}

/* ---- records --------------------------------------------------------------------------------- */

/* A new checkpoint, whose file is looked at. 1 while there is more of it to copy. */
static int file_store(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, struct error *error)
{
    const char *path = json_get_string(record->object, "path", ""), *why;
    struct error reason = {0};
    AUTO_CLOSE int file = attempt_folder_open_file(request->folder, path, request->uid, &reason);
    struct stat status;
    int result;

    if (file == -ENOENT && checkpoint_removals_follow(request, record, path))
        return 0;
    if (file < 0 || fstat(file, &status) < 0)
        return complain(connection, request, record, reason.text, error);
    if (status.st_size != json_get_int(record->object, "bytes", -1))
        return complain(connection, request, record, "its file has another size than announced",
                        error);
    if (checkpoint_file_has_holes(file, &status))
        return complain(connection, request, record,
                        "its file has holes; write all of its bytes to the disk", error);
    result = limits_check(connection, request, (uint64_t)status.st_size, &why, error);
    if (result < 0)
        return result;
    if (why)
        return complain(connection, request, record, why, error);
    if ((uint64_t)status.st_size > request->limits.database)
        return kept_file_store(connection, request, record, &status, error);
    return copy_begin(connection, request, record, TAKE_DESCRIPTOR(file), &status, error);
}

int checkpoint_store(struct store_connection *connection, struct spool_store *request,
                     const struct spool_record *record, struct error *error)
{
    int result;

    if (request->copy.under_way) {
        result = copy_go_on(connection, request, record, error);
    } else {
        result = known_update(connection, request, record, error);
        result = result < 0   ? result
                 : result > 0 ? 0
                              : file_store(connection, request, record, error);
    }
    if (result != 0)
        return result;
    result = removals_store(connection, request, record, error);
    return result < 0 ? result : earlier_retain(connection, request, error);
}

/* ---- at a start ------------------------------------------------------------------------------ */

static int tidy_work(struct store_connection *connection, void *data, struct error *error)
{
    static const char *const commands[] = {
        CHECKPOINTS_DROP "WHERE job < 0",
        "UPDATE checkpoint SET uid = (SELECT uid FROM job WHERE job.id = checkpoint.job) WHERE uid "
        "IS NULL AND job <> 0"};

    (void)data;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        sqlite3_stmt *statement = store_statement(connection, commands[i], error);
        int result = statement ? store_statement_run(statement, error) : error->code;

        if (result < 0)
            return result;
    }
    return 0;
}

static void on_tidied(void *data, int result, const struct error *error)
{
    (void)result; /* what it leaves, the next start finds */
    (void)error;
    checkpoints_purge(data);
}

void checkpoints_tidy(struct daemon *daemon)
{
    store_write(daemon->store, tidy_work, on_tidied, daemon);
}
