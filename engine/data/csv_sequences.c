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
#include <strings.h>

struct csv_sequences {
    struct csv_table table;
    struct sequences sequences;
    const struct dataset *reference;
    int32_t sequence_column, label_column; /* from 0 */
};

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

static bool is_one_of(const char *text, size_t length, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(words[i]) == length && strncasecmp(text, words[i], length) == 0)
            return true;
    return false;
}

/* What the first rows of a file tell about whether its first one names the columns. */
struct first_rows {
    bool numbers;       /* the label of the second row is a number */
    bool label_returns; /* another row has the label of the first one */
    bool foreign;       /* the first one's sequence has a byte that no other sequence has */
};

static void mark_bytes(bool met[256], const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        met[(uint8_t)text[i]] = true;
}

/* Looks at the rows behind the first one, at READER_DROP_BYTES of them. */
static struct first_rows first_rows_look(const struct csv_table *shape, int32_t sequence_column,
                                         int32_t label_column, const char *row, const char *end,
                                         struct csv_cursor rest)
{
    const char *limit =
        rest.end - rest.at > READER_DROP_BYTES ? rest.at + READER_DROP_BYTES : rest.end;
    size_t length, label_length, sequence_length;
    const char *label = csv_cell_find(shape, row, end, label_column, &label_length);
    const char *sequence = csv_cell_find(shape, row, end, sequence_column, &sequence_length);
    struct first_rows found = {0};
    bool met[256] = {0};
    int64_t count = 0;

    while (rest.at < limit && csv_row_next(shape, &rest, &row, &end)) {
        const char *cell = csv_cell_find(shape, row, end, label_column, &length);

        if (count++ == 0)
            found.numbers = csv_cell_is_number(cell, length);
        found.label_returns |= length == label_length && memcmp(cell, label, length) == 0;
        if (found.numbers || found.label_returns)
            return found;
        cell = csv_cell_find(shape, row, end, sequence_column, &length);
        mark_bytes(met, cell, length);
    }
    for (size_t i = 0; count && i < sequence_length; i++)
        found.foreign |= !met[(uint8_t)sequence[i]];
    return found;
}

/* Whether the label is a class of the training set. */
static bool is_known_class(const struct csv_sequences *reader, const char *label, size_t length)
{
    const struct dataset *reference = reader->reference;

    return reference && reference->class_names &&
           is_one_of(label, length, (const char *const *)reference->class_names,
                     (size_t)reference->class_count);
}

static void warn_of_header(const struct csv_table *table, const char *row, const char *end,
                           int64_t line, bool header)
{
    char shown[CSV_SHOWN_SIZE];

    reader_warn(table->config,
                "%s:%lld: \"%s\" is taken for %s; if that is wrong, set data.train.header to %s",
                table->path, (long long)line, csv_cell_show(row, (size_t)(end - row), shown),
                header ? "the names of the columns" : "a sample", header ? "no" : "yes");
}

/* A row without a number may be a sequence and the name of its class. */
static bool row_is_header(void *context, const char *row, const char *end, struct csv_cursor rest)
{
    static const char *const label_words[] = {"label", "labels", "class", "target", "category"};
    struct csv_sequences *reader = context;
    struct csv_table shape = reader->table; /* with the columns of this row */
    enum dataset_tokens tokens = shape.config->sequence.tokens;
    bool nucleotides = tokens == DATASET_TOKENS_NUCLEOTIDES || tokens == DATASET_TOKENS_KMERS;
    const char *cell, *label, *at = row;
    size_t length, label_length;
    int32_t sequence_column, label_column;
    struct first_rows rows;

    while (csv_cell_next(&shape, &at, end, &cell, &length))
        if (csv_cell_is_number(cell, length))
            return false;
    if (csv_row_has_wanted(&shape, row, end))
        return true;
    shape.columns = csv_cells_count(&shape, row, end);
    sequence_column = column_or(&shape, shape.config->sequence.column, 0);
    label_column = column_or(&shape, shape.config->csv.label_column, shape.columns - 1);
    cell = csv_cell_find(&shape, row, end, sequence_column, &length);
    if (shape.columns < 2 || (nucleotides && !are_nucleotides(cell, length)))
        return true;
    label = csv_cell_find(&shape, row, end, label_column, &label_length);
    if (is_known_class(reader, label, label_length))
        return false;
    rows = first_rows_look(&shape, sequence_column, label_column, row, end, rest);
    if (rows.label_returns)
        return false;
    if (rows.numbers || (rows.foreign && !nucleotides) ||
        is_one_of(label, label_length, label_words, sizeof label_words / sizeof *label_words))
        return true;
    warn_of_header(&shape, row, end, rest.line, !nucleotides);
    return !nucleotides;
}

static int table_begin(void *context, struct error *error)
{
    struct csv_sequences *reader = context;
    const struct dataset_config *config = reader->table.config;
    const char *sequence = config->sequence.column ? config->sequence.column : "first";
    const char *label = config->csv.label_column ? config->csv.label_column : "last";
    int r = csv_column_find_or_first(&reader->table, "sequence_column", config->sequence.column, -1,
                                     &reader->sequence_column, error);

    if (reader->table.config->unlabelled) {
        reader->label_column = -1;
        return r;
    }
    if (r == 0)
        r = csv_column_find_or_last(&reader->table, "label_column", config->csv.label_column, -1,
                                    &reader->label_column, error);
    if (r == 0)
        r = csv_label_follow(&reader->table, reader->reference, &reader->label_column,
                             &reader->sequences.dataset->target_name, error);
    if (r == 0 && reader->sequence_column == reader->label_column && reader->table.columns > 1)
        return error_set(error, -EINVAL,
                         "%s: sequence_column (%s) and label_column (%s) are one column; give two",
                         reader->table.path, sequence, label);
    if (r == 0 && reader->sequence_column == reader->label_column)
        return error_set(error, -EINVAL,
                         "%s:%lld: column %d is to be the sequence and the label; the first row "
                         "has %d column%s: is the delimiter '%c' right?",
                         reader->table.path, (long long)reader->table.line,
                         reader->label_column + 1, reader->table.columns,
                         reader->table.columns == 1 ? "" : "s", reader->table.delimiter);
    return r;
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

    /* sequences_close() refuses a byte of zero, which the copy would end at */
    if (csv_cell_is_quoted(row, label) && memchr(label, '"', length) &&
        !memchr(label, '\0', length)) {
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
            return csv_report_quote(table, count, error);
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
