/* checkpoint_reads.c: see checkpoint_reads.h. */
#include "daemon/store/checkpoint_reads.h"

#include "base/memory.h"
#include "base/sha256.h"
#include "daemon/store/columns.h"
#include "daemon/store/statement.h"
#include "daemon/types/job_types.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1024 * 1024 /* of checkpoint_chunk */ };

/* A metric that is not finite is stored as null. */
static void read_metrics(struct json_object *checkpoint, const struct statement *row, int column)
{
    JSON_AUTO struct json_object *stored = row_read_object(row, column);

    json_set(checkpoint, "metrics", json_object_new_object());
    json_set(checkpoint, "nonfinite", NULL);
    if (stored) {
        json_object_object_foreach (stored, name, value) {
            row_add_metric(checkpoint, name, value ? json_object_get_double(value) : NAN);
        }
    }
}

static const char select_list[] =
    "SELECT * FROM (SELECT step, epoch, time, bytes, digest, best, location, metrics"
    "  FROM checkpoint WHERE job = :job ORDER BY step DESC LIMIT :limit)"
    " ORDER BY step";

int checkpoints_read(struct store_connection *connection, int64_t job, int64_t limit,
                     struct json_object *checkpoints, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_list, error);

    statement_bind_int(&rows, ":job", job);
    statement_bind_int(&rows, ":limit", limit);
    while (statement_next(&rows) > 0) {
        struct json_object *checkpoint = json_object_new_object();

        row_set_int(checkpoint, "step", &rows, 0);
        row_set_double(checkpoint, "epoch", &rows, 1);
        row_set_double(checkpoint, "time", &rows, 2);
        row_set_int(checkpoint, "bytes", &rows, 3);
        row_set_text(checkpoint, "digest", &rows, 4);
        json_set_bool(checkpoint, "best", statement_int(&rows, 5) != 0);
        row_set_text(checkpoint, "location", &rows, 6);
        read_metrics(checkpoint, &rows, 7);
        json_object_array_add(checkpoints, checkpoint);
    }
    return rows.result;
}

static const char select_one[] =
    "SELECT checkpoint.id, attempt, step, bytes, path,"
    "  (SELECT uid FROM job WHERE job.id = checkpoint.job), location = 'file'"
    " FROM checkpoint WHERE job = :job AND (:step < 0 OR step = :step)"
    " ORDER BY best DESC, step DESC LIMIT 1";

int checkpoint_find(struct store_connection *connection, int64_t job, int64_t step,
                    struct checkpoint_row *row, struct error *error)
{
    AUTO_STATEMENT struct statement found = statement_open(connection, select_one, error);

    statement_bind_int(&found, ":job", job);
    statement_bind_int(&found, ":step", step);
    if (statement_next(&found) <= 0)
        return found.result;
    *row = (struct checkpoint_row){.id = statement_int(&found, 0),
                                   .attempt = statement_int(&found, 1),
                                   .step = statement_int(&found, 2),
                                   .bytes = statement_int(&found, 3),
                                   .uid = (uid_t)statement_int(&found, 5)};
    if (statement_int(&found, 6))
        row->path = memory_copy_text(statement_text(&found, 4));
    return 1;
}

int checkpoint_absence(struct store_connection *connection, int64_t job, int64_t step,
                       struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(
        connection, "SELECT kind = 'command', state FROM job WHERE id = :job", error);
    bool is_command, has_ended;

    statement_bind_int(&row, ":job", job);
    if (statement_next(&row) < 0)
        return row.result;
    is_command = row.result > 0 && statement_int(&row, 0);
    has_ended = row.result > 0 && job_state_is_final((enum job_state)statement_choice(
                                      &row, 1, job_state_from_string, JOB_QUEUED));
    if (step >= 0)
        return error_set(error, -ENOENT,
                         "job %lld has no checkpoint of step %lld; `trainctl checkpoints %lld` "
                         "lists those that are kept",
                         (long long)job, (long long)step, (long long)job);
    if (is_command)
        return error_set(error, -ENOENT,
                         "job %lld is a command, and has no checkpoint: its model is in the files "
                         "that the program itself writes",
                         (long long)job);
    return error_set(error, -ENOENT, "job %lld has no checkpoint%s", (long long)job,
                     has_ended ? ": none was taken or kept (checkpoint.keep, `trainctl rm "
                                 "--checkpoints`)"
                               : " yet");
}

static int check_chunk(const void *bytes, size_t size, const char *expected, struct error *error)
{
    struct sha256 hash;
    char digest[SHA256_HEX_SIZE];

    sha256_begin(&hash);
    sha256_add(&hash, bytes, size);
    sha256_end(&hash, digest);
    if (strcmp(digest, expected) != 0)
        return error_set(error, -ERROR_DAMAGED,
                         "the checkpoint is damaged in traind's database: its checksum differs");
    return 0;
}

static const char select_chunk[] =
    "SELECT data, digest FROM checkpoint_chunk WHERE checkpoint = :checkpoint AND number = :number";

int checkpoint_piece_read(struct store_connection *connection, int64_t checkpoint, int64_t offset,
                          char *buffer, size_t limit, size_t *size, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_chunk, error);
    size_t begin = (size_t)(offset % CHUNK_BYTES), length;
    const char *data;
    int result = 0;

    *size = 0;
    statement_bind_int(&row, ":checkpoint", checkpoint);
    statement_bind_int(&row, ":number", offset / CHUNK_BYTES);
    if (statement_next(&row) <= 0)
        return row.result;
    data = statement_blob(&row, 0, &length);
    if (begin == 0)
        result = check_chunk(data, length, statement_text(&row, 1), error);
    if (result < 0)
        return result;
    if (begin < length) {
        *size = length - begin < limit ? length - begin : limit;
        memcpy(buffer, data + begin, *size);
    }
    return 1;
}

static const char select_paths[] =
    "SELECT path FROM checkpoint WHERE job = :job AND attempt = :attempt AND location = 'file'"
    " AND path IS NOT NULL ORDER BY path";

int checkpoint_paths_read(struct store_connection *connection, int64_t job, int64_t attempt,
                          int (*take)(void *data, const char *path), void *data,
                          struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_paths, error);

    statement_bind_int(&rows, ":job", job);
    statement_bind_int(&rows, ":attempt", attempt);
    while (statement_next(&rows) > 0)
        if (take(data, statement_text(&rows, 0)) < 0)
            return error_no_memory(error, "a checkpoint");
    return rows.result;
}

static const char select_usage[] =
    "SELECT job.id, job.name, job.user, job.state, job.ended, job.attempt, held.count, held.bytes,"
    "  sum(held.bytes) OVER (), sum(held.count) OVER ()"
    " FROM (SELECT job AS id, count(*) AS count, sum(bytes) AS bytes FROM checkpoint GROUP BY job)"
    "  AS held JOIN job ON job.id = held.id"
    " WHERE :uid < 0 OR job.uid = :uid ORDER BY held.bytes DESC LIMIT :limit";

int checkpoint_usage_read(struct store_connection *connection, int64_t uid, int64_t limit,
                          void (*take)(void *data, const struct checkpoint_usage *usage),
                          void *data, int64_t *count, int64_t *bytes, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_usage, error);

    *count = *bytes = 0;
    statement_bind_int(&rows, ":uid", uid);
    statement_bind_int(&rows, ":limit", limit);
    while (statement_next(&rows) > 0) {
        struct checkpoint_usage usage = {
            .job = statement_int(&rows, 0),
            .name = statement_text(&rows, 1),
            .user = statement_text(&rows, 2),
            .state = statement_text(&rows, 3),
            .ended = statement_is_null(&rows, 4) ? NAN : statement_double(&rows, 4),
            .attempts = statement_int(&rows, 5),
            .count = statement_int(&rows, 6),
            .bytes = statement_int(&rows, 7),
        };

        *bytes = statement_int(&rows, 8);
        *count = statement_int(&rows, 9);
        take(data, &usage);
    }
    return rows.result;
}
