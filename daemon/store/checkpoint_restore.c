/* checkpoint_restore.c: copies the job's last checkpoint out of the database, or out of an earlier
 * attempt's folder, so that a retry can resume from it. It copies a slice at a time, because other
 * queries wait for the reader's thread. */
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/store/checkpoint_files.h"
#include "daemon/store/spool_store.h"
#include "daemon/store/statement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE_SIZE = 1024 * 1024, SLICE_PIECES = 4 };

/* clang-format off */
#define COLUMNS "id, attempt, step, bytes, location = 'database', digest, path"
static const char select_best[] =
    "SELECT " COLUMNS " FROM checkpoint"
    " WHERE job = :job AND best AND (step, id) < (:step, :id)";
static const char select_newest[] =
    "SELECT " COLUMNS " FROM checkpoint"
    " WHERE job = :job AND (step, id) < (:step, :id) ORDER BY step DESC, id DESC LIMIT 1";
/* clang-format on */

static int source_find(struct store_connection *connection, struct checkpoint_restore *restore,
                       struct error *error)
{
    struct stored_checkpoint found;
    int result = checkpoint_source_find(connection, &restore->source, &found, error);

    if (result < 0)
        return result;
    restore->uid = found.uid;
    restore->position = (struct checkpoint_position){.step = found.step, .id = found.id};
    restore->attempt = found.attempt;
    restore->bytes = found.bytes;
    restore->in_database = found.in_database;
    snprintf(restore->digest, sizeof restore->digest, "%s", found.digest);
    snprintf(restore->name, sizeof restore->name, "%s", found.path);
    return 0;
}

/* Finds the newest checkpoint before the restore's position, or the best one if it is before that.
 * The position INT64_MAX is behind all checkpoints. */
static int stored_checkpoint_find(struct store_connection *connection,
                                  struct checkpoint_restore *restore, struct error *error)
{
    AUTO_STATEMENT struct statement row =
        statement_open(connection, restore->best ? select_best : select_newest, error);

    if (restore->source.job)
        return source_find(connection, restore, error);
    statement_bind_int(&row, ":job", restore->job);
    statement_bind_int(&row, ":step", restore->position.step);
    statement_bind_int(&row, ":id", restore->position.id);
    if (statement_next(&row) <= 0)
        return row.result < 0 ? row.result : -ENOENT;
    restore->position.id = statement_int(&row, 0);
    restore->attempt = statement_int(&row, 1);
    restore->position.step = statement_int(&row, 2);
    restore->bytes = statement_int(&row, 3);
    restore->in_database = statement_int(&row, 4) != 0;
    statement_copy_text(&row, 5, restore->digest, sizeof restore->digest);
    statement_copy_text(&row, 6, restore->name, sizeof restore->name);
    return 0;
}

/* Appends a piece to the output file. */
static int piece_write(struct checkpoint_restore *restore, const void *bytes, size_t size,
                       struct error *error)
{
    int result;

    sha256_add(&restore->hash, bytes, size);
    restore->copied += (int64_t)size;
    result = file_write_all(restore->output, bytes, size);
    return result < 0 ? error_set_errno(error, result, "cannot write the checkpoint to resume from")
                      : 0;
}

static const char select_chunk[] =
    "SELECT data FROM checkpoint_chunk WHERE checkpoint = :checkpoint AND number = :number";

static int chunk_restore(struct store_connection *connection, struct checkpoint_restore *restore,
                         struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_chunk, error);
    const void *bytes;
    size_t size;

    statement_bind_int(&row, ":checkpoint", restore->position.id);
    statement_bind_int(&row, ":number", restore->copied / PIECE_SIZE);
    if (statement_next(&row) < 0)
        return row.result;
    bytes = row.result > 0 ? statement_blob(&row, 0, &size) : NULL;
    return bytes ? piece_write(restore, bytes, size, error)
                 : error_set(error, -ERROR_DAMAGED, "a part of it is missing");
}

static int file_piece_restore(struct checkpoint_restore *restore, char *buffer, struct error *error)
{
    int64_t left = restore->bytes - restore->copied;
    ssize_t size = file_read_at(restore->input, buffer,
                                left < PIECE_SIZE ? (size_t)left : PIECE_SIZE, restore->copied);

    if (size <= 0)
        return error_set(error, -ERROR_DAMAGED, "%s cannot be read: %s", restore->name,
                         size < 0 ? strerror((int)-size) : "it ends early");
    return piece_write(restore, buffer, (size_t)size, error);
}

static int slice_restore(struct store_connection *connection, struct checkpoint_restore *restore,
                         struct error *error)
{
    AUTO_FREE char *buffer = malloc(PIECE_SIZE);
    char digest[SHA256_HEX_SIZE];
    int result = 0;

    if (!buffer)
        return error_no_memory(error, "copying a checkpoint");
    for (int i = 0; i < SLICE_PIECES && restore->copied < restore->bytes && result == 0; i++)
        result = restore->in_database ? chunk_restore(connection, restore, error)
                                      : file_piece_restore(restore, buffer, error);
    if (result < 0)
        return result;
    if (restore->copied < restore->bytes)
        return 1;
    sha256_end(&restore->hash, digest);
    return strcmp(digest, restore->digest) == 0
               ? 0
               : error_set(error, -ERROR_DAMAGED, "its content does not have its digest any more");
}

static int input_open(struct checkpoint_restore *restore, struct error *error)
{
    struct stat status;

    restore->input = attempt_open_file(restore->state_directory, restore->job, restore->attempt,
                                       restore->uid, restore->name, error);
    if (restore->input < 0) /* the user has removed or replaced it */
        return file_opens_later(restore->input) ? restore->input : (error->code = -ERROR_DAMAGED);
    /* a file that has grown since would fill the disk */
    if (fstat(restore->input, &status) < 0 || status.st_size != restore->bytes)
        return error_set(error, -ERROR_DAMAGED, "%s has another size than it had", restore->name);
    if (checkpoint_file_has_holes(restore->input, &status))
        return error_set(error, -ERROR_DAMAGED, "%s has holes", restore->name);
    return 0;
}

static void input_close(struct checkpoint_restore *restore)
{
    if (restore->input >= 0)
        close(restore->input);
    restore->input = -1;
}

/* Finds the next candidate and opens the files to copy from and to. */
static int copy_begin(struct store_connection *connection, struct checkpoint_restore *restore,
                      struct error *error)
{
    int result;

    if (restore->output < 0)
        unlink(restore->path);
    result = stored_checkpoint_find(connection, restore, error);
    if (result < 0)
        return result;
    if (restore->output < 0)
        restore->output =
            open(restore->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (restore->output < 0)
        return error_set_errno(error, -errno, "cannot make %s", restore->path);
    if (ftruncate(restore->output, 0) < 0 || lseek(restore->output, 0, SEEK_SET) < 0)
        return error_set_errno(error, -errno, "cannot write the checkpoint to resume from");
    sha256_begin(&restore->hash);
    restore->copied = 0;
    restore->copying = true;
    return restore->in_database ? 1 : (result = input_open(restore, error)) < 0 ? result : 1;
}

void checkpoint_restore_init(struct checkpoint_restore *restore, const char *state_directory,
                             int64_t job, uid_t uid, const char *path,
                             const struct checkpoint_position *before)
{
    *restore = (struct checkpoint_restore){.state_directory = state_directory,
                                           .job = job,
                                           .uid = uid,
                                           .path = path,
                                           .best = before != NULL,
                                           .output = -1,
                                           .input = -1};
    restore->position = before ? *before : (struct checkpoint_position){INT64_MAX, INT64_MAX};
}

void checkpoint_restore_init_source(struct checkpoint_restore *restore, const char *state_directory,
                                    const struct checkpoint_source *source, const char *path)
{
    checkpoint_restore_init(restore, state_directory, source->job, source->asker, path, NULL);
    restore->source = *source;
}

int checkpoint_restore_next(struct store_connection *connection, struct checkpoint_restore *restore,
                            struct error *error)
{
    int result = restore->copying ? slice_restore(connection, restore, error)
                                  : copy_begin(connection, restore, error);

    if (result > 0)
        return result;
    input_close(restore);
    /* not where the search itself fails: it would find the same for ever */
    if (result == -ERROR_DAMAGED && restore->copying && restore->source.job) {
        error_prefix(error, "the checkpoint of step %lld of job %lld",
                     (long long)restore->position.step, (long long)restore->job);
        result = error->code = -ERROR_STALE_FILE; /* the database itself may be mended */
    } else if (result == -ERROR_DAMAGED && !restore->best && restore->copying) {
        log_warning("job %lld: the checkpoint of step %lld is passed over: %s",
                    (long long)restore->job, (long long)restore->position.step, error->text);
        restore->copying = false;
        return 1;
    }
    if (result < 0)
        unlink(restore->path);
    return result;
}

void checkpoint_restore_close(struct checkpoint_restore *restore)
{
    input_close(restore);
    if (restore->output >= 0)
        close(restore->output);
    restore->output = -1;
}
