/* spool.c: see spool.h. */
#include "daemon/folder/spool.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const spool_type_names[] = {
    [SPOOL_START] = "start",           [SPOOL_PROGRESS] = "progress", [SPOOL_METRIC] = "metric",
    [SPOOL_CHECKPOINT] = "checkpoint", [SPOOL_BEST] = "best",         [SPOOL_PLAN] = "plan",
    [SPOOL_PROFILE] = "profile",       [SPOOL_WARNING] = "warning",   [SPOOL_ERROR] = "error",
    [SPOOL_RESULT] = "result"};
DEFINE_STRING_TABLE(spool_type, enum spool_type, spool_type_names)

enum field_kind {
    FIELD_NUMBER,
    FIELD_COUNT,
    FIELD_TEXT,
    FIELD_FLAG,
    FIELD_OBJECT,
    FIELD_NUMBERS,
    FIELD_PATHS
};

static const char *const field_kind_words[] = {
    [FIELD_NUMBER] = "a number",
    [FIELD_COUNT] = "a whole number of at least 0",
    [FIELD_TEXT] = "a text",
    [FIELD_FLAG] = "true or false",
    [FIELD_OBJECT] = "an object",
    [FIELD_NUMBERS] =
        "an object of at most 256 numbers, their names 1 to 128 bytes without control characters",
    [FIELD_PATHS] = "a list of at most 100 paths"};

/* The members that a record of each type must have or may have. */
static const struct field {
    enum spool_type type;
    const char *name;
    enum field_kind kind;
    bool required;
} fields[] = {
    {SPOOL_START, "device", FIELD_TEXT, false},
    {SPOOL_START, "threads", FIELD_COUNT, false},
    {SPOOL_START, "precision", FIELD_TEXT, false},
    {SPOOL_START, "precision_reason", FIELD_TEXT, false},
    {SPOOL_START, "steps", FIELD_COUNT, false},
    {SPOOL_START, "epochs", FIELD_COUNT, false},
    {SPOOL_START, "resumed_from_step", FIELD_COUNT, false},
    {SPOOL_START, "versions", FIELD_OBJECT, false},
    {SPOOL_PROGRESS, "step", FIELD_COUNT, true},
    {SPOOL_PROGRESS, "epoch", FIELD_NUMBER, false},
    {SPOOL_PROGRESS, "loss", FIELD_NUMBER, false},
    {SPOOL_PROGRESS, "samples_per_second", FIELD_NUMBER, false},
    {SPOOL_PROGRESS, "seconds_left", FIELD_NUMBER, false},
    {SPOOL_PROGRESS, "step_seconds", FIELD_NUMBER, false},
    {SPOOL_PROGRESS, "steps_timed", FIELD_NUMBER, false},
    {SPOOL_METRIC, "step", FIELD_COUNT, true},
    {SPOOL_METRIC, "epoch", FIELD_NUMBER, false},
    {SPOOL_METRIC, "values", FIELD_NUMBERS, true},
    {SPOOL_CHECKPOINT, "step", FIELD_COUNT, true},
    {SPOOL_CHECKPOINT, "epoch", FIELD_NUMBER, false},
    {SPOOL_CHECKPOINT, "path", FIELD_TEXT, true},
    {SPOOL_CHECKPOINT, "bytes", FIELD_COUNT, true},
    {SPOOL_CHECKPOINT, "digest", FIELD_TEXT, true},
    {SPOOL_CHECKPOINT, "best", FIELD_FLAG, false},
    {SPOOL_CHECKPOINT, "metrics", FIELD_NUMBERS, false},
    {SPOOL_CHECKPOINT, "remove", FIELD_PATHS, false},
    {SPOOL_BEST, "metric", FIELD_TEXT, true},
    {SPOOL_BEST, "value", FIELD_NUMBER, true},
    {SPOOL_BEST, "step", FIELD_COUNT, true},
    {SPOOL_BEST, "epoch", FIELD_NUMBER, false},
    {SPOOL_PLAN, "plan", FIELD_OBJECT, true},
    {SPOOL_PROFILE, "profile", FIELD_OBJECT, true},
    {SPOOL_WARNING, "message", FIELD_TEXT, true},
    {SPOOL_ERROR, "kind", FIELD_TEXT, false},
    {SPOOL_ERROR, "message", FIELD_TEXT, true},
    {SPOOL_ERROR, "step", FIELD_COUNT, false},
    {SPOOL_ERROR, "came_from", FIELD_TEXT, false},
    {SPOOL_RESULT, "metrics", FIELD_NUMBERS, false},
    {SPOOL_RESULT, "best", FIELD_OBJECT, false},
    {SPOOL_RESULT, "steps", FIELD_COUNT, false},
    {SPOOL_RESULT, "seconds", FIELD_NUMBER, false},
    {SPOOL_RESULT, "step_seconds", FIELD_NUMBER, false},
    {SPOOL_RESULT, "steps_timed", FIELD_NUMBER, false},
    {SPOOL_RESULT, "step_seconds_median", FIELD_NUMBER, false},
    {SPOOL_RESULT, "evaluation_seconds", FIELD_NUMBER, false},
    {SPOOL_RESULT, "evaluation_samples", FIELD_NUMBER, false},
};

static bool is_number_or_null(struct json_object *value)
{
    return !value || json_object_is_type(value, json_type_double) ||
           json_object_is_type(value, json_type_int);
}

bool spool_name_fits(const char *name)
{
    size_t length = strlen(name);

    return length >= 1 && length <= SPOOL_NAME_MAX && text_is_printable(name);
}

static void text_cut(struct json_object *text)
{
    const char *bytes = json_object_get_string(text);

    if (json_object_get_string_len(text) > SPOOL_TEXT_MAX) {
        AUTO_FREE char *copy = strndup(bytes, text_utf8_prefix(bytes, SPOOL_TEXT_MAX));

        if (copy)
            json_object_set_string(text, copy);
    }
}

static bool field_fits(struct json_object *value, enum field_kind kind)
{
    switch (kind) {
    case FIELD_NUMBER:
        return is_number_or_null(value);
    case FIELD_COUNT:
        return json_object_is_type(value, json_type_int) && json_object_get_int64(value) >= 0;
    case FIELD_TEXT:
        return json_object_is_type(value, json_type_string);
    case FIELD_FLAG:
        return json_object_is_type(value, json_type_boolean);
    case FIELD_OBJECT:
        return json_object_is_type(value, json_type_object);
    case FIELD_NUMBERS:
        if (!json_object_is_type(value, json_type_object))
            return false;
        json_object_object_foreach (value, name, number) {
            if (!is_number_or_null(number) || !spool_name_fits(name))
                return false;
        }
        return json_object_object_length(value) <= SPOOL_NUMBERS_MAX;
    case FIELD_PATHS:
        if (!json_object_is_type(value, json_type_array))
            return false;
        for (size_t i = 0; i < json_object_array_length(value); i++)
            if (!json_object_is_type(json_object_array_get_idx(value, i), json_type_string))
                return false;
        return json_object_array_length(value) <= SPOOL_PATHS_MAX;
    }
    return false;
}

static int record_check_fields(const struct spool_record *record, struct error *error)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct field *field = &fields[i];
        struct json_object *value = NULL;
        bool present;

        if (field->type != record->type)
            continue;
        present = json_object_object_get_ex(record->object, field->name, &value);
        if (!present && field->required)
            return error_set(error, -EINVAL, "a %s record needs %s",
                             spool_type_to_string(record->type), field->name);
        /* an optional field may be null */
        if (present && !(value == NULL && !field->required) && !field_fits(value, field->kind))
            return error_set(error, -EINVAL, "%s of a %s record must be %s", field->name,
                             spool_type_to_string(record->type), field_kind_words[field->kind]);
        if (value && field->kind == FIELD_TEXT)
            text_cut(value);
    }
    return 0;
}

int spool_record_parse(const char *line, size_t length, struct spool_record *record,
                       struct error *error)
{
    JSON_AUTO struct json_object *object = NULL;
    struct json_object *time;
    const char *type;
    int result = spool_line_parse(line, length, &object, error), index;

    if (result < 0)
        return -EINVAL;
    if (!json_object_is_type(object, json_type_object))
        return error_set(error, -EINVAL, "a record must be a JSON object");
    if (!json_object_object_get_ex(object, "type", NULL) &&
        !json_object_object_get_ex(object, "n", NULL))
        return spool_record_from_short_line(object, record, error);
    record->n = json_get_int(object, "n", 0);
    if (record->n < 1)
        return error_set(error, -EINVAL, "n must be a whole number of at least 1");
    time = json_get(object, "time");
    if (!time || !is_number_or_null(time))
        return error_set(error, -EINVAL, "time must be a number of seconds");
    record->time = json_object_get_double(time);
    type = json_get_string(object, "type", NULL);
    index = type ? spool_type_from_string(type) : -1;
    if (index < 0)
        return error_set(error, -EINVAL, "type %s is not known", type ? type : "(none)");
    record->type = (enum spool_type)index;
    record->object = object;
    result = record_check_fields(record, error);
    if (result < 0)
        record->object = NULL;
    else
        object = NULL; /* it belongs to the record now */
    return result;
}

void spool_record_release(struct spool_record *record)
{
    json_object_put(record->object);
    record->object = NULL;
}

static void batch_complain(struct spool_batch *batch, int64_t offset, const char *sentence)
{
    if (batch->skipped++ == 0)
        snprintf(batch->complaint, sizeof batch->complaint, "the line at byte %lld: %.400s",
                 (long long)offset, sentence);
}

static void batch_append(struct spool_batch *batch, struct spool_record record, size_t length)
{
    record.after.offset = batch->after.offset + (int64_t)length + 1;
    record.after.n = batch->after.n;
    batch->records[batch->count++] = record;
}

/* Handles one complete line. */
static void batch_take_line(struct spool_batch *batch, const char *line, size_t length)
{
    struct spool_record record = {0};
    struct error error = {0};

    if (length == 0)
        return;
    if (spool_record_parse(line, length, &record, &error) < 0) {
        batch_complain(batch, batch->after.offset, error.text);
        return;
    }
    if (record.n == 0) {
        batch_append(batch, record, length);
        return;
    }
    if (record.n <= batch->after.n) {
        batch_complain(batch, batch->after.offset, "its number n is not above the one before");
        spool_record_release(&record);
        return;
    }
    batch->gap += record.n - batch->after.n - 1;
    batch->after.n = record.n;
    batch_append(batch, record, length);
}

int spool_batch_parse(const struct spool_position *position, const char *bytes, size_t size,
                      bool ended, struct spool_batch *batch)
{
    const char *line = bytes, *end = bytes + size;

    *batch = (struct spool_batch){.after = *position};
    batch->records = calloc(SPOOL_BATCH_RECORDS, sizeof *batch->records);
    if (!batch->records)
        return -ENOMEM;
    while (line < end && batch->count < SPOOL_BATCH_RECORDS) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((newline ? newline : end) - line);

        if (newline) {
            if (!batch->after.skipping && length <= SPOOL_LINE_MAX)
                batch_take_line(batch, line, length);
            else if (!batch->after.skipping)
                batch_complain(batch, batch->after.offset, "it is longer than 1 MiB");
            batch->after.skipping = false;
            batch->after.offset += (int64_t)length + 1;
            line = newline + 1;
            continue;
        }
        if (length > SPOOL_LINE_MAX && !batch->after.skipping) {
            batch_complain(batch, batch->after.offset, "it is longer than 1 MiB");
            batch->after.skipping = true;
        }
        if (ended && !batch->after.skipping)
            batch_complain(batch, batch->after.offset, "it was cut off by the trainee's end");
        if (batch->after.skipping || ended)
            batch->after.offset += (int64_t)length;
        break;
    }
    return 0;
}

/* The first offset at or behind `offset` that lies on the disk. A user can make a file a hole of
 * any size at no cost, and its zeros are no record. */
static int64_t hole_end(int descriptor, int64_t offset)
{
    struct stat status;
    off_t data = lseek(descriptor, (off_t)offset, SEEK_DATA);

    if (data < 0 && errno == ENXIO && fstat(descriptor, &status) == 0)
        data = status.st_size;
    return data > offset ? data : offset;
}

int spool_read(int descriptor, const struct spool_position *position, bool ended,
               struct spool_batch *batch, struct error *error)
{
    size_t capacity = SPOOL_READ_SIZE;
    AUTO_FREE char *buffer = malloc(capacity);
    size_t size = 0;
    bool at_end = false;
    int result;

    int64_t data = hole_end(descriptor, position->offset);

    *batch = (struct spool_batch){.after = *position};
    if (data - position->offset > SPOOL_LINE_MAX) {
        if (!position->skipping)
            batch_complain(batch, position->offset, "it is a hole in the file");
        batch->after.offset = data;
        batch->after.skipping = true; /* up to the next newline */
        batch->more = true;
        return 0;
    }
    while (buffer) {
        ssize_t got = pread(descriptor, buffer + size, capacity - size,
                            (off_t)position->offset + (off_t)size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(error, -errno, "cannot read the spool");
        size += (size_t)got;
        at_end = got == 0;
        if (at_end || (size == capacity && (memchr(buffer, '\n', size) || position->skipping ||
                                            capacity > SPOOL_LINE_MAX)))
            break;
        if (size == capacity) { /* one line fills the buffer */
            char *larger = realloc(buffer, capacity * 4);

            if (!larger)
                return error_no_memory(error, "a line of the spool");
            buffer = larger;
            capacity *= 4;
        }
    }
    if (!buffer)
        return error_no_memory(error, "reading the spool");
    if (size == 0)
        return 0;
    result = spool_batch_parse(position, buffer, size, ended && at_end, batch);
    if (result < 0)
        return error_set(error, result, "not enough memory to read the spool");
    batch->more = batch->after.offset > position->offset &&
                  (!at_end || batch->after.offset < position->offset + (int64_t)size) &&
                  (!at_end || batch->count == SPOOL_BATCH_RECORDS);
    return 0;
}

void spool_batch_release(struct spool_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        spool_record_release(&batch->records[i]);
    free(batch->records);
    batch->records = NULL;
    batch->count = 0;
}
