/* fasta.c: sequences in FASTA: a line that begins with ">" and says what follows, then the letters
 * in one line or several. The class is a field of that line, or each file holds one class. */
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"
#include "engine/data/sequences.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fasta_reader {
    const struct dataset_config *config;
    struct sequences sequences;
    const char *label_of_file; /* NULL: a field of the record's first line */

    const char *path;
    int64_t line;
    const char *title; /* of the open record, behind ">"; NULL: none yet */
    size_t title_length;
    int64_t title_line;
    bool has_letters;
    int64_t skipped;
    struct sequence_place first_skipped;
};

/* ---- the label ---- */

static bool is_separator(const struct fasta_reader *reader, char c)
{
    char delimiter = reader->config->csv.delimiter;

    return delimiter && delimiter != ' ' ? c == delimiter : c == ' ' || c == '\t';
}

/* The next field of the title, without blanks around it; whether there was one. */
static bool field_next(const struct fasta_reader *reader, const char **at, const char *end,
                       const char **field, size_t *length)
{
    while (*at < end && (**at == ' ' || **at == '\t'))
        ++*at;
    if (*at >= end)
        return false;
    *field = *at;
    while (*at < end && !is_separator(reader, **at))
        ++*at;
    *length = (size_t)(*at - *field);
    while (*length && ((*field)[*length - 1] == ' ' || (*field)[*length - 1] == '\t'))
        --*length;
    *at += *at < end;
    return true;
}

/* The field that `wanted` names: first, last, a number from 0, or NAME of "NAME=label". */
static const char *field_find(const struct fasta_reader *reader, const char *wanted, size_t *length)
{
    const char *at = reader->title, *end = at + reader->title_length, *field, *found = NULL;
    size_t field_length, name_length = strlen(wanted);
    char *after;
    long number = strtol(wanted, &after, 10);
    bool last = strcmp(wanted, "last") == 0, is_number = after != wanted && !*after;

    if (strcmp(wanted, "first") == 0) {
        number = 0;
        is_number = true;
    }
    for (long i = 0; field_next(reader, &at, end, &field, &field_length); i++) {
        bool named = field_length > name_length && field[name_length] == '=' &&
                     memcmp(field, wanted, name_length) == 0;

        if (last || (is_number && i == number)) {
            found = field;
            *length = field_length;
        } else if (!is_number && named) {
            found = field + name_length + 1;
            *length = field_length - name_length - 1;
        }
    }
    return found;
}

/* ---- records ---- */

static int record_close(struct fasta_reader *reader, struct error *error)
{
    struct sequence_place place = {reader->path, reader->title_line, 1};
    const char *wanted = reader->config->csv.label_column;
    const char *label = reader->label_of_file;
    size_t length = label ? strlen(label) : 0;
    char shown[CSV_SHOWN_SIZE];

    if (!reader->title)
        return 0;
    if (!reader->has_letters) {
        if (!reader->config->fasta.skips_empty)
            return error_set(error, -EINVAL,
                             "%s:%lld: the record \"%s\" is empty; remove it, or set empty_records "
                             "to skip",
                             place.path, (long long)place.line,
                             csv_cell_show(reader->title, reader->title_length, shown));
        if (reader->skipped++ == 0)
            reader->first_skipped = place;
        return 0;
    }
    if (!label && !reader->config->unlabelled)
        label = field_find(reader, wanted ? wanted : "last", &length);
    if (!label && !reader->config->unlabelled)
        return error_set(error, -EINVAL,
                         "%s:%lld: the record \"%s\" has no field %s for its label; correct "
                         "label_column or delimiter, or say the class_of_file",
                         place.path, (long long)place.line,
                         csv_cell_show(reader->title, reader->title_length, shown), wanted);
    return sequences_close(&reader->sequences, &place, label, length, error);
}

static int line_read(struct fasta_reader *reader, const char *line, const char *end,
                     struct error *error)
{
    struct sequence_place place = {reader->path, reader->line, 1};
    int r;

    while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (line == end || *line == ';') /* a comment of the first FASTA programs */
        return 0;
    if (*line == '>') {
        r = record_close(reader, error);
        reader->title = line + 1;
        reader->title_length = (size_t)(end - line) - 1;
        reader->title_line = reader->line;
        reader->has_letters = false;
        return r;
    }
    if (!reader->title)
        return error_set(error, -EINVAL,
                         "%s:%lld: letters before the first record; FASTA begins with a line \">\" "
                         "and a name",
                         reader->path, (long long)reader->line);
    reader->has_letters = true;
    return sequences_add(&reader->sequences, &place, line, (size_t)(end - line), error);
}

static int file_read(struct fasta_reader *reader, const struct dataset_mapping *mapping,
                     struct error *error)
{
    const char *at = reader_text_begin(mapping, error);
    const char *end = (const char *)mapping->address + mapping->bytes;
    const uint8_t *kept = mapping->address;
    int r = 0;

    reader->path = mapping->path;
    reader->line = 0;
    reader->title = NULL;
    if (!at)
        return -EINVAL;
    while (r == 0 && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));

        reader->line++;
        r = line_read(reader, at, newline ? newline : end, error);
        at = newline ? newline + 1 : end;
        if (reader->title && reader->title - (const char *)kept > READER_DROP_BYTES)
            kept = reader_drop_pages(kept, (const uint8_t *)reader->title);
    }
    return r < 0 ? r : record_close(reader, error);
}

int fasta_read(const struct dataset_config *config, const struct dataset *reference,
               struct dataset *dataset, struct error *error)
{
    struct fasta_reader reader = {.config = config};
    int classes = config->unlabelled ? 0 : config->fasta.class_count;
    int r;

    if (classes && classes != config->path_count)
        return error_set(error, -EINVAL,
                         "class_of_file has %d classes for %d files of %s; give one for each",
                         classes, config->path_count, config->paths[0]);
    r = sequences_begin(&reader.sequences, config, reference, dataset, error);
    for (int i = 0; r == 0 && i < config->path_count; i++) {
        const struct dataset_mapping *mapping;

        reader.label_of_file = classes ? config->fasta.class_of_file[i] : NULL;
        r = reader_map(dataset, config->directory, config->paths[i], &mapping, error);
        if (r == 0)
            r = file_read(&reader, mapping, error);
    }
    if (r == 0)
        r = sequences_end(&reader.sequences, error);
    if (r == 0 && reader.skipped)
        reader_warn(config, "%s:%lld: the record is empty; %lld such record%s left out",
                    reader.first_skipped.path, (long long)reader.first_skipped.line,
                    (long long)reader.skipped, reader.skipped == 1 ? " is" : "s are");
    sequences_release(&reader.sequences);
    if (r == 0)
        reader_unmap_all(dataset);
    return r;
}
