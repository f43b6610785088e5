/* event_file.c: see event_file.h. */
#include "client/exports/event_file.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "client/exports/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* Numbers of fields; messages not listed are nested in these. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_LOG_MESSAGE = 6,
    EVENT_SESSION_LOG = 7,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    PLUGIN_CONTENT = 2,
    TENSOR_TYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_TEXTS = 8,
    SHAPE_DIMENSION = 2,
    SESSION_STATUS = 1,
    LOG_LEVEL = 1,
    LOG_TEXT = 2
};
enum { TYPE_FLOAT = 1, TYPE_STRING = 7 }; /* enum DataType */
enum { SESSION_START = 1, LEVEL_INFO = 20 };

/* A record: uint64 length, uint32 checksum, content, uint32 checksum; little endian. */
enum { RECORD_HEAD = 12, RECORD_TAIL = 4, RECORD_LIMIT = 64 * 1024 * 1024 };
/* A head has a specification, which came in a message of 1 MiB at most. */
enum { HEAD_LIMIT = 4 * 1024 * 1024 };

static const char mark_format[] = "traind: job %" PRId64 ", rows up to %" PRId64 " (%" PRId64
                                  " values), attempt %" PRId64 ", %9s";
static const char mark_reading[] = "traind: job %" SCNd64 ", rows up to %" SCNd64 " (%" SCNd64
                                   " values), attempt %" SCNd64 ", %9s";

static uint64_t little_endian(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/* TFRecord masks checksums, because content may hold checksums itself. */
static uint32_t checksum_masked(const void *bytes, size_t size)
{
    uint32_t sum = crc32c(bytes, size);

    return (sum >> 15 | sum << 17) + UINT32_C(0xa282ead8);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void record_append(struct protobuf *to, const struct protobuf *content)
{
    unsigned char head[RECORD_HEAD], tail[RECORD_TAIL];
    uint32_t sum;

    for (size_t i = 0; i < 8; i++)
        head[i] = (unsigned char)((uint64_t)content->size >> 8 * i);
    sum = checksum_masked(head, 8);
    for (size_t i = 0; i < 4; i++)
        head[8 + i] = (unsigned char)(sum >> 8 * i);
    sum = checksum_masked(content->bytes, content->size);
    for (size_t i = 0; i < 4; i++)
        tail[i] = (unsigned char)(sum >> 8 * i);
    protobuf_append(to, head, sizeof head);
    protobuf_append(to, content->bytes, content->size);
    protobuf_append(to, tail, sizeof tail);
    to->failed = to->failed || content->failed;
}

/* Begins the next event in file->event. */
static struct protobuf *event_begin(struct event_file *file, int64_t step, double time)
{
    protobuf_clear(&file->event);
    protobuf_double(&file->event, EVENT_WALL_TIME, time);
    if (step)
        protobuf_integer(&file->event, EVENT_STEP, step);
    return &file->event;
}

/* Adds the event of a summary whose only value is file->value. */
static void value_add(struct event_file *file, int64_t step, double time)
{
    protobuf_clear(&file->summary);
    protobuf_message(&file->summary, SUMMARY_VALUE, &file->value);
    protobuf_message(event_begin(file, step, time), EVENT_SUMMARY, &file->summary);
    record_append(&file->pending, &file->event);
}

void event_file_add_scalar(struct event_file *file, const char *tag, int64_t step, double time,
                           double value)
{
    protobuf_clear(&file->value);
    protobuf_text(&file->value, VALUE_TAG, tag);
    protobuf_float(&file->value, VALUE_SIMPLE, (float)value);
    value_add(file, step, time);
}

/* Adds the event of a value that a plugin shows. Takes over `tensor` and `content`; NULL: none. */
static void plugin_value_add(struct event_file *file, const char *tag, const char *plugin,
                             double time, struct protobuf *tensor, const struct protobuf *content)
{
    CLEANUP(protobuf_release) struct protobuf data = {0}, metadata = {0};

    protobuf_text(&data, PLUGIN_NAME, plugin);
    if (content)
        protobuf_message(&data, PLUGIN_CONTENT, content);
    protobuf_message(&metadata, METADATA_PLUGIN, &data);
    protobuf_clear(&file->value);
    protobuf_text(&file->value, VALUE_TAG, tag);
    protobuf_message(&file->value, VALUE_TENSOR, tensor);
    protobuf_message(&file->value, VALUE_METADATA, &metadata);
    value_add(file, 0, time);
}

void event_file_add_text(struct event_file *file, const char *tag, double time, const char *text)
{
    CLEANUP(protobuf_release) struct protobuf tensor = {0};

    protobuf_integer(&tensor, TENSOR_TYPE, TYPE_STRING);
    protobuf_bytes(&tensor, TENSOR_SHAPE, "", 0); /* a scalar */
    protobuf_text(&tensor, TENSOR_TEXTS, text);
    plugin_value_add(file, tag, "text", time, &tensor, NULL);
}

void event_file_add_plugin_data(struct event_file *file, const char *tag, const char *plugin,
                                double time, const struct protobuf *data)
{
    CLEANUP(protobuf_release) struct protobuf tensor = {0}, shape = {0};

    /* viewers drop a value without a tensor: this one has the shape [0] */
    protobuf_bytes(&shape, SHAPE_DIMENSION, "", 0);
    protobuf_integer(&tensor, TENSOR_TYPE, TYPE_FLOAT);
    protobuf_message(&tensor, TENSOR_SHAPE, &shape);
    plugin_value_add(file, tag, plugin, time, &tensor, data);
}

void event_file_add_restart(struct event_file *file, int64_t step, double time)
{
    CLEANUP(protobuf_release) struct protobuf session = {0};

    protobuf_integer(&session, SESSION_STATUS, SESSION_START);
    protobuf_message(event_begin(file, step, time), EVENT_SESSION_LOG, &session);
    record_append(&file->pending, &file->event);
}

static void mark_add(struct event_file *file, const struct event_mark *mark, double time)
{
    CLEANUP(protobuf_release) struct protobuf message = {0};
    char text[256];

    snprintf(text, sizeof text, mark_format, mark->job, mark->cursor, mark->values, mark->attempt,
             mark->ended ? "ended" : "unfinished");
    protobuf_integer(&message, LOG_LEVEL, LEVEL_INFO);
    protobuf_text(&message, LOG_TEXT, text);
    protobuf_message(event_begin(file, 0, time), EVENT_LOG_MESSAGE, &message);
    record_append(&file->pending, &file->event);
}

int event_file_commit(struct event_file *file, const struct event_mark *mark, double time,
                      struct error *error)
{
    int result;

    mark_add(file, mark, time);
    if (file->pending.failed)
        result = error_no_memory(error, "events of job %" PRId64, mark->job);
    else if ((result = file_write_all(file->descriptor, file->pending.bytes, file->pending.size)) <
             0)
        error_set_errno(error, result, "cannot write %s", file->path);
    if (result < 0) {
        /* should this fail, too, the next event_file_open() cuts the file */
        if (ftruncate(file->descriptor, file->size) == 0)
            lseek(file->descriptor, file->size, SEEK_SET);
    } else {
        file->size += (int64_t)file->pending.size;
        file->mark = *mark;
    }
    protobuf_clear(&file->pending);
    return result;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Reads the mark if the event is one. */
static bool mark_read(const unsigned char *event, size_t size, struct event_mark *mark)
{
    const unsigned char *message, *content;
    size_t message_size, length;
    char text[256], state[10];

    if (!protobuf_find(event, size, EVENT_LOG_MESSAGE, &message, &message_size) ||
        !protobuf_find(message, message_size, LOG_TEXT, &content, &length) || length >= sizeof text)
        return false;
    memcpy(text, content, length);
    text[length] = '\0';
    if (sscanf(text, mark_reading, &mark->job, &mark->cursor, &mark->values, &mark->attempt,
               state) != 5)
        return false;
    mark->ended = strcmp(state, "ended") == 0;
    return true;
}

/* Reads the next record into `content`. False: the file ends here, or is damaged. */
static bool record_read(FILE *input, struct protobuf *content)
{
    unsigned char head[RECORD_HEAD];
    uint64_t length;

    if (fread(head, 1, sizeof head, input) != sizeof head ||
        little_endian(head + 8, 4) != checksum_masked(head, 8))
        return false;
    length = little_endian(head, 8);
    if (length > RECORD_LIMIT)
        return false;
    protobuf_clear(content);
    for (uint64_t left = length + RECORD_TAIL; left > 0;) {
        unsigned char piece[4096];
        size_t size = fread(piece, 1, left < sizeof piece ? left : sizeof piece, input);

        if (size == 0)
            return false;
        protobuf_append(content, piece, size);
        left -= size;
    }
    return !content->failed && little_endian(content->bytes + length, RECORD_TAIL) ==
                                   checksum_masked(content->bytes, length);
}

/* Finds the last mark; file->size stays 0 if there is none. */
static int mark_find(struct event_file *file, struct error *error)
{
    int copy = dup(file->descriptor);
    AUTO_FCLOSE FILE *input = copy < 0 ? NULL : fdopen(copy, "r");
    int64_t at = 0;

    if (!input) {
        int code = -errno;

        if (copy >= 0)
            close(copy);
        return error_set_errno(error, code, "cannot read %s", file->path);
    }
    while (record_read(input, &file->event)) {
        struct event_mark mark;
        size_t size = file->event.size - RECORD_TAIL;

        at += (int64_t)(RECORD_HEAD + file->event.size);
        if (mark_read(file->event.bytes, size, &mark)) {
            file->size = at;
            file->mark = mark;
        }
    }
    if (ferror(input))
        return error_set_errno(error, -EIO, "cannot read %s", file->path);
    return 0;
}

/* Checks what the file holds, and cuts off what lies behind its last mark. */
static int content_take(struct event_file *file, int64_t job, struct error *error)
{
    struct stat status;
    int result;

    if (fstat(file->descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot read %s", file->path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is no regular file", file->path);
    if (status.st_size == 0)
        return 0;
    result = mark_find(file, error);
    if (result < 0)
        return result;
    /* without a mark it is a head whose write was interrupted */
    if (file->size == 0 ? status.st_size > HEAD_LIMIT : file->mark.job != job)
        return error_set(error, -EINVAL,
                         "%s is no event file of job %" PRId64
                         ": move it away, or export to another folder",
                         file->path, job);
    if (file->size < status.st_size && ftruncate(file->descriptor, file->size) < 0)
        return error_set_errno(error, -errno, "cannot write %s", file->path);
    return 0;
}

int event_file_open(struct event_file *file, char *path, int64_t job, double time,
                    struct error *error)
{
    int result = 0;

    *file = (struct event_file){.descriptor = -1, .path = path, .mark.job = job};
    file->descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (file->descriptor < 0)
        result = error_set_errno(error, -errno, "cannot write %s", path);
    else if (flock(file->descriptor, LOCK_EX | LOCK_NB) < 0)
        result = errno == EWOULDBLOCK
                     ? error_set(error, -EBUSY, "another trainctl is writing %s", path)
                     : error_set_errno(error, -errno, "cannot lock %s", path);
    if (result == 0)
        result = content_take(file, job, error);
    if (result == 0 && lseek(file->descriptor, file->size, SEEK_SET) < 0)
        result = error_set_errno(error, -errno, "cannot write %s", path);
    if (result == 0 && file->size == 0) {
        protobuf_text(event_begin(file, 0, time), EVENT_FILE_VERSION, "brain.Event:2");
        record_append(&file->pending, &file->event);
    }
    if (result < 0)
        event_file_close(file);
    return result;
}

void event_file_close(struct event_file *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor); /* which unlocks it */
    free(file->path);
    protobuf_release(&file->pending);
    protobuf_release(&file->event);
    protobuf_release(&file->summary);
    protobuf_release(&file->value);
    *file = (struct event_file){.descriptor = -1};
}
