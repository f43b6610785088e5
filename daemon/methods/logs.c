/* logs.c: Logs. Input: a job, an attempt (null: the current or last one), and a byte offset or a
 * number of bytes before the end. Output: the trainee's output from there; with `more` it is
 * followed until the attempt has ended.
 *
 * The log belongs to the job's user, so it is opened with care (folder/attempt_folder.h) and kept
 * open. A follower reads on when the kernel notifies that the open file has changed, or when the
 * job changes because its attempt has begun or ended. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/events/watches.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/jobs/job_logs.h"
#include "daemon/methods/methods.h"
#include "daemon/store/attempt_rows.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/store.h"
#include "daemon/store/sweep_rows.h"
#include "daemon/types/job_types.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 128 * 1024, /* of the file per reply; up to six times as much in JSON */
    TAIL_BYTES_MAX = 1024 * 1024,
    GATHER_MILLISECONDS = 10, /* after a notice, to send later writes in the same reply */
    POLL_MILLISECONDS = 100   /* if the kernel's limit of watches is reached */
};

struct log_reader {
    uv_timer_t timer;
    uv_fs_event_t notice; /* watches the log once it is open */
    int open_handles;     /* of these two */
    bool noticing;
    struct watch watch;
    struct call *call;
    int64_t id, attempt, offset; /* attempt -1: not chosen yet */
    bool attempt_named;          /* the caller named the attempt */
    int64_t tail;                /* begins this many bytes before the end; 0: at the offset */
    int descriptor;              /* owned; -1 until the log is there */
    bool reading, dirty;         /* dirty: there may be more to read */
    /* of the current read: */
    char *text;    /* owned; valid UTF-8 without NUL */
    bool at_end;   /* no more bytes for now */
    bool finished; /* and none will follow */
};

static void pump(struct log_reader *reader);

/* ---- text ------------------------------------------------------------------------------------ */

/* The length of the valid UTF-8 sequence at `bytes`; 0: it is invalid; -1: the end cuts it off. */
static int sequence_length(const unsigned char *bytes, size_t size)
{
    static const struct {
        unsigned char first, last, second_first, second_last;
        int length;
    } forms[] = {
        /* RFC 3629, section 4; NUL is left out: many readers of JSON refuse it */
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (bytes[0] < forms[i].first || bytes[0] > forms[i].last)
            continue;
        for (int k = 1; k < forms[i].length; k++) {
            unsigned char first = k == 1 ? forms[i].second_first : 0x80;
            unsigned char last = k == 1 ? forms[i].second_last : 0xbf;

            if ((size_t)k == size)
                return -1;
            if (bytes[k] < first || bytes[k] > last)
                return 0;
        }
        return forms[i].length;
    }
    return 0;
}

/* Makes valid text of `size` bytes, with U+FFFD for each invalid byte. `*used` is less than `size`
 * if the end cuts off a sequence and more bytes may follow. */
static char *make_text(const unsigned char *bytes, size_t size, bool more_may_come, size_t *used)
{
    char *text = malloc(3 * size + 1), *end = text;
    size_t position = 0;

    while (text && position < size) {
        int length = sequence_length(bytes + position, size - position);

        if (length < 0 && more_may_come)
            break;
        if (length > 0) {
            memcpy(end, bytes + position, (size_t)length);
            end += length;
            position += (size_t)length;
        } else {
            memcpy(end, "\xef\xbf\xbd", 3);
            end += 3;
            position++;
        }
    }
    if (text)
        *end = '\0';
    *used = position;
    return text;
}

/* ---- on the storage thread ------------------------------------------------------------------- */

struct attempt_facts {
    uid_t uid;
    bool job_ended, exists, ended;
};

/* Reads the state of a point of a sweep that has no row and may never get one. */
static int read_point_to_come(struct store_connection *connection, int64_t id,
                              enum job_state *state, int64_t *attempt, struct error *error)
{
    JSON_AUTO struct json_object *job = NULL;
    int result = sweep_point_find(connection, id, &job, error);

    if (result == 0)
        *state = (enum job_state)job_state_from_string(json_get_string(job, "state", ""));
    *attempt = 0;
    return result;
}

/* Checks that the job has the attempt. Attempt 0, the planning run, is accepted for every job. */
static int check_attempt(const struct log_reader *reader, int64_t last, struct error *error)
{
    if (reader->attempt <= last && (reader->attempt >= 0 || !reader->attempt_named))
        return 0;
    return error_set(error, -ENOENT, "job %lld has no attempt %lld; its last one is %lld",
                     (long long)reader->id, (long long)reader->attempt, (long long)last);
}

static int read_job(struct store_connection *connection, struct log_reader *reader,
                    struct attempt_facts *facts, struct error *error)
{
    enum job_state state;
    int64_t attempt;
    int result = job_attempt_read(connection, reader->id, &facts->uid, &state, &attempt, error);

    if (result == 0)
        result = read_point_to_come(connection, reader->id, &state, &attempt, error);
    if (result < 0)
        return result;
    result = check_attempt(reader, attempt, error);
    if (result < 0)
        return result;
    facts->job_ended = job_state_is_final(state);
    /* before the first attempt there is only the planning run, whose output is shown if the job
     * ended with it */
    if (reader->attempt < 0 && (attempt > 0 || facts->job_ended))
        reader->attempt = attempt;
    return 0;
}

static int read_attempt(struct store_connection *connection, struct log_reader *reader,
                        struct attempt_facts *facts, struct error *error)
{
    int result = attempt_ended_read(connection, reader->id, reader->attempt, &facts->ended, error);

    facts->exists = result > 0;
    return result < 0 ? result : 0;
}

/* Reads from the offset on. Reading ends before a hole (jobs/job_logs.h), and then sets `*stops`.
 * At a hole nothing is read, and `*left_out` receives its length in bytes. */
static ssize_t read_data(const struct log_reader *reader, void *bytes, int64_t *left_out,
                         bool *stops)
{
    off_t end = lseek(reader->descriptor, 0, SEEK_END), hole,
          data = lseek(reader->descriptor, reader->offset, SEEK_DATA);
    size_t size = PIECE_BYTES;

    if (data < 0 && errno == ENXIO && end > reader->offset)
        data = end;
    if (data > reader->offset) {
        *left_out = data - reader->offset;
        return 0;
    }
    hole = data < 0 ? -1 : lseek(reader->descriptor, reader->offset, SEEK_HOLE);
    if (hole > reader->offset && hole < end && hole - reader->offset <= PIECE_BYTES) {
        size = (size_t)(hole - reader->offset);
        *stops = true;
    }
    return pread(reader->descriptor, bytes, size, reader->offset);
}

/* Whether the hole at the offset begins where LogLimit makes holes. Any program may leave holes in
 * its output. */
static bool hole_is_of_limit(const struct log_reader *reader)
{
    uint64_t limit = reader->call->daemon->config.log_limit_bytes;
    off_t begin = (off_t)job_logs_hole_begin(limit);

    return limit && begin > 0 && lseek(reader->descriptor, begin - 1, SEEK_HOLE) == begin &&
           lseek(reader->descriptor, begin, SEEK_DATA) ==
               lseek(reader->descriptor, reader->offset, SEEK_DATA);
}

static char *left_out_text(const struct log_reader *reader, int64_t bytes)
{
    const char *why =
        hole_is_of_limit(reader) ? "LogLimit" : "the program left a hole in its output";
    char *text = NULL;

    return asprintf(&text, "\n[%lld bytes of the output are left out here: %s]\n", (long long)bytes,
                    why) < 0
               ? NULL
               : text;
}

static int read_piece(struct store_connection *connection, void *data, struct error *error)
{
    struct log_reader *reader = data;
    struct attempt_facts facts = {0};
    AUTO_FREE unsigned char *bytes = malloc(PIECE_BYTES);
    ssize_t size = 0;
    size_t used = 0;
    int64_t left_out = 0;
    bool stops = false;
    int result = bytes ? read_job(connection, reader, &facts, error)
                       : error_no_memory(error, "a piece of a log");

    if (result == 0 && reader->attempt >= 0)
        result = read_attempt(connection, reader, &facts, error);
    if (result < 0)
        return result;
    if (reader->descriptor < 0 && facts.exists)
        reader->descriptor = attempt_open_file(reader->call->daemon->state_directory, reader->id,
                                               reader->attempt, facts.uid, "log", error);
    if (reader->descriptor < 0 && facts.exists && reader->descriptor != -ENOENT)
        return reader->descriptor;
    if (reader->descriptor >= 0 && reader->tail) {
        off_t end = lseek(reader->descriptor, 0, SEEK_END);

        reader->offset = end > reader->tail ? end - reader->tail : 0;
        reader->tail = 0;
    }
    if (reader->descriptor >= 0)
        size = read_data(reader, bytes, &left_out, &stops);
    if (size < 0)
        return error_set_errno(error, -errno, "cannot read the log");

    bool ended = facts.ended || (facts.job_ended && !facts.exists);
    reader->text =
        left_out ? left_out_text(reader, left_out)
                 : make_text(bytes, (size_t)size, !stops && (!ended || size == PIECE_BYTES), &used);
    reader->offset += left_out ? left_out : (int64_t)used;
    reader->at_end = !left_out && !stops && size < PIECE_BYTES;
    reader->finished = ended && reader->at_end;
    return reader->text ? 0 : error_no_memory(error, "a piece of a log");
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct log_reader *reader = handle->data;

    if (--reader->open_handles == 0)
        free(reader);
}

static void reader_end(struct log_reader *reader)
{
    watch_unregister(&reader->call->daemon->watches, &reader->watch);
    if (reader->descriptor >= 0)
        close(reader->descriptor);
    free(reader->text);
    uv_close((uv_handle_t *)&reader->timer, on_handle_closed);
    uv_close((uv_handle_t *)&reader->notice, on_handle_closed);
}

static void read_on(struct log_reader *reader)
{
    reader->dirty = true;
    pump(reader);
}

static void on_timer(uv_timer_t *timer)
{
    read_on(timer->data);
}

static void on_notice(uv_fs_event_t *notice, const char *name, int events, int status)
{
    struct log_reader *reader = notice->data;

    (void)name;
    (void)events;
    (void)status;
    if (!uv_is_active((uv_handle_t *)&reader->timer))
        uv_timer_start(&reader->timer, on_timer, GATHER_MILLISECONDS, 0);
}

static void on_event(struct watch *watch, size_t index, enum watch_event event)
{
    (void)index;
    if (event == WATCH_CHANGED)
        read_on((struct log_reader *)((char *)watch - offsetof(struct log_reader, watch)));
}

/* Watches the open file, even if the user has put another file under its name since. */
static void notice_start(struct log_reader *reader)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", reader->descriptor);
    reader->noticing = true;
    if (uv_fs_event_start(&reader->notice, on_notice, path, 0) < 0)
        uv_timer_start(&reader->timer, on_timer, POLL_MILLISECONDS, POLL_MILLISECONDS);
    reader->dirty = true; /* something may have been written before */
}

static void fail_reading(struct call *call, int64_t id, int64_t attempt, const struct error *error)
{
    struct json_object *parameters;

    if (error->code != -ENOENT) {
        call_fail_job(call, id, error);
        return;
    }
    parameters = json_object_new_object();
    json_set_int(parameters, "id", id);
    json_set_int(parameters, "attempt", attempt);
    call_fail(call, "NoSuchAttempt", parameters, "%s", error->text);
}

static void on_piece(void *data, int result, const struct error *error)
{
    struct log_reader *reader = data;
    struct call *call = reader->call;
    bool last = !call->more || reader->finished;
    int64_t id = reader->id, attempt = reader->attempt;
    struct json_object *reply;

    reader->reading = false;
    if (result < 0) {
        reader_end(reader);
        fail_reading(call, id, attempt, error);
        return;
    }
    reply = json_object_new_object();
    json_set_int(reply, "attempt", reader->attempt < 0 ? 0 : reader->attempt);
    json_set_string(reply, "text", reader->text);
    json_set_int(reply, "next", reader->offset);
    if (last || !call->connection) {
        reader_end(reader);
        call_reply(call, reply);
        return;
    }
    if (*reader->text)
        call_continue(call, reply);
    else
        json_object_put(reply);
    free(TAKE_POINTER(reader->text));
    reader->dirty |= !reader->at_end;
    if (reader->descriptor >= 0 && !reader->noticing)
        notice_start(reader);
    pump(reader);
}

static void pump(struct log_reader *reader)
{
    if (reader->reading || !reader->dirty || !call_has_room(reader->call))
        return;
    reader->dirty = false;
    reader->reading = true;
    store_read(reader->call->daemon->store, read_piece, on_piece, reader);
}

static void on_room(struct call *call)
{
    pump(call->state);
}

static void on_gone(struct call *call)
{
    struct log_reader *reader = call->state;

    if (reader->reading)
        return; /* on_piece ends it */
    reader_end(reader);
    call_reply(call, NULL);
}

static void handle_logs(struct call *call)
{
    struct log_reader *reader = memory_zero(sizeof *reader);

    reader->call = call;
    reader->id = json_get_int(call->parameters, "id", 0);
    reader->attempt_named = json_get(call->parameters, "attempt") != NULL;
    reader->attempt = json_get_int(call->parameters, "attempt", -1);
    reader->offset = json_get_int(call->parameters, "offset", 0);
    if (reader->offset < 0)
        reader->offset = 0;
    reader->tail = json_get_int(call->parameters, "tail", 0);
    if (reader->tail < 0 || reader->tail > TAIL_BYTES_MAX)
        reader->tail = TAIL_BYTES_MAX;
    reader->descriptor = -1;
    uv_timer_init(call->daemon->loop, &reader->timer);
    uv_fs_event_init(call->daemon->loop, &reader->notice);
    reader->timer.data = reader->notice.data = reader;
    reader->open_handles = 2;
    reader->watch = (struct watch){.ids = &reader->id, .count = 1, .notify = on_event};
    watch_register(&call->daemon->watches, &reader->watch);
    call->state = reader;
    call->on_room = on_room;
    call->on_gone = on_gone;
    read_on(reader);
}

METHOD(Logs, handle_logs, ACCESS_OWNER, METHOD_STREAM);
