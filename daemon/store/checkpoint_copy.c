/* checkpoint_copy.c: see checkpoint_copy.h. */
#include "daemon/store/checkpoint_copy.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/store/checkpoint_purge.h"
#include "daemon/store/checkpoint_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_SIZE = 1024 * 1024, SLICE_CHUNKS = 4 };

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

/* The next slice. 1 when that was the last. */
static int content_copy(struct store_connection *connection, struct checkpoint_copy *copy,
                        int64_t expected, struct error *error)
{
    AUTO_FREE char *buffer = malloc(CHUNK_SIZE);

    if (!buffer)
        return error_set(error, -ENOMEM, "not enough memory to copy a checkpoint");
    for (int i = 0; i < SLICE_CHUNKS && copy->copied <= expected; i++) {
        ssize_t size = file_read_at(copy->file, buffer, CHUNK_SIZE, copy->copied);
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
    return checkpoint_rows_drop(connection, request, statement, error);
}

/* All of it is there: the row becomes the job's. */
static int copy_adopt(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, struct error *error)
{
    sqlite3_stmt *statement;
    int result = checkpoint_predecessors_drop(connection, request, request->job,
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
int checkpoint_copy_go_on(struct store_connection *connection, struct spool_store *request,
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
                          : checkpoint_obsolete_add(request, request->attempt,
                                                    json_get_string(record->object, "path", ""));
    }
    result = copy_drop(connection, request, error);
    return result < 0
               ? result
               : checkpoint_complain(connection, request, record,
                                     "its content does not have the announced digest", error);
}

static bool same_file(const struct checkpoint_copy *copy, const struct stat *status)
{
    return copy->device == status->st_dev && copy->inode == status->st_ino &&
           copy->changed.tv_sec == status->st_ctim.tv_sec &&
           copy->changed.tv_nsec == status->st_ctim.tv_nsec;
}

/* Begins to copy the file, which it takes over. 1 while there is more of it. */
int checkpoint_copy_begin(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, int file, const struct stat *status,
                          struct error *error)
{
    struct checkpoint_copy *copy = &request->copy;
    int result;

    if (same_file(copy, status)) {
        close(file);
        return checkpoint_complain(connection, request, record,
                                   "an earlier record named the same file", error);
    }
    checkpoint_copy_close(copy);
    *copy = (struct checkpoint_copy){.file = file,
                                     .under_way = true,
                                     .device = status->st_dev,
                                     .inode = status->st_ino,
                                     .changed = status->st_ctim};
    sha256_begin(&copy->hash);
    result =
        checkpoint_row_insert(connection, request, record, -request->job, true, &copy->id, error);
    return result < 0 ? result : checkpoint_copy_go_on(connection, request, record, error);
}

void checkpoint_copy_close(struct checkpoint_copy *copy)
{
    if (copy->file >= 0)
        close(copy->file);
    copy->file = -1;
}
