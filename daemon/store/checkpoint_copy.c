/* checkpoint_copy.c: see checkpoint_copy.h. */
#include "daemon/store/checkpoint_copy.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/store/checkpoint_rows.h"
#include "daemon/store/statement.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_SIZE = 1024 * 1024, SLICE_CHUNKS = 4 };

static const char insert_chunk[] = "INSERT INTO checkpoint_chunk (checkpoint, number, digest, data)"
                                   " VALUES (:checkpoint, :number, :digest, :data)";

static int chunk_insert(struct store_connection *connection, int64_t checkpoint, int64_t number,
                        const void *bytes, size_t size, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_chunk, error);
    char digest[SHA256_HEX_SIZE];
    struct sha256 hash;

    sha256_begin(&hash);
    sha256_add(&hash, bytes, size);
    sha256_end(&hash, digest);
    statement_bind_int(&statement, ":checkpoint", checkpoint);
    statement_bind_int(&statement, ":number", number);
    statement_bind_text(&statement, ":digest", digest);
    statement_bind_blob(&statement, ":data", bytes, size);
    return statement_run(&statement);
}

/* Copies the next slice. Returns 1 when that was the last one. */
static int content_copy(struct store_connection *connection, struct checkpoint_copy *copy,
                        int64_t expected, struct error *error)
{
    AUTO_FREE char *buffer = malloc(CHUNK_SIZE);

    if (!buffer)
        return error_no_memory(error, "copying a checkpoint");
    for (int i = 0; i < SLICE_CHUNKS && copy->copied <= expected; i++) {
        ssize_t size = file_read_at(copy->file, buffer, CHUNK_SIZE, copy->copied);
        int result;

        if (size <= 0) /* the digest will differ, which rejects the file */
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

static const char update_job[] = "UPDATE checkpoint SET job = :job WHERE id = :id";

/* Gives the finished row to the job. */
static int copy_adopt(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_job, error);
    int result = checkpoint_predecessors_drop(connection, request, request->job,
                                              json_get_int(record->object, "step", 0),
                                              json_get_bool(record->object, "best", false), error);

    if (result < 0)
        return result;
    statement_bind_int(&statement, ":job", request->job);
    statement_bind_int(&statement, ":id", request->copy.id);
    return statement_run(&statement);
}

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
    result = checkpoint_drop(connection, request, copy->id, error);
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
