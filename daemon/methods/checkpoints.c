/* checkpoints.c: Checkpoints and ReadCheckpoint. */
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/methods/methods.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/checkpoint_reads.h"
#include "daemon/store/job_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 512 * 1024, /* per reply; 683 KiB as base64 */
    LIST_MAX = 1000
};

/* ---- Checkpoints: a job → its stored checkpoints by step
 * ---------------------------------------- */

struct checkpoints_query {
    struct call *call;
    int64_t id;
    struct json_object *checkpoints;
};

static int read_checkpoints(struct store_connection *connection, void *data, struct error *error)
{
    struct checkpoints_query *query = data;

    return checkpoints_read(connection, query->id, LIST_MAX, query->checkpoints, error);
}

static void on_checkpoints(void *data, int result, const struct error *error)
{
    struct checkpoints_query query = *(struct checkpoints_query *)data;
    struct json_object *reply = json_object_new_object();

    free(data);
    reply_keep_last(query.checkpoints, REPLY_LIST_BYTES);
    json_set(reply, "checkpoints", query.checkpoints);
    if (result < 0) {
        json_object_put(reply);
        call_fail_storage(query.call, error);
    } else {
        call_reply(query.call, reply);
    }
}

static void handle_checkpoints(struct call *call)
{
    struct checkpoints_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->id = json_get_int(call->parameters, "id", 0);
    query->checkpoints = json_object_new_array();
    store_read(call->daemon->store, read_checkpoints, on_checkpoints, query);
}

METHOD(Checkpoints, handle_checkpoints, ACCESS_OWNER, METHOD_LONG);

/* ---- ReadCheckpoint: a job and a step → the file's bytes in pieces, in order ----------------- */

struct checkpoint_reader {
    struct call *call;
    int64_t id;
    int64_t wanted_step; /* -1: the best one, else the last */
    /* found when the first piece is read: */
    int64_t checkpoint; /* its row; 0: not found yet */
    int64_t attempt, step, bytes, offset;
    uid_t uid;
    char *path;     /* owned; of a checkpoint that is a file */
    int descriptor; /* owned */
    bool reading;
    /* of the current read: */
    char *data; /* owned; base64 */
    size_t size;
};

static int find_checkpoint(struct store_connection *connection, struct checkpoint_reader *reader,
                           struct error *error)
{
    struct checkpoint_row row;
    int result = checkpoint_find(connection, reader->id, reader->wanted_step, &row, error);

    if (result == 0)
        return checkpoint_absence(connection, reader->id, reader->wanted_step, error);
    if (result < 0)
        return result;
    reader->checkpoint = row.id;
    reader->attempt = row.attempt;
    reader->step = row.step;
    reader->bytes = row.bytes;
    reader->path = row.path;
    reader->uid = row.uid;
    return 0;
}

/* Reads at most one piece, from the chunk that holds the offset. */
static int read_from_database(struct store_connection *connection, struct checkpoint_reader *reader,
                              char *buffer, struct error *error)
{
    int result = checkpoint_piece_read(connection, reader->checkpoint, reader->offset, buffer,
                                       PIECE_BYTES, &reader->size, error);

    if (result == 0)
        return error_set(error, -ENOENT,
                         "the checkpoint of step %lld was replaced by a later one meanwhile",
                         (long long)reader->step);
    return result < 0 ? result : 0;
}

static int read_from_file(struct checkpoint_reader *reader, char *buffer, struct error *error)
{
    ssize_t size;

    if (reader->descriptor < 0)
        reader->descriptor = attempt_open_file(reader->call->daemon->state_directory, reader->id,
                                               reader->attempt, reader->uid, reader->path, error);
    if (reader->descriptor < 0)
        return reader->descriptor;
    size = pread(reader->descriptor, buffer, PIECE_BYTES, reader->offset);
    if (size < 0)
        return error_set_errno(error, -errno, "cannot read the checkpoint");
    reader->size = (size_t)size;
    return 0;
}

static int read_piece(struct store_connection *connection, void *data, struct error *error)
{
    struct checkpoint_reader *reader = data;
    AUTO_FREE char *buffer = malloc(PIECE_BYTES);
    int result = buffer ? 0 : error_no_memory(error, "a piece of a checkpoint");

    reader->size = 0;
    if (result == 0 && !reader->checkpoint)
        result = find_checkpoint(connection, reader, error);
    if (result == 0 && reader->offset < reader->bytes)
        result = reader->path ? read_from_file(reader, buffer, error)
                              : read_from_database(connection, reader, buffer, error);
    if (result == 0 && reader->size == 0 && reader->offset < reader->bytes)
        result = error_set(error, -ERROR_DAMAGED, "the checkpoint ends after %lld of %lld bytes",
                           (long long)reader->offset, (long long)reader->bytes);
    if (result < 0)
        return result;
    reader->data = malloc(base64_encoded_size(reader->size));
    if (!reader->data)
        return error_no_memory(error, "a piece of a checkpoint");
    base64_encode(buffer, reader->size, reader->data);
    return 0;
}

static void reader_free(struct checkpoint_reader *reader)
{
    if (reader->descriptor >= 0)
        close(reader->descriptor);
    free(reader->path);
    free(reader->data);
    free(reader);
}

static void pump_checkpoint(struct checkpoint_reader *reader);

static void fail_reading(struct checkpoint_reader *reader, int result, const struct error *error)
{
    struct call *call = reader->call;
    struct json_object *parameters;

    if (result == -ENOENT) {
        parameters = json_object_new_object();
        json_set_int(parameters, "id", reader->id);
        reader_free(reader);
        call_fail(call, "NoSuchCheckpoint", parameters, "%s", error->text);
    } else {
        reader_free(reader);
        call_fail_storage(call, error);
    }
}

static void on_piece(void *data, int result, const struct error *error)
{
    struct checkpoint_reader *reader = data;
    struct call *call = reader->call;
    struct json_object *reply;

    reader->reading = false;
    if (result < 0) {
        fail_reading(reader, result, error);
        return;
    }
    reply = json_object_new_object();
    json_set_int(reply, "step", reader->step);
    json_set_int(reply, "bytes", reader->bytes);
    json_set_int(reply, "offset", reader->offset);
    json_set_string(reply, "data", reader->data);
    free(TAKE_POINTER(reader->data));
    reader->offset += (int64_t)reader->size;
    if (!call->connection || !call->more || reader->offset >= reader->bytes) {
        reader_free(reader);
        call_reply(call, reply);
        return;
    }
    call_continue(call, reply);
    pump_checkpoint(reader);
}

static void pump_checkpoint(struct checkpoint_reader *reader)
{
    if (reader->reading || !call_has_room(reader->call))
        return;
    reader->reading = true;
    store_read(reader->call->daemon->store, read_piece, on_piece, reader);
}

static void on_room(struct call *call)
{
    pump_checkpoint(call->state);
}

static void on_gone(struct call *call)
{
    struct checkpoint_reader *reader = call->state;

    if (reader->reading)
        return; /* on_piece ends it */
    reader_free(reader);
    call_reply(call, NULL);
}

static void handle_read_checkpoint(struct call *call)
{
    struct checkpoint_reader *reader = memory_zero(sizeof *reader);

    reader->call = call;
    reader->id = json_get_int(call->parameters, "id", 0);
    reader->wanted_step = json_get_int(call->parameters, "step", -1);
    reader->descriptor = -1;
    call->state = reader;
    call->on_room = on_room;
    call->on_gone = on_gone;
    pump_checkpoint(reader);
}

METHOD(ReadCheckpoint, handle_read_checkpoint, ACCESS_OWNER, METHOD_STREAM);
