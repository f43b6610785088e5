/* vocabulary.c: the symbols of a text: bytes, or UTF-8 code points. */
#include "base/text.h"
#include "engine/data/reader.h"

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

int dataset_vocabulary_encode(const struct dataset_vocabulary *vocabulary, const char *text,
                              int32_t *symbols, size_t capacity, size_t *count, struct error *error)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);

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
    if (symbol < 0 || symbol >= vocabulary->count)
        return 0;
    if (vocabulary->bytes) {
        bytes[0] = (char)vocabulary->symbols[symbol];
        return 1;
    }
    return encode_utf8(vocabulary->symbols[symbol], bytes);
}

char *dataset_vocabulary_format(const struct dataset_vocabulary *vocabulary)
{
    size_t size = 8 + (size_t)vocabulary->count * (CODE_POINT_DIGITS_MAX + 1);
    char *text = malloc(size);

    if (!text)
        return NULL;
    size_t used = (size_t)snprintf(text, size, "%s", vocabulary->bytes ? "bytes" : "utf-8");
    for (int32_t i = 0; i < vocabulary->count; i++)
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

int dataset_vocabulary_parse(const char *text, struct dataset_vocabulary *vocabulary,
                             struct error *error)
{
    struct dataset_vocabulary made = {.bytes = strncmp(text, "bytes", 5) == 0};
    int result;

    if (!made.bytes && strncmp(text, "utf-8", 5) != 0)
        return error_set(error, -EINVAL,
                         "the stored vocabulary is damaged: it names neither bytes nor utf-8");
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
