/* csv_sequences.c: tables as text (csv_table.h) that have a sequence in one column and its label in
 * another. Other columns are left alone. */
#include "base/cleanup.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"
#include "engine/data/sequences.h"
#include "engine/data/tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct csv_sequences {
    struct csv_table table;
    struct sequences sequences;
    const struct dataset *reference;
    int32_t sequence_column, label_column; /* from 0 */
};

/* One cell of a row; its length is 0 if the row has no such column. */
static const char *cell_find(const struct csv_table *table, const char *row, const char *end,
                             int32_t column, size_t *length)
{
    const char *cell = row;

    for (int32_t i = 0; i <= column; i++)
        if (!csv_cell_next(table, &row, end, &cell, length)) {
            *length = 0;
            break;
        }
    return cell;
}

static bool are_nucleotides(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (nucleotide_number((uint8_t)text[i]) == NUCLEOTIDE_NONE)
            return false;
    return length > 0;
}

static int32_t column_or(const struct csv_table *table, const char *wanted, int32_t column)
{
    struct error ignored = {0};
    int32_t found;

    return wanted && csv_column_find(table, "", wanted, column, &found, &ignored) == 0 ? found
                                                                                       : column;
}

/* A row without a number may be a sequence and the name of its class. It is a header if that cannot
 * be a sequence, or if the label of the next row is a number. */
static bool row_is_header(void *context, const char *row, const char *end, struct csv_cursor rest)
{
    struct csv_sequences *reader = context;
    struct csv_table shape = reader->table; /* with the columns of this row */
    enum dataset_tokens tokens = shape.config->sequence.tokens;
    const char *cell, *at = row, *next, *next_end;
    size_t length;

    while (csv_cell_next(&shape, &at, end, &cell, &length))
        if (csv_cell_is_number(cell, length))
            return false;
    shape.columns = csv_cells_count(&shape, row, end);
    if (tokens == DATASET_TOKENS_NUCLEOTIDES || tokens == DATASET_TOKENS_KMERS) {
        int32_t column = column_or(&shape, shape.config->sequence.column, 0);

        cell = cell_find(&shape, row, end, column, &length);
        if (!are_nucleotides(cell, length))
            return true;
    } else {
        return true;
    }
    if (!csv_row_next(&shape, &rest, &next, &next_end))
        return false;
    cell = cell_find(&shape, next, next_end,
                     column_or(&shape, shape.config->csv.label_column, shape.columns - 1), &length);
    return csv_cell_is_number(cell, length);
}

static int table_begin(void *context, struct error *error)
{
    struct csv_sequences *reader = context;
    const struct dataset_config *config = reader->table.config;
    const char *sequence = config->sequence.column ? config->sequence.column : "first";
    const char *label = config->csv.label_column ? config->csv.label_column : "last";
    int r = csv_column_find(&reader->table, "sequence_column", sequence, -1,
                            &reader->sequence_column, error);

    if (r == 0)
        r = csv_column_find(&reader->table, "label_column", label, -1, &reader->label_column,
                            error);
    if (r == 0 && reader->sequence_column == reader->label_column)
        return error_set(error, -EINVAL,
                         "%s:%lld: column %d is to be the sequence and the label; the first row "
                         "has %d column%s: is the delimiter '%c' right?",
                         reader->table.path, (long long)reader->table.line,
                         reader->label_column + 1, reader->table.columns,
                         reader->table.columns == 1 ? "" : "s", reader->table.delimiter);
    return r;
}

static int report_quote(const struct csv_table *table, int32_t column, struct error *error)
{
    return error_set(error, -EINVAL,
                     "%s:%lld, column %d: the quote before the text has no counterpart at its end; "
                     "a text lies in one line, and a quote inside of it is written twice",
                     table->path, (long long)table->line, column + 1);
}

static int sequence_add(struct csv_sequences *reader, struct sequence_place place, const char *cell,
                        size_t length, bool quoted, struct error *error)
{
    int r = 0;

    if (!quoted)
        return length ? sequences_add(&reader->sequences, &place, cell, length, error) : 0;
    while (r == 0 && length) {
        const char *begin = cell, *piece;
        size_t size = csv_piece_next(&cell, &length, &piece);

        r = sequences_add(&reader->sequences, &place, piece, size, error);
        place.column += cell - begin;
    }
    return r;
}

static int sequence_close(struct csv_sequences *reader, const struct sequence_place *place,
                          const char *row, const char *label, size_t length, struct error *error)
{
    AUTO_FREE char *copy = NULL;

    if (csv_cell_is_quoted(row, label) && memchr(label, '"', length)) {
        copy = csv_cell_copy(row, label, length);
        if (!copy)
            return reader_out_of_memory(place->path, error);
        label = copy;
        length = strlen(copy);
    }
    return sequences_close(&reader->sequences, place, label, length, error);
}

static int row_read(void *context, const char *row, const char *end, struct error *error)
{
    struct csv_sequences *reader = context;
    const struct csv_table *table = &reader->table;
    struct sequence_place place = {table->path, table->line, 1};
    const char *at = row, *cell, *sequence = row, *label = row;
    size_t length, sequence_length = 0, label_length = 0;
    int32_t count = 0;
    int r;

    for (; csv_cell_next(table, &at, end, &cell, &length); count++) {
        if (csv_cell_is_quoted(row, cell) && !csv_cell_is_whole(table, cell, length, end))
            return report_quote(table, count, error);
        if (count == reader->sequence_column) {
            sequence = cell;
            sequence_length = length;
        } else if (count == reader->label_column) {
            label = cell;
            label_length = length;
        }
    }
    if (count != table->columns)
        return csv_report_columns(table, count, error);
    place.column = sequence - row + 1;
    r = sequence_add(reader, place, sequence, sequence_length, csv_cell_is_quoted(row, sequence),
                     error);
    return r < 0 ? r : sequence_close(reader, &place, row, label, label_length, error);
}

int csv_sequences_read(const struct dataset_config *config, const struct dataset *reference,
                       struct dataset *dataset, struct error *error)
{
    struct csv_sequences reader = {.reference = reference};
    int r = sequences_begin(&reader.sequences, config, reference, dataset, error);

    csv_table_init(&reader.table, config);
    reader.table.context = &reader;
    reader.table.row_is_header = row_is_header;
    reader.table.begin = table_begin;
    reader.table.read_row = row_read;
    if (r == 0)
        r = csv_table_read(&reader.table, dataset, error);
    if (r == 0)
        r = sequences_end(&reader.sequences, error);
    csv_table_release(&reader.table);
    sequences_release(&reader.sequences);
    if (r == 0)
        reader_unmap_all(dataset);
    return r;
}
