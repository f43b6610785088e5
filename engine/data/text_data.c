/* text_data.c: a text as samples for predicting the next symbol: sample i holds the `context`
 * symbols from i on, its label is symbol i + context; or each of them has a label, the symbol after
 * it. The symbols are the code points of UTF-8 (of
 * anything else: the bytes) that occur in the training text. */
#include "base/cleanup.h"
#include "base/philox.h"
#include "base/text.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_POINT_END = 0x110000, BYTE_SYMBOLS_MAX = 256, CONTEXT_MAX = 1 << 20 };

static bool all_utf8(const struct dataset *dataset, const struct dataset_mapping **wrong)
{
    for (int i = 0; i < dataset->mapping_count; i++)
        if (!text_is_utf8(dataset->mappings[i].address, dataset->mappings[i].bytes)) {
            *wrong = &dataset->mappings[i];
            return false;
        }
    return true;
}

/* Where the symbols of a file begin: of UTF-8 behind a byte order mark. */
static const uint8_t *symbols_of(const struct dataset *dataset,
                                 const struct dataset_mapping *mapping)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};
    const uint8_t *begin = mapping->address;
    bool marked = !dataset->vocabulary.bytes && mapping->bytes >= sizeof mark &&
                  memcmp(begin, mark, sizeof mark) == 0;

    return marked ? begin + sizeof mark : begin;
}

/* The distinct symbols of all files, ascending. */
static int collect_vocabulary(struct dataset *dataset, struct error *error)
{
    AUTO_FREE uint8_t *seen = calloc(CODE_POINT_END, 1);
    struct dataset_vocabulary *vocabulary = &dataset->vocabulary;

    if (!seen)
        return reader_out_of_memory(dataset->mappings[0].path, error);
    for (int i = 0; i < dataset->mapping_count; i++) {
        const uint8_t *at = symbols_of(dataset, &dataset->mappings[i]);
        const uint8_t *end =
            (const uint8_t *)dataset->mappings[i].address + dataset->mappings[i].bytes;

        while (at < end) {
            uint8_t *mark = &seen[vocabulary_next(vocabulary->bytes, &at, end)];
            vocabulary->count += !*mark;
            *mark = 1;
        }
    }
    vocabulary->symbols = malloc((size_t)vocabulary->count * sizeof *vocabulary->symbols);
    if (!vocabulary->symbols)
        return reader_out_of_memory(dataset->mappings[0].path, error);
    for (uint32_t symbol = 0, i = 0; symbol < CODE_POINT_END; symbol++)
        if (seen[symbol])
            vocabulary->symbols[i++] = symbol;
    return 0;
}

static int copy_vocabulary(const struct dataset_vocabulary *source, struct dataset *dataset,
                           struct error *error)
{
    dataset->vocabulary = *source;
    dataset->vocabulary.symbols = malloc((size_t)source->count * sizeof *source->symbols);
    if (!dataset->vocabulary.symbols)
        return reader_out_of_memory(dataset->mappings[0].path, error);
    memcpy(dataset->vocabulary.symbols, source->symbols,
           (size_t)source->count * sizeof *source->symbols);
    return 0;
}

/* Says where a text stops to be UTF-8, as its symbols are bytes from here on. */
static void warn_of_bytes(const struct dataset_config *config,
                          const struct dataset_mapping *mapping)
{
    const char *text = mapping->address;
    size_t place = text_utf8_prefix(text, mapping->bytes);
    long long line = 1;

    for (size_t i = 0; i < place; i++)
        line += text[i] == '\n';
    reader_warn(config,
                "%s:%lld: byte %zu of the file, 0x%02X, is no UTF-8, so the symbols are bytes, not "
                "characters; convert the file if it is a text",
                mapping->path, line, place + 1, (unsigned)(uint8_t)text[place]);
}

static int choose_vocabulary(const struct dataset_config *config, const struct dataset *reference,
                             struct dataset *dataset, struct error *error)
{
    const struct dataset_vocabulary *known =
        reference ? &reference->vocabulary : config->vocabulary;
    const struct dataset_mapping *wrong = NULL;
    bool utf8 = all_utf8(dataset, &wrong);

    if (!known) {
        dataset->vocabulary.bytes = !utf8;
        if (!utf8)
            warn_of_bytes(config, wrong);
        return collect_vocabulary(dataset, error);
    }
    if (!utf8 && !known->bytes)
        return error_set(error, -EINVAL,
                         "%s is not valid UTF-8, but the training text is; convert it",
                         wrong->path);
    return copy_vocabulary(known, dataset, error);
}

/* The sentence for a symbol that the training text does not have; line and column count from 1. */
static int report_symbol(const struct dataset *dataset, const struct dataset_mapping *mapping,
                         const uint8_t *place, uint32_t symbol, struct error *error)
{
    bool bytes = dataset->vocabulary.bytes;
    const uint8_t *at = symbols_of(dataset, mapping);
    const uint8_t *end = (const uint8_t *)mapping->address + mapping->bytes;
    long long line = 1, column = 1;
    char name[32];

    while (at < place) {
        bool newline = *at == '\n';

        vocabulary_next(bytes, &at, end);
        line += newline;
        column = newline ? 1 : column + 1;
    }
    return error_set(error, -EINVAL,
                     "%s:%lld, column %lld: symbol %s is not among the %d of the training text; "
                     "remove it here or train on a text that has it",
                     mapping->path, line, column,
                     vocabulary_name_symbol(bytes, symbol, name, sizeof name),
                     dataset->vocabulary.count);
}

/* Numbers of all symbols into dataset->buffer, one byte each where they fit. */
static int encode_all(struct dataset *dataset, size_t bytes, struct error *error)
{
    const struct dataset_vocabulary *vocabulary = &dataset->vocabulary;
    AUTO_FREE int32_t *number = malloc(CODE_POINT_END * sizeof *number);
    bool narrow = vocabulary->count <= BYTE_SYMBOLS_MAX;
    size_t symbol_bytes = narrow ? 1 : sizeof(int32_t);

    dataset->buffer = malloc(bytes * symbol_bytes);
    if (!number || !dataset->buffer)
        return reader_out_of_memory(dataset->mappings[0].path, error);
    memset(number, 0xff, CODE_POINT_END * sizeof *number); /* -1 */
    for (int32_t i = 0; i < vocabulary->count; i++)
        number[vocabulary->symbols[i]] = i;

    int64_t count = 0;
    for (int i = 0; i < dataset->mapping_count; i++) {
        const struct dataset_mapping *mapping = &dataset->mappings[i];
        const uint8_t *at = symbols_of(dataset, mapping);
        const uint8_t *end = (const uint8_t *)mapping->address + mapping->bytes;

        while (at < end) {
            const uint8_t *place = at;
            uint32_t symbol = vocabulary_next(vocabulary->bytes, &at, end);

            if (number[symbol] < 0)
                return report_symbol(dataset, mapping, place, symbol, error);
            if (narrow)
                ((uint8_t *)dataset->buffer)[count++] = (uint8_t)number[symbol];
            else
                ((int32_t *)dataset->buffer)[count++] = number[symbol];
        }
    }
    dataset->symbol_count = count;
    dataset->element = narrow ? DATASET_UINT8 : DATASET_INT32;
    dataset->sample_stride = symbol_bytes;
    return 0;
}

int text_read(const struct dataset_config *config, const struct dataset *reference,
              struct dataset *dataset, struct error *error)
{
    const int64_t shape[] = {config->text.context};
    const struct dataset_mapping *mapping;
    size_t bytes = 0;
    int result = 0;

    if (config->text.context < 1 || config->text.context > CONTEXT_MAX)
        return error_set(error, -EINVAL, "the context is %d symbols; it must be 1 to %d",
                         config->text.context, CONTEXT_MAX);
    for (int i = 0; i < config->path_count; i++) {
        result = reader_map(dataset, config->directory, config->paths[i], &mapping, error);
        if (result < 0)
            return result;
        bytes += mapping->bytes;
    }
    result = choose_vocabulary(config, reference, dataset, error);
    if (result == 0)
        result = encode_all(dataset, bytes, error);
    if (result < 0)
        return result;
    if (dataset->symbol_count <= shape[0])
        return error_set(error, -EINVAL,
                         "the text of %s has %lld symbols, too few for a context of %d and the "
                         "symbol after it; take a longer text or a shorter context",
                         dataset->mappings[0].path, (long long)dataset->symbol_count,
                         config->text.context);
    reader_unmap_all(dataset);
    void *shrunk = realloc(dataset->buffer, (size_t)dataset->symbol_count * dataset->sample_stride);
    if (shrunk)
        dataset->buffer = shrunk;
    dataset->memory_bytes += (size_t)dataset->symbol_count * dataset->sample_stride;
    dataset->classes = dataset->vocabulary.count;
    reader_set_shape(dataset, shape, 1);
    result = reader_add_block(dataset, dataset->buffer, dataset->symbol_count - shape[0], error);
    if (result == 0 && config->text.labels_each) {
        int64_t last = dataset->symbol_count - shape[0] - 1;

        dataset->labels_each = true;
        dataset->streams = config->text.streams;
        dataset->last_ignored = (int32_t)(last % shape[0] ? shape[0] - last % shape[0] : 0);
    }
    return result;
}

/* ---- windows --------------------------------------------------------------------------------- */

struct dataset_view text_windows(const struct dataset *dataset, int64_t first, int64_t samples)
{
    int64_t context = dataset->sample_elements;
    int64_t rest = dataset->streams ? 0 : context - 1; /* that makes a window, too */
    int64_t count = (samples - 1 + rest) / context + 1;
    int64_t last = dataset->streams ? (count - 1) * context : samples - 1;

    return (struct dataset_view){.dataset = dataset,
                                 .first = first,
                                 .count = count,
                                 .stride = context,
                                 .last = first + last};
}

struct dataset_view text_training_windows(const struct dataset *dataset, int64_t first,
                                          int64_t samples)
{
    int64_t context = dataset->sample_elements;
    int64_t count = samples < context ? 1 : samples / context;

    return (struct dataset_view){.dataset = dataset,
                                 .first = first,
                                 .count = count,
                                 .stride = context,
                                 .last = first + samples - 1,
                                 .shifts = samples - (count - 1) * context};
}

int64_t dataset_view_shift(const struct dataset_view *view, uint64_t seed, uint32_t epoch)
{
    const uint64_t behind_order = UINT64_C(1) << 40; /* draws that sampler_permute() never makes */
    struct philox draw = philox_draw(seed, philox_stream(PHILOX_SHUFFLE, epoch), behind_order);

    return view->shifts > 1
               ? (int64_t)(((uint64_t)draw.word[0] << 32 | draw.word[1]) % (uint64_t)view->shifts)
               : 0;
}

/* ---- baselines ------------------------------------------------------------------------------- */

static int32_t symbol_at(const struct dataset *dataset, int64_t place)
{
    return dataset->element == DATASET_UINT8 ? ((const uint8_t *)dataset->buffer)[place]
                                             : ((const int32_t *)dataset->buffer)[place];
}

/* The symbols that are labels, from `first` to before `end`. */
struct places {
    int64_t first, end;
};

static struct places predicted_by(const struct dataset_view *view)
{
    const struct dataset *text = view->dataset;
    int64_t last = text->labels_each ? view->last : view->first + view->count - 1;
    int64_t first = view->first + (text->labels_each ? 1 : text->sample_elements);

    return (struct places){first, last + text->sample_elements + 1};
}

int text_baselines(const struct dataset_view *train, const struct dataset_view *validation,
                   struct text_baselines *baselines, struct error *error)
{
    const struct dataset *text = train->dataset;
    size_t symbols = (size_t)text->vocabulary.count;
    struct places predicted;

    if (!dataset_format_is_text(text->format) ||
        !dataset_format_is_text(validation->dataset->format) ||
        validation->dataset->vocabulary.count != text->vocabulary.count || !validation->count)
        return error_set(error, -EINVAL,
                         "baselines need a training and a validation text of one vocabulary");
    AUTO_FREE uint32_t *pairs = calloc(symbols * symbols, sizeof *pairs);
    AUTO_FREE int64_t *firsts = calloc(symbols, sizeof *firsts);
    if (!pairs || !firsts)
        return error_set(error, -ENOMEM, "not enough memory to count %zu x %zu pairs of symbols",
                         symbols, symbols);
    predicted = predicted_by(train);
    for (int64_t place = predicted.first; place < predicted.end; place++) {
        size_t before = (size_t)symbol_at(text, place - 1);

        pairs[before * symbols + (size_t)symbol_at(text, place)]++;
        firsts[before]++;
    }
    double sum = 0;
    predicted = predicted_by(validation);
    for (int64_t place = predicted.first; place < predicted.end; place++) {
        const struct dataset *other = validation->dataset;
        size_t before = (size_t)symbol_at(other, place - 1);

        sum -= log((pairs[before * symbols + (size_t)symbol_at(other, place)] + 1.0) /
                   ((double)firsts[before] + (double)symbols));
    }
    baselines->uniform = log((double)symbols);
    baselines->bigram = sum / (double)(predicted.end - predicted.first);
    return 0;
}
