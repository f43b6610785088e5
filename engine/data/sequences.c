/* sequences.c: see sequences.h. Letters take a byte each until more than 256 different characters
 * have been met, then four. */
#include "engine/data/sequences.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"
#include "engine/data/tokens.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CODE_POINT_END = 0x110000,
    BYTE_SYMBOLS_MAX = 256,
    FIRST_CAPACITY = 256,
    FIRST_LETTERS = 1 << 16
};

/* A batch of which more than this share is padding is worth a word. */
static const double padding_share_max = 0.5;

static size_t letter_bytes(const struct dataset *dataset)
{
    return dataset->element == DATASET_UINT8 ? 1 : sizeof(int32_t);
}

/* ---- life ---- */

static int vocabulary_begin(struct sequences *sequences, struct error *error)
{
    const struct dataset_vocabulary *known = sequences->known;
    const struct dataset_config *config = sequences->config;
    struct dataset_vocabulary *vocabulary = &sequences->dataset->vocabulary;
    int r = tokens_vocabulary(config->sequence.tokens, config->sequence.kmer,
                              config->sequence.kmer_stride, vocabulary, error);

    if (r < 0)
        return r;
    if (known && (known->tokens != vocabulary->tokens || known->kmer != vocabulary->kmer ||
                  known->kmer_stride != vocabulary->kmer_stride))
        return error_set(error, -EINVAL,
                         "%s is cut into other tokens (%s) than the training data (%s); both must "
                         "agree in tokens, kmer and kmer_stride",
                         config->paths[0], dataset_tokens_to_string(vocabulary->tokens),
                         dataset_tokens_to_string(known->tokens));
    if (vocabulary->tokens != DATASET_TOKENS_CHARACTERS)
        return 0;
    sequences->numbers = malloc(CODE_POINT_END * sizeof *sequences->numbers);
    if (!sequences->numbers)
        return reader_out_of_memory(config->paths[0], error);
    memset(sequences->numbers, 0xff, CODE_POINT_END * sizeof *sequences->numbers); /* -1 */
    if (!known)
        return 0;
    vocabulary->symbols = malloc((size_t)known->count * sizeof *vocabulary->symbols + 1);
    if (!vocabulary->symbols)
        return reader_out_of_memory(config->paths[0], error);
    vocabulary->count = known->count;
    for (int32_t i = 0; i < vocabulary->count; i++) {
        vocabulary->symbols[i] = known->symbols[i];
        sequences->numbers[vocabulary->symbols[i]] = i;
    }
    return 0;
}

int sequences_begin(struct sequences *sequences, const struct dataset_config *config,
                    const struct dataset *reference, struct dataset *dataset, struct error *error)
{
    int64_t length = reference ? reference->shape[0] : config->sequence.length;
    int r;

    *sequences =
        (struct sequences){.config = config,
                           .reference = reference,
                           .known = reference ? &reference->vocabulary : config->vocabulary,
                           .dataset = dataset};
    r = vocabulary_begin(sequences, error);
    dataset->element = sequences->numbers && dataset->vocabulary.count > BYTE_SYMBOLS_MAX
                           ? DATASET_INT32
                           : DATASET_UINT8;
    if (r == 0 && length)
        sequences->letter_limit = letters_of_tokens(&dataset->vocabulary, length);
    return r;
}

void sequences_release(struct sequences *sequences)
{
    label_names_release(&sequences->names);
    free(sequences->numbers);
    free(sequences->met);
}

/* ---- letters ---- */

static int letters_reserve(struct sequences *sequences, int64_t more, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    int64_t capacity = sequences->letter_capacity ? sequences->letter_capacity : FIRST_LETTERS;
    void *buffer;

    if (sequences->letter_count + more <= sequences->letter_capacity)
        return 0;
    while (capacity < sequences->letter_count + more)
        capacity *= 2;
    buffer = reallocarray(dataset->buffer, (size_t)capacity, letter_bytes(dataset));
    if (!buffer)
        return reader_out_of_memory(sequences->config->paths[0], error);
    dataset->buffer = buffer;
    sequences->letter_capacity = capacity;
    return 0;
}

static int letters_widen(struct sequences *sequences, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    int32_t *wide = reallocarray(dataset->buffer, (size_t)sequences->letter_capacity, sizeof *wide);
    const uint8_t *narrow = (const uint8_t *)wide;

    if (!wide)
        return reader_out_of_memory(sequences->config->paths[0], error);
    dataset->buffer = wide;
    for (int64_t i = sequences->letter_count; i-- > 0;) {
        uint8_t letter = narrow[i]; /* before the place is written to */

        wide[i] = letter;
    }
    dataset->element = DATASET_INT32;
    return 0;
}

/* Numbers a character that was not met before. */
static int32_t character_add(struct sequences *sequences, uint32_t symbol, struct error *error)
{
    if (sequences->met_count == sequences->met_capacity) {
        int32_t capacity = sequences->met_capacity ? 2 * sequences->met_capacity : FIRST_CAPACITY;
        uint32_t *met = reallocarray(sequences->met, (size_t)capacity, sizeof *met);

        if (!met)
            return reader_out_of_memory(sequences->config->paths[0], error);
        sequences->met = met;
        sequences->met_capacity = capacity;
    }
    if (sequences->met_count == BYTE_SYMBOLS_MAX && letters_widen(sequences, error) < 0)
        return -ENOMEM;
    sequences->met[sequences->met_count] = symbol;
    return sequences->numbers[symbol] = sequences->met_count++;
}

static int report_letter(const struct sequences *sequences, const struct sequence_place *place,
                         int64_t column, uint32_t symbol, struct error *error)
{
    bool characters = sequences->dataset->vocabulary.tokens == DATASET_TOKENS_CHARACTERS;
    char name[32];

    vocabulary_name_symbol(symbol >= 0x80 && !characters, symbol, name, sizeof name);
    if (characters)
        return error_set(error, -EINVAL,
                         "%s:%lld, column %lld: %s is not among the %d characters of the training "
                         "data; remove it here or train on sequences that have it",
                         place->path, (long long)place->line, (long long)(place->column + column),
                         name, sequences->dataset->vocabulary.count);
    return error_set(error, -EINVAL,
                     "%s:%lld, column %lld: %s is no nucleotide (A C G T U, N and the codes of "
                     "IUPAC are); correct it, or set tokens to characters",
                     place->path, (long long)place->line, (long long)(place->column + column),
                     name);
}

static int add_characters(struct sequences *sequences, const struct sequence_place *place,
                          const char *text, size_t length, struct error *error)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + length;

    if (!text_is_utf8(text, length))
        return error_set(error, -EINVAL,
                         "%s:%lld: the sequence is not valid UTF-8; convert the file, or set "
                         "tokens to bytes",
                         place->path, (long long)place->line);
    for (int64_t column = 0; at < end; column++) {
        uint32_t symbol = vocabulary_next(false, &at, end);
        int32_t number = sequences->numbers[symbol];
        int64_t left = sequences->letter_limit - sequences->open_letters;

        if (number < 0 && sequences->known)
            return report_letter(sequences, place, column, symbol, error);
        sequences->open_letters++;
        if (sequences->letter_limit && left <= 0)
            continue; /* cut: what is not trained on is not in the vocabulary */
        if (number < 0)
            number = character_add(sequences, symbol, error);
        if (number < 0)
            return number;
        if (sequences->dataset->element == DATASET_UINT8)
            ((uint8_t *)sequences->dataset->buffer)[sequences->letter_count++] = (uint8_t)number;
        else
            ((int32_t *)sequences->dataset->buffer)[sequences->letter_count++] = number;
    }
    return 0;
}

static int add_nucleotides(struct sequences *sequences, const struct sequence_place *place,
                           const char *text, size_t length, size_t kept, struct error *error)
{
    uint8_t *to = (uint8_t *)sequences->dataset->buffer + sequences->letter_count;
    const uint8_t *from = (const uint8_t *)text;
    uint8_t wrong = 0;

    for (size_t i = 0; i < kept; i++)
        wrong |= to[i] = nucleotide_number(from[i]);
    for (size_t i = kept; i < length; i++)
        wrong |= nucleotide_number(from[i]);
    if (wrong & 0x80)
        for (size_t i = 0; i < length; i++)
            if (nucleotide_number(from[i]) == NUCLEOTIDE_NONE)
                return report_letter(sequences, place, (int64_t)i, from[i], error);
    return 0;
}

int sequences_add(struct sequences *sequences, const struct sequence_place *place, const char *text,
                  size_t length, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    int64_t left = sequences->letter_limit - sequences->open_letters;
    size_t kept = length;
    int r;

    if (sequences->open_letters == 0)
        sequences->open_place = *place;
    if (sequences->letter_limit && left < (int64_t)length)
        kept = left > 0 ? (size_t)left : 0;
    /* a character is at most as many letters as it has bytes */
    r = letters_reserve(sequences, (int64_t)length, error);
    if (r < 0)
        return r;
    if (dataset->vocabulary.tokens == DATASET_TOKENS_CHARACTERS)
        return add_characters(sequences, place, text, length, error);
    if (dataset->vocabulary.tokens == DATASET_TOKENS_BYTES)
        memcpy((uint8_t *)dataset->buffer + sequences->letter_count, text, kept);
    else
        r = add_nucleotides(sequences, place, text, length, kept, error);
    sequences->letter_count += (int64_t)kept;
    sequences->open_letters += (int64_t)length;
    return r;
}

/* ---- whole sequences ---- */

static int sequences_reserve(struct sequences *sequences, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    int64_t capacity = sequences->capacity ? sequences->capacity * 2 : FIRST_CAPACITY;
    bool classes = dataset->target == DATASET_TARGET_CLASS;
    void **column = classes ? (void **)&dataset->labels : (void **)&dataset->targets;
    int64_t *first;
    void *targets;

    if (dataset->count < sequences->capacity)
        return 0;
    if (dataset->count == UINT32_MAX)
        return error_set(error, -EINVAL, "the data set has more than %u sequences", UINT32_MAX);
    first = reallocarray(dataset->letter_first, (size_t)capacity + 1, sizeof *first);
    if (first)
        dataset->letter_first = first;
    targets = reallocarray(*column, (size_t)capacity, sizeof(float));
    if (targets)
        *column = targets;
    if (!first || !targets)
        return reader_out_of_memory(sequences->config->paths[0], error);
    sequences->capacity = capacity;
    dataset->letter_first[0] = 0;
    return 0;
}

static int label_add(struct sequences *sequences, const struct sequence_place *place,
                     const char *label, size_t length, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    char shown[CSV_SHOWN_SIZE];
    double value;
    int number;

    if (sequences->config->unlabelled) {
        memset(&(dataset->labels ? dataset->labels : (int32_t *)dataset->targets)[dataset->count],
               0, sizeof(float));
        return 0;
    }
    if (length == 0)
        return error_set(error, -EINVAL,
                         "%s:%lld: the label is empty; fill it in or remove the sequence",
                         place->path, (long long)place->line);
    if (memchr(label, '\0', length))
        return error_set(error, -EINVAL, "%s:%lld: the label \"%s\" has a byte of zero; correct it",
                         place->path, (long long)place->line, csv_cell_show(label, length, shown));
    if (dataset->target == DATASET_TARGET_CLASS) {
        number =
            label_names_number(&sequences->names, label, length, place->path, place->line, error);
        dataset->labels[dataset->count] = number;
        return number < 0 ? number : 0;
    }
    if (number_parse(label, label + length, &value) != label + length || !isfinite((float)value))
        return error_set(error, -EINVAL,
                         "%s:%lld: the value to predict, \"%s\", is no float32 number; correct it, "
                         "or choose cross entropy for classes",
                         place->path, (long long)place->line, csv_cell_show(label, length, shown));
    dataset->targets[dataset->count] = (float)value;
    return 0;
}

int sequences_close(struct sequences *sequences, const struct sequence_place *place,
                    const char *label, size_t length, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    int64_t letters = sequences->open_letters;
    int64_t tokens = tokens_of_letters(&dataset->vocabulary, letters);
    int r;

    sequences->open_letters = 0;
    if (letters == 0)
        return error_set(error, -EINVAL, "%s:%lld: the sequence is empty; fill it in or remove it",
                         place->path, (long long)place->line);
    if (tokens == 0)
        return error_set(error, -EINVAL,
                         "%s:%lld: the sequence has %lld nucleotides, too few for one k-mer of %d; "
                         "remove it or take a smaller kmer",
                         place->path, (long long)place->line, (long long)letters,
                         dataset->vocabulary.kmer);
    r = sequences_reserve(sequences, error);
    if (r == 0)
        r = label_add(sequences, place, label, length, error);
    if (r < 0)
        return r;
    sequences->longest = tokens > sequences->longest ? tokens : sequences->longest;
    if (sequences->letter_limit &&
        tokens > tokens_of_letters(&dataset->vocabulary, sequences->letter_limit) &&
        sequences->cut++ == 0)
        sequences->first_cut = sequences->open_place;
    dataset->letter_first[++dataset->count] = sequences->letter_count;
    return 0;
}

/* ---- the whole ---- */

static int compare_symbols(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Characters have numbers by their first occurrence; gives them those of their order. */
static int sort_characters(struct sequences *sequences, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    struct dataset_vocabulary *vocabulary = &dataset->vocabulary;
    int32_t count = sequences->met_count;
    AUTO_FREE int32_t *sorted = malloc((size_t)count * sizeof *sorted);

    vocabulary->symbols = malloc((size_t)count * sizeof *vocabulary->symbols);
    if (!sorted || !vocabulary->symbols)
        return reader_out_of_memory(sequences->config->paths[0], error);
    memcpy(vocabulary->symbols, sequences->met, (size_t)count * sizeof *sequences->met);
    qsort(vocabulary->symbols, (size_t)count, sizeof *vocabulary->symbols, compare_symbols);
    vocabulary->count = count;
    for (int32_t i = 0; i < count; i++)
        sorted[i] = vocabulary_find(vocabulary, sequences->met[i]);
    for (int64_t i = 0; i < sequences->letter_count; i++) {
        if (dataset->element == DATASET_UINT8)
            ((uint8_t *)dataset->buffer)[i] = (uint8_t)sorted[((uint8_t *)dataset->buffer)[i]];
        else
            ((int32_t *)dataset->buffer)[i] = sorted[((int32_t *)dataset->buffer)[i]];
    }
    return 0;
}

static void tell_lengths(const struct sequences *sequences)
{
    const struct dataset *dataset = sequences->dataset;
    const char *path = sequences->config->paths[0];
    double tokens = 0, cells = (double)dataset->count * (double)dataset->shape[0];

    if (sequences->cut)
        reader_warn(sequences->config,
                    "%s: %lld of %lld sequences are longer than %lld tokens, the longest has %lld; "
                    "their ends are left out (the first of them: line %lld)%s",
                    path, (long long)sequences->cut, (long long)dataset->count,
                    (long long)dataset->shape[0], (long long)sequences->longest,
                    (long long)sequences->first_cut.line,
                    sequences->config->sequence.length ? "" : "; data.train.length can be more");
    for (int64_t i = 0; i < dataset->count; i++)
        tokens += (double)dataset_sample_length(dataset, i);
    if (!sequences->reference && tokens < (1 - padding_share_max) * cells)
        reader_warn(
            sequences->config,
            "%s: sequences have %.0f tokens in the mean and are padded to %lld, so %.3g%% "
            "of each batch is padding; data.train.length can be less, or data.length_buckets "
            "more than 1",
            path, tokens / (double)dataset->count, (long long)dataset->shape[0],
            100 * (1 - tokens / cells));
}

int sequences_end(struct sequences *sequences, struct error *error)
{
    struct dataset *dataset = sequences->dataset;
    const struct dataset *reference = sequences->reference;
    int64_t count = dataset->count, length = sequences->config->sequence.length;
    size_t bytes = (size_t)sequences->letter_count * letter_bytes(dataset);
    void *shrunk;
    int r = 0;

    if (count == 0)
        return error_set(error, -EINVAL, "%s has no sequence; add some",
                         sequences->config->paths[0]);
    if (sequences->numbers && !sequences->known)
        r = sort_characters(sequences, error);
    if (sequences->config->unlabelled)
        dataset->classes = reference->classes;
    else if (r == 0 && dataset->target == DATASET_TARGET_CLASS)
        r = label_names_resolve(&sequences->names, sequences->config, reference, dataset, error);
    if (r < 0)
        return r;
    shrunk = realloc(dataset->buffer, bytes);
    if (shrunk)
        dataset->buffer = shrunk;
    dataset->sample_stride = letter_bytes(dataset);
    dataset->memory_bytes += bytes + (size_t)count * (sizeof(int64_t) + sizeof(float));
    reader_set_shape(dataset,
                     (const int64_t[]){reference ? reference->shape[0]
                                       : length  ? length
                                                 : sequences->longest},
                     1);
    dataset->count = 0; /* until there is a block */
    r = reader_add_block(dataset, dataset->buffer, count, error);
    if (r == 0)
        tell_lengths(sequences);
    return r;
}
