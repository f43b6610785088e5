/* vocabulary.c: the symbols of a text or of sequences: bytes, UTF-8 code points, nucleotides or
 * k-mers of them. */
#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/reader.h"
#include "engine/data/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_POINT_END = 0x110000, CODE_POINT_DIGITS_MAX = 6 };

uint32_t vocabulary_next(bool bytes, const uint8_t **text, const uint8_t *end)
{
    const uint8_t *at = *text;
    uint32_t first = *at;
    int more = bytes || first < 0xc0 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    uint32_t symbol = more ? first & (0x3fu >> more) : first;

    for (at++; more > 0 && at < end; more--)
        symbol = symbol << 6 | (*at++ & 0x3fu);
    *text = at;
    return symbol;
}

static int encode_utf8(uint32_t symbol, char bytes[4])
{
    if (symbol < 0x80) {
        bytes[0] = (char)symbol;
        return 1;
    }
    int more = symbol < 0x800 ? 1 : symbol < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};

    bytes[0] = (char)(lead[more] | symbol >> (6 * more));
    for (int i = 1; i <= more; i++)
        bytes[i] = (char)(0x80 | (symbol >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

char *vocabulary_name_symbol(bool bytes, uint32_t symbol, char *output, size_t size)
{
    char text[5] = "";

    if (bytes) {
        snprintf(output, size, "byte 0x%02X", symbol);
    } else if (symbol < 0x20 || (symbol >= 0x7f && symbol < 0xa0)) {
        snprintf(output, size, "U+%04X", symbol);
    } else {
        encode_utf8(symbol, text);
        snprintf(output, size, "\"%s\" (U+%04X)", text, symbol);
    }
    return output;
}

int32_t vocabulary_find(const struct dataset_vocabulary *vocabulary, uint32_t symbol)
{
    int32_t low = 0, high = vocabulary->count;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (vocabulary->symbols[middle] < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return low < vocabulary->count && vocabulary->symbols[low] == symbol ? low : -1;
}

static int encode_nucleotides(const struct dataset_vocabulary *vocabulary, const char *text,
                              int32_t *symbols, size_t capacity, size_t *count, struct error *error)
{
    int64_t length = (int64_t)strlen(text), most = letters_of_tokens(vocabulary, (int64_t)capacity);
    AUTO_FREE uint8_t *letters = malloc((size_t)length + 1);

    *count = 0;
    if (!letters)
        return error_no_memory(error, "the letters");
    for (int64_t i = 0; i < length; i++) {
        letters[i] = nucleotide_number((uint8_t)text[i]);
        if (letters[i] == NUCLEOTIDE_NONE)
            return error_set(error, -EINVAL, "letter %lld of the sequence is no nucleotide",
                             (long long)i + 1);
    }
    if (capacity)
        *count = (size_t)tokens_write(vocabulary, DATASET_UINT8, letters,
                                      length < most ? length : most, symbols);
    return 0;
}

int dataset_vocabulary_encode(const struct dataset_vocabulary *vocabulary, const char *text,
                              int32_t *symbols, size_t capacity, size_t *count, struct error *error)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);

    if (!vocabulary->symbols)
        return encode_nucleotides(vocabulary, text, symbols, capacity, count, error);
    if (!vocabulary->bytes && !text_is_utf8(text, (size_t)(end - at)))
        return error_set(error, -EINVAL, "the text is not valid UTF-8");
    for (*count = 0; at < end && *count < capacity; ++*count) {
        uint32_t symbol = vocabulary_next(vocabulary->bytes, &at, end);
        int32_t number = vocabulary_find(vocabulary, symbol);
        char name[32];

        if (number < 0)
            return error_set(
                error, -EINVAL, "symbol %zu of the text, %s, does not occur in the training text",
                *count + 1, vocabulary_name_symbol(vocabulary->bytes, symbol, name, sizeof name));
        symbols[*count] = number;
    }
    return 0;
}

int dataset_vocabulary_decode(const struct dataset_vocabulary *vocabulary, int32_t symbol,
                              char bytes[4])
{
    if (symbol < 0 || symbol >= vocabulary->count || !vocabulary->symbols)
        return 0;
    if (vocabulary->bytes) {
        bytes[0] = (char)vocabulary->symbols[symbol];
        return 1;
    }
    return encode_utf8(vocabulary->symbols[symbol], bytes);
}

static const char padded_word[] = "padded ";

char *dataset_vocabulary_format(const struct dataset_vocabulary *vocabulary)
{
    int32_t listed = vocabulary->symbols ? vocabulary->count : 0;
    size_t size = 48 + (size_t)listed * (CODE_POINT_DIGITS_MAX + 1), used;
    char *text = malloc(size);

    if (!text)
        return NULL;
    used = (size_t)snprintf(text, size, "%s%s", vocabulary->is_padded ? padded_word : "",
                            vocabulary->bytes     ? "bytes"
                            : vocabulary->symbols ? "utf-8"
                                                  : dataset_tokens_to_string(vocabulary->tokens));
    if (vocabulary->tokens == DATASET_TOKENS_KMERS)
        snprintf(text + used, size - used, " %d %d", vocabulary->kmer, vocabulary->kmer_stride);
    for (int32_t i = 0; i < listed; i++)
        used += (size_t)snprintf(text + used, size - used, " %x", vocabulary->symbols[i]);
    return text;
}

static int parse_symbols(const char *text, struct dataset_vocabulary *vocabulary,
                         struct error *error)
{
    uint32_t end = vocabulary->bytes ? 256 : CODE_POINT_END;

    while (*text) {
        char *after;
        unsigned long symbol = strtoul(text, &after, 16);

        if (*text != ' ' || after == text || symbol >= end || vocabulary->count >= (int32_t)end ||
            (vocabulary->count && symbol <= vocabulary->symbols[vocabulary->count - 1]))
            return error_set(error, -EINVAL, "the stored vocabulary is damaged near its symbol %d",
                             vocabulary->count + 1);
        vocabulary->symbols[vocabulary->count++] = (uint32_t)symbol;
        text = after;
    }
    return 0;
}

/* The kinds without a list of symbols. Whether the text names one of them. */
static bool parse_nucleotides(const char *text, struct dataset_vocabulary *vocabulary,
                              struct error *error)
{
    int kmer = 1, kmer_stride = 1, end = 0;

    if (strcmp(text, "nucleotides") == 0)
        return tokens_vocabulary(DATASET_TOKENS_NUCLEOTIDES, 0, 0, vocabulary, error) == 0;
    return sscanf(text, "kmers %d %d%n", &kmer, &kmer_stride, &end) == 2 && !text[end] &&
           tokens_vocabulary(DATASET_TOKENS_KMERS, kmer, kmer_stride, vocabulary, error) == 0;
}

int dataset_vocabulary_parse(const char *text, struct dataset_vocabulary *vocabulary,
                             struct error *error)
{
    bool padded = strncmp(text, padded_word, sizeof padded_word - 1) == 0;
    struct dataset_vocabulary made = {.is_padded = padded};
    int result;

    text += padded ? sizeof padded_word - 1 : 0;
    if (padded && parse_nucleotides(text, vocabulary, error))
        return 0;
    made.bytes = strncmp(text, "bytes", 5) == 0;
    if (made.bytes && padded)
        made.tokens = DATASET_TOKENS_BYTES;
    if (!made.bytes && strncmp(text, "utf-8", 5) != 0)
        return error_set(error, -EINVAL,
                         "the stored vocabulary is damaged: it names no kind of symbols");
    made.symbols = malloc((strlen(text) / 2 + 1) * sizeof *made.symbols);
    if (!made.symbols)
        return error_set(error, -ENOMEM, "not enough memory for the vocabulary");
    result = parse_symbols(text + 5, &made, error);
    if (result < 0)
        dataset_vocabulary_release(&made);
    else
        *vocabulary = made;
    return result;
}

void dataset_vocabulary_release(struct dataset_vocabulary *vocabulary)
{
    free(vocabulary->symbols);
    *vocabulary = (struct dataset_vocabulary){0};
}
