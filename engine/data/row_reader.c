/* row_reader.c: see row_reader.h. A piece is the header, if there is one, and some rows. */
#include "engine/data/row_reader.h"

#include "base/cleanup.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, READ_BYTES = 1 << 18, ROW_BYTES_MAX = 1 << 28 };

struct row_reader {
    const struct dataset_config *config;
    const struct dataset *reference;
    int descriptor;       /* -1: `file` is read */
    struct dataset *file; /* holds the mapping of the file; owned */

    /* What was read and not taken yet, [at, end) of `text`: the file's, or the buffer. */
    const char *text;
    size_t at, end;
    char *buffer; /* owned */
    size_t capacity;
    const uint8_t *kept; /* the first page of the file that was not dropped */
    bool ended;          /* there is nothing behind `end` */

    struct csv_table shape; /* delimiter and comments */
    bool has_begun;
    char *header; /* owned; NULL: there is none */
    size_t header_bytes;
    int64_t header_lines, lines; /* of the header, and before `at` */
    char *piece;                 /* owned */
    size_t piece_capacity;
    struct csv_rows taken; /* by the latest row_reader_next() */
    bool has_pieces;       /* one was opened */
};

bool row_reader_reads(enum dataset_format format, bool pipe)
{
    return format == DATASET_TABLE || format == DATASET_CSV ||
           (pipe && format == DATASET_CSV_SEQUENCES);
}

static int file_open(struct row_reader *reader, struct error *error)
{
    const struct dataset_mapping *mapping;
    int r;

    reader->file = calloc(1, sizeof *reader->file);
    if (!reader->file)
        return reader_out_of_memory(reader->config->paths[0], error);
    r = reader_map(reader->file, reader->config->directory, reader->config->paths[0], &mapping,
                   error);
    if (r == 0)
        r = reader_decode_text(reader->file, &mapping, error);
    if (r < 0)
        return r;
    reader->text = mapping->address;
    reader->end = mapping->bytes;
    reader->kept = mapping->descriptor >= 0 ? mapping->address : NULL;
    reader->ended = true;
    return 0;
}

int row_reader_open(const struct dataset_config *config, const struct dataset *reference,
                    int descriptor, struct row_reader **reader, struct error *error)
{
    struct row_reader *made = calloc(1, sizeof *made);
    int r = 0;

    if (!made)
        return reader_out_of_memory(config->paths[0], error);
    made->config = config;
    made->reference = reference;
    made->descriptor = descriptor;
    csv_table_init(&made->shape, config);
    made->shape.delimiter = config->csv.delimiter;
    made->shape.path = config->paths[0];
    if (config->format != DATASET_TABLE && !made->shape.delimiter)
        made->shape.delimiter = ',';
    if (descriptor < 0)
        r = file_open(made, error);
    if (r < 0)
        row_reader_close(made);
    else
        *reader = made;
    return r;
}

void row_reader_close(struct row_reader *reader)
{
    if (!reader)
        return;
    if (reader->file)
        dataset_close(reader->file);
    free(reader->buffer);
    free(reader->header);
    free(reader->piece);
    free(reader);
}

/* read(2), which waits even where the other end of a pipe has made it non-blocking. */
static ssize_t read_some(int descriptor, char *buffer, size_t size)
{
    for (;;) {
        ssize_t got = read(descriptor, buffer, size);

        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got;
        if (errno == EAGAIN)
            poll(&(struct pollfd){.fd = descriptor, .events = POLLIN}, 1, -1);
    }
}

/* ---- what is read ---- */

/* Waits for more of the pipe. */
static int buffer_fill(struct row_reader *reader, struct error *error)
{
    ssize_t size;

    if (reader->at) {
        memmove(reader->buffer, reader->buffer + reader->at, reader->end - reader->at);
        reader->end -= reader->at;
        reader->at = 0;
    }
    if (reader->end >= ROW_BYTES_MAX)
        return error_set(
            error, -EINVAL, "%s:%lld: the row is longer than %d MiB; is it a table of lines?",
            reader->config->paths[0], (long long)reader->lines + 1, ROW_BYTES_MAX >> 20);
    if (reader->capacity - reader->end < READ_BYTES) {
        size_t capacity = 2 * reader->capacity + 2 * READ_BYTES;
        char *grown = realloc(reader->buffer, capacity);

        if (!grown)
            return reader_out_of_memory(reader->config->paths[0], error);
        reader->buffer = grown;
        reader->capacity = capacity;
    }
    size =
        read_some(reader->descriptor, reader->buffer + reader->end, reader->capacity - reader->end);
    if (size < 0)
        return error_set_errno(error, -errno, "cannot read %s", reader->config->paths[0]);
    reader->text = reader->buffer;
    reader->end += (size_t)size;
    reader->ended = size == 0;
    return 0;
}

/* Whether a row of sequences names the columns: those that the configuration names, or that of the
 * labels in the training data. */
static bool names_sequences(const struct row_reader *reader, const char *row, const char *end)
{
    const char *label = reader->reference->target_name, *cell;
    size_t length;

    for (const char *at = row; label && csv_cell_next(&reader->shape, &at, end, &cell, &length);)
        if (strlen(label) == length && memcmp(label, cell, length) == 0)
            return true;
    return csv_row_has_wanted(&reader->shape, row, end);
}

/* Whether the first row names the columns: where it did in the training data, if the configuration
 * does not say. */
static bool has_header(const struct row_reader *reader, const char *row, size_t size)
{
    enum dataset_header header = reader->config->csv.header;
    const char *cell;
    size_t length;

    if (reader->reference->table)
        return reader->reference->table->has_names;
    if (header != DATASET_HEADER_AUTO)
        return header == DATASET_HEADER_YES;
    while (size && (row[size - 1] == '\n' || row[size - 1] == '\r'))
        size--;
    if (reader->config->format == DATASET_CSV_SEQUENCES)
        return names_sequences(reader, row, row + size);
    for (const char *at = row; csv_cell_next(&reader->shape, &at, row + size, &cell, &length);)
        if (csv_cell_is_number(cell, length))
            return false;
    return true;
}

/* The first row that is whole, or none: of the end of a pipe's text more may come. Finds its
 * delimiter, and moves the cursor to it, behind a line "sep=;". */
static struct csv_rows first_row_find(const struct row_reader *reader, struct csv_table *shape,
                                      struct csv_cursor *cursor)
{
    if (reader->ended || memchr(cursor->at, '\n', (size_t)(cursor->end - cursor->at)))
        csv_delimiter_line_take(shape, cursor);
    if (!shape->delimiter)
        shape->delimiter = csv_delimiter_find(shape, *cursor);
    return csv_rows_whole(shape, cursor->at, (size_t)(cursor->end - cursor->at), 1, 0,
                          reader->ended);
}

/* Looks at the first row: finds the delimiter, and takes the header off. */
static int rows_begin(struct row_reader *reader, struct error *error)
{
    const char *text = reader->text + reader->at;
    struct dataset_mapping mapping = {.address = (void *)(uintptr_t)text, /* it is only read */
                                      .bytes = reader->end - reader->at,
                                      .path = (char *)(uintptr_t)reader->config->paths[0]};
    struct csv_table shape = reader->shape;
    struct csv_cursor cursor = {.end = reader->text + reader->end};
    const char *begin;
    struct csv_rows row;

    if (mapping.bytes == 0)
        return 0;
    if (reader->descriptor >= 0 && reader_check_table(&mapping, error) < 0)
        return error->code;
    begin = reader_text_begin(&mapping, error);
    if (!begin)
        return -EINVAL;
    cursor.at = begin;
    row = first_row_find(reader, &shape, &cursor);
    if (row.count == 0 || row.bytes == 0)
        return 0;
    reader->has_begun = true;
    reader->shape.delimiter = shape.delimiter;
    reader->at = (size_t)(cursor.at - reader->text);
    reader->lines = cursor.lines;
    if (!has_header(reader, cursor.at, row.bytes))
        return 0;
    reader->header_bytes = (size_t)(cursor.at - begin) + row.bytes;
    reader->header = malloc(reader->header_bytes + 1);
    if (!reader->header)
        return reader_out_of_memory(reader->config->paths[0], error);
    memcpy(reader->header, begin, reader->header_bytes);
    if (reader->header[reader->header_bytes - 1] != '\n')
        reader->header[reader->header_bytes++] = '\n';
    reader->lines += row.lines;
    reader->header_lines = reader->lines;
    reader->at += row.bytes;
    return 0;
}

/* ---- pieces ---- */

/* Rows of a piece: wide samples take as much memory as many narrow ones. */
static int64_t rows_limit(const struct row_reader *reader, int64_t most)
{
    enum { SAMPLE_BYTES_MAX = 1 << 26 };
    int64_t fit = SAMPLE_BYTES_MAX / (reader->reference->sample_elements * (int64_t)sizeof(float));

    fit = fit ? fit : 1;
    return most < fit ? most : fit;
}

/* Finds the next whole rows; `taken.count` is 0 at the end. */
static int rows_wait(struct row_reader *reader, int64_t most, struct error *error)
{
    int r = 0;

    reader->taken = (struct csv_rows){0};
    while (true) {
        if (!reader->has_begun)
            r = rows_begin(reader, error);
        if (r < 0)
            return r;
        if (reader->has_begun)
            reader->taken =
                csv_rows_whole(&reader->shape, reader->text + reader->at, reader->end - reader->at,
                               rows_limit(reader, most), PIECE_BYTES, reader->ended);
        if (reader->taken.count)
            return 0;
        if (reader->has_begun) {
            reader->at += reader->taken.bytes;
            reader->lines += reader->taken.lines;
        }
        if (reader->ended)
            return 0;
        r = buffer_fill(reader, error);
        if (r < 0)
            return r;
    }
}

static int piece_make(struct row_reader *reader, size_t *bytes, struct error *error)
{
    *bytes = reader->header_bytes + reader->taken.bytes;
    if (*bytes > reader->piece_capacity) {
        free(reader->piece);
        reader->piece = malloc(*bytes);
        reader->piece_capacity = reader->piece ? *bytes : 0;
        if (!reader->piece)
            return reader_out_of_memory(reader->config->paths[0], error);
    }
    if (reader->header)
        memcpy(reader->piece, reader->header, reader->header_bytes);
    memcpy(reader->piece + reader->header_bytes, reader->text + reader->at, reader->taken.bytes);
    return 0;
}

static int piece_open(struct row_reader *reader, struct dataset **dataset, struct error *error)
{
    struct dataset_config config = *reader->config;
    int r = piece_make(reader, &config.row_bytes, error);

    if (r < 0)
        return r;
    reader->has_pieces = true;
    config.rows = reader->piece;
    config.rows_line = reader->lines - reader->header_lines;
    config.csv.header = reader->header ? DATASET_HEADER_YES : DATASET_HEADER_NO;
    config.csv.delimiter = reader->shape.delimiter;
    config.path_count = 1;
    reader->at += reader->taken.bytes;
    reader->lines += reader->taken.lines;
    if (reader->kept)
        reader->kept = reader_drop_pages(reader->kept, (const uint8_t *)reader->text + reader->at);
    return dataset_open(&config, reader->reference, dataset, error);
}

/* Behind the last row. A first row that is taken for names, and is the only one, may be a sample:
 * then it lacks those of the training data. */
static int rows_end(struct row_reader *reader, struct error *error)
{
    struct dataset *none = NULL;
    int r;

    if (reader->has_pieces || !reader->header || !reader->reference->table)
        return 0;
    reader->taken = (struct csv_rows){0};
    r = piece_open(reader, &none, error);
    dataset_close(none);
    return r == -ENODATA ? 0 : r;
}

int row_reader_next(struct row_reader *reader, int64_t most, struct dataset **dataset,
                    struct error *error)
{
    int r = rows_wait(reader, most, error);

    *dataset = NULL;
    if (r < 0)
        return r;
    return reader->taken.count ? piece_open(reader, dataset, error) : rows_end(reader, error);
}

int64_t row_reader_count(const struct row_reader *reader)
{
    return reader->taken.count;
}

void row_reader_retry(struct row_reader *reader)
{
    reader->at -= reader->taken.bytes;
    reader->lines -= reader->taken.lines;
    reader->taken = (struct csv_rows){0};
}
