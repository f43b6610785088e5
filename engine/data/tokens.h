/* tokens.h: sequences of letters become tokens. A set keeps the letters: the numbers of
 * characters, bytes or nucleotides; k-mers are made of them when a batch is gathered. Internal to
 * the folder. */
#pragma once

#include "engine/data/dataset.h"

enum { NUCLEOTIDE_OTHER = 4, NUCLEOTIDE_NONE = 0xff };

/* The number of A C G T (or U) in either case; NUCLEOTIDE_OTHER for N and the codes that stand for
 * several nucleotides (IUPAC-IUB, doi:10.1093/nar/13.9.3021); else NUCLEOTIDE_NONE. */
static inline uint8_t nucleotide_number(uint8_t letter)
{
    extern const uint8_t nucleotide_numbers[256]; /* plus 1 */

    return (uint8_t)(nucleotide_numbers[letter] - 1);
}

/* The vocabulary of the kind, with a padding; of characters it is still empty. */
int tokens_vocabulary(enum dataset_tokens tokens, int32_t kmer, int32_t kmer_stride,
                      struct dataset_vocabulary *vocabulary, struct error *error);

/* The number of tokens that so many letters give, and of letters that so many tokens take. */
int64_t tokens_of_letters(const struct dataset_vocabulary *vocabulary, int64_t letters);
int64_t letters_of_tokens(const struct dataset_vocabulary *vocabulary, int64_t tokens);

/* The tokens of `letters` (uint8 or int32, as `element` says) into `row`; returns their number. */
int64_t tokens_write(const struct dataset_vocabulary *vocabulary, enum dataset_element element,
                     const void *letters, int64_t count, int32_t *row);
