/* tokens.c: see tokens.h. */
#include "engine/data/tokens.h"

#include "engine/data/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_VALUES = 256, NUCLEOTIDES = 5 };

#define EITHER(upper, lower, number) [upper] = (number) + 1, [lower] = (number) + 1
#define OTHER(upper, lower) EITHER(upper, lower, NUCLEOTIDE_OTHER)
const uint8_t nucleotide_numbers[BYTE_VALUES] = {
    EITHER('A', 'a', 0), EITHER('C', 'c', 1), EITHER('G', 'g', 2), EITHER('T', 't', 3),
    EITHER('U', 'u', 3), OTHER('N', 'n'),     OTHER('R', 'r'),     OTHER('Y', 'y'),
    OTHER('S', 's'),     OTHER('W', 'w'),     OTHER('K', 'k'),     OTHER('M', 'm'),
    OTHER('B', 'b'),     OTHER('D', 'd'),     OTHER('H', 'h'),     OTHER('V', 'v')};

int tokens_vocabulary(enum dataset_tokens tokens, int32_t kmer, int32_t kmer_stride,
                      struct dataset_vocabulary *vocabulary, struct error *error)
{
    *vocabulary = (struct dataset_vocabulary){.tokens = tokens, .is_padded = true};
    switch (tokens) {
    case DATASET_TOKENS_CHARACTERS:
        break;
    case DATASET_TOKENS_BYTES:
        vocabulary->bytes = true;
        vocabulary->symbols = malloc(BYTE_VALUES * sizeof *vocabulary->symbols);
        if (!vocabulary->symbols)
            return error_set(error, -ENOMEM, "not enough memory for the vocabulary");
        vocabulary->count = BYTE_VALUES;
        for (uint32_t i = 0; i < BYTE_VALUES; i++)
            vocabulary->symbols[i] = i;
        break;
    case DATASET_TOKENS_NUCLEOTIDES:
        vocabulary->count = NUCLEOTIDES;
        break;
    case DATASET_TOKENS_KMERS:
        if (kmer < 1 || kmer > DATASET_KMER_MAX || kmer_stride < 1)
            return error_set(error, -EINVAL,
                             "a k-mer has %d nucleotides and the next begins %d after it; the "
                             "first is 1 to %d, the second at least 1",
                             kmer, kmer_stride, DATASET_KMER_MAX);
        vocabulary->kmer = kmer;
        vocabulary->kmer_stride = kmer_stride;
        vocabulary->count = (1 << 2 * kmer) + 1;
        break;
    }
    return 0;
}

int64_t tokens_of_letters(const struct dataset_vocabulary *vocabulary, int64_t letters)
{
    if (vocabulary->tokens != DATASET_TOKENS_KMERS)
        return letters;
    return letters < vocabulary->kmer ? 0
                                      : (letters - vocabulary->kmer) / vocabulary->kmer_stride + 1;
}

int64_t letters_of_tokens(const struct dataset_vocabulary *vocabulary, int64_t tokens)
{
    if (vocabulary->tokens != DATASET_TOKENS_KMERS)
        return tokens;
    return (tokens - 1) * vocabulary->kmer_stride + vocabulary->kmer;
}

CONVERSION static void widen(const uint8_t *letters, int32_t *row, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        row[i] = letters[i];
}

static int64_t write_kmers(const struct dataset_vocabulary *vocabulary, const uint8_t *letters,
                           int64_t count, int32_t *row)
{
    int32_t kmer = vocabulary->kmer, unknown = vocabulary->count - 1, number = 0;
    int64_t written = 0, next = kmer - 1; /* where the next k-mer ends */
    int64_t other = -1;                   /* the latest place without A C G T */

    for (int64_t i = 0; i < count; i++) {
        if (letters[i] == NUCLEOTIDE_OTHER)
            other = i;
        number = (number << 2 | (letters[i] & 3)) & (unknown - 1);
        if (i == next) {
            row[written++] = other > i - kmer ? unknown : number;
            next += vocabulary->kmer_stride;
        }
    }
    return written;
}

int64_t tokens_write(const struct dataset_vocabulary *vocabulary, enum dataset_element element,
                     const void *letters, int64_t count, int32_t *row)
{
    if (vocabulary->tokens == DATASET_TOKENS_KMERS)
        return write_kmers(vocabulary, letters, count, row);
    if (element == DATASET_UINT8)
        widen(letters, row, count);
    else
        memcpy(row, letters, (size_t)count * sizeof *row);
    return count;
}
